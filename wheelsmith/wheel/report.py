"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass

from wheelsmith.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Record):
    """One rule, and whether the wheel keeps it; the message says what was seen."""

    rule: str
    ok: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Record):
    """Every rule that applies to one wheel."""

    wheel: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Say whether the wheel tells the truth."""
        return all(finding.ok for finding in self.findings)


def finding(rule: str, wrong: list[str], right: str) -> Finding:
    """Give what a rule found: the first things that are wrong, or what is right."""
    return Finding(rule=rule, ok=not wrong, message="; ".join(wrong[:5]) if wrong else right)
