"""Wheels: repaired to the platform tag they have earned, and proven to tell the truth."""

from wheelsmith.wheel.check import check_wheel, torch_mistake
from wheelsmith.wheel.facts import wheel_file
from wheelsmith.wheel.repair import repair
from wheelsmith.wheel.report import CheckReport, Finding
from wheelsmith.wheel.variant import make_variant, read_variant

__all__ = [
    "CheckReport",
    "Finding",
    "check_wheel",
    "make_variant",
    "read_variant",
    "repair",
    "torch_mistake",
    "wheel_file",
]
