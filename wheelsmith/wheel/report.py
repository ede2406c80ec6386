"""The findings of a check, and the request to repair and check a wheel with its response."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import WheelRecord, WheelSpec

# Maximum characters of a name, of one mistake, and of a message. C++ symbols can have 250.
_MAX_NAME, _MAX_MISTAKE, _MAX_MESSAGE = 250, 600, 1900
_NAME = re.compile(rf"\S{{{_MAX_NAME},}}")
_SHOWN = 100
# Subfolders of a job's folder: the raw wheel from the build, and the finished one.
LEFT, PACKED = "left", "packed"
# The worker prints this line when the check begins.
CHECKING = "wheelsmith: check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Record):
    """The result of one rule, with a message. A note is shown although the rule passes."""

    rule: str
    ok: bool
    message: str
    note: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Record):
    """The findings of every rule that applies to one wheel."""

    wheel: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True if the wheel passed every rule."""
        return all(finding.ok for finding in self.findings)


def finding(rule: str, mistakes: list[str], success: str) -> Finding:
    """Return a finding from a rule's mistakes.

    :param mistakes: the rule passes if there are none. The message contains the first five.
    :param success: message if the rule passes.
    """
    return Finding(
        rule=rule,
        ok=not mistakes,
        message=readable("; ".join(readable(item, _MAX_MISTAKE) for item in mistakes[:5]) or success),
    )


def readable(text: str, max_length: int = _MAX_MESSAGE) -> str:
    """Return a message that is safe to print: shortened, and without control characters.

    :param max_length: maximum number of characters.
    """
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: 4 * max_length])
    short = _NAME.sub(lambda found: f"{found[0][:_SHOWN]}…", plain)
    return short if len(short) <= max_length else f"{short[:max_length]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest(Record):
    """A request to repair and check the wheel under ``left``.

    :param spec: the planned wheel.
    :param members: exact list of files, without METADATA, WHEEL and RECORD; None allows any.
    :param plan: the plan to record in the wheel.
    :param grafts: the wheel was linked on this machine, so its libraries may be copied into the wheel.
    :param policy: platform that the wheel was built for, e.g. ``manylinux_2_28``; None computes it from the symbols.
    """

    spec: WheelSpec
    members: tuple[str, ...] | None
    plan: str
    grafts: bool
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResponse(Record):
    """The report of the check, and the finished wheel if it passed."""

    report: CheckReport
    wheel: WheelRecord | None = None
