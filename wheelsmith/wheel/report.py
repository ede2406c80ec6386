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
