"""Prove, from its bytes alone, that a wheel tells the truth."""

from __future__ import annotations

from pathlib import Path

from wheelsmith.model import WheelSpec
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import CheckReport
from wheelsmith.wheel.rules import RULES


def check_wheel(path: Path, expected: WheelSpec | None = None) -> CheckReport:
    """Check every rule that applies.

    :param expected: what the plan promised; without it, all that the wheel itself claims is still proven.
    :raises WheelError: the file cannot be read as a wheel at all.
    """
    wheel = Inspection(path, expected)
    return CheckReport(wheel=path.name, findings=tuple(found for rule in RULES for found in rule.findings(wheel)))
