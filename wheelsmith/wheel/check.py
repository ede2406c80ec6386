"""Check the bytes of a wheel against every rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from wheelsmith.base.errors import WheelError
from wheelsmith.model import WheelSpec
from wheelsmith.wheel.gpu.code import combine_gpu_code
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import CheckReport, Finding, readable
from wheelsmith.wheel.rules import RULES, requirements


def check_wheel(path: Path, expected: WheelSpec | None = None, declared: Sequence[str] = ()) -> CheckReport:
    """Check a wheel against every rule that applies.

    :param expected: the planned wheel. Without it, the wheel is only compared with its own claims.
    :param declared: patterns of files that are intended, although they belong to another project.
    :raises WheelError: the file cannot be read as a wheel.
    """
    return check_with_capabilities(path, expected, declared)[0]


def check_with_capabilities(
    path: Path, expected: WheelSpec | None = None, declared: Sequence[str] = ()
) -> tuple[CheckReport, tuple[str, ...]]:
    """Return the report of ``check_wheel``, and the capabilities of the machine code if the wheel passed.

    :raises WheelError: the file cannot be read as a wheel.
    """
    meant = (*declared, *(expected.declared if expected else ()))
    with Inspection(path, expected, meant) as wheel:
        report = CheckReport(wheel=path.name, findings=tuple(_findings(wheel)))
        return report, combine_gpu_code(wheel.gpu_code.values()).machine_capabilities if report.ok else ()


def framework_mistake(path: Path) -> str | None:
    """Return how a wheel's framework requirement contradicts its version, or None if it does not.

    :raises WheelError: the file cannot be read as a wheel.
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
            # Several rules may need the same unreadable file. Only the first one reports it.
            if error.message not in reported:
                yield Finding(rule=rule.name, ok=False, message=readable(error.message))
            reported.add(error.message)
