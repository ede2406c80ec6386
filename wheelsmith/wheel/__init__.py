"""Wheels: repaired to the platform tag they have earned, and proven to tell the truth."""

from wheelsmith.wheel.check import check_wheel, torch_mistake
from wheelsmith.wheel.facts import wheel_file
from wheelsmith.wheel.finished import CHECKING, FINISHED, LEFT, ORDER, PACKED, Finished, Order
from wheelsmith.wheel.repair import repair
from wheelsmith.wheel.report import CheckReport, Finding
from wheelsmith.wheel.variant import make_variant, read_variant

__all__ = [
    "CHECKING",
    "FINISHED",
    "LEFT",
    "ORDER",
    "PACKED",
    "CheckReport",
    "Finding",
    "Finished",
    "Order",
    "check_wheel",
    "make_variant",
    "read_variant",
    "repair",
    "torch_mistake",
    "wheel_file",
]
