"""The findings of a check, and the request to repair and check a wheel with its response."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import WheelRecord, WheelSpec

# Characters that a message may spend on a name, on one thing that is wrong, and in all. C++ has names of 250.
_LONGEST_NAME, _LONGEST_THING, _LONGEST = 250, 600, 1900
_NAME = re.compile(rf"\S{{{_LONGEST_NAME},}}")
_SHOWN = 100
# In the folder of a job: the wheel that the build left, and the finished one.
LEFT, PACKED = "left", "packed"
# The worker prints it when the check begins.
CHECKING = "wheelsmith: check"


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
    """Return what a rule found: the first things that are wrong, or what is right."""
    return Finding(
        rule=rule,
        ok=not wrong,
        message=readable("; ".join(readable(item, _LONGEST_THING) for item in wrong[:5]) or right),
    )


def readable(text: str, longest: int = _LONGEST) -> str:
    """Return a message that a person can read, whatever names a wheel has: cut, and without control characters.

    :param longest: characters that it may have.
    """
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: 4 * longest])
    short = _NAME.sub(lambda found: f"{found[0][:_SHOWN]}…", plain)
    return short if len(short) <= longest else f"{short[:longest]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest(Record):
    """What to make of the wheel under ``left``.

    :param spec: what the plan promised.
    :param members: every file that the wheel must hold besides its own records; None leaves it open.
    :param plan: the plan to record in the wheel; None records nothing.
    :param grafts: it was linked here, so that libraries of this machine may be put into it.
    :param policy: that it was built for, as ``manylinux_2_28``; None takes what its symbols allow.
    """

    spec: WheelSpec
    members: tuple[str, ...] | None
    plan: str | None
    grafts: bool
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResponse(Record):
    """The report of the check, and the wheel if it passed."""

    report: CheckReport
    wheel: WheelRecord | None = None
