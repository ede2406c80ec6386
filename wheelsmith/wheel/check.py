"""Prove, from its bytes alone, that a wheel tells the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from wheelsmith.base.errors import WheelError
from wheelsmith.model import WheelSpec
from wheelsmith.wheel.gpu.code import joined
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import CheckReport, Finding, readable
from wheelsmith.wheel.rules import RULES, requirements


def check_wheel(path: Path, expected: WheelSpec | None = None, declared: Sequence[str] = ()) -> CheckReport:
    """Check every rule that applies.

    :param expected: what the plan promised; without it, all that the wheel itself claims is still proven.
    :param declared: patterns of files that are meant, though they are another project's; those of the plan are
        declared already.
    :raises WheelError: the file cannot be read as a wheel at all.
    """
    return check_and_read(path, expected, declared)[0]


def check_and_read(
    path: Path, expected: WheelSpec | None = None, declared: Sequence[str] = ()
) -> tuple[CheckReport, tuple[str, ...]]:
    """Return what ``check_wheel`` finds, and what a wheel that tells the truth has machine code for.

    :raises WheelError: as ``check_wheel``.
    """
    meant = (*declared, *(expected.declared if expected else ()))
    with Inspection(path, expected, meant) as wheel:
        report = CheckReport(wheel=path.name, findings=tuple(_findings(wheel)))
        return report, joined(wheel.gpu_code.values()).runs if report.ok else ()


def framework_mistake(path: Path) -> str | None:
    """Return why what a wheel requires of its framework is not what its version says; None where it is.

    :raises WheelError: the file cannot be read as a wheel at all.
    """
    with Inspection(path) as wheel:
        rules = (requirements.TORCH_REQUIREMENT, requirements.FRAMEWORK_REQUIREMENT)
        findings = [found for rule in rules for found in rule.findings(wheel)]
        return next((found.message for found in findings if not found.ok), None)


def _findings(wheel: Inspection) -> Iterator[Finding]:
    reported: set[str] = set()
    for rule in RULES:
        try:
            yield from rule.findings(wheel)
        except WheelError as error:
            # Several rules may ask for what cannot be read: the first one that did has said so.
            if error.message not in reported:
                yield Finding(rule=rule.name, ok=False, message=readable(error.message))
            reported.add(error.message)
