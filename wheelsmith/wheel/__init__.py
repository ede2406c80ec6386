"""Wheels: repaired to the platform tag they have earned, and proven to tell the truth."""

from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.facts import wheel_file
from wheelsmith.wheel.repair import repair
from wheelsmith.wheel.report import CheckReport, Finding

__all__ = ["CheckReport", "Finding", "check_wheel", "repair", "wheel_file"]
