"""The request to repair and check a wheel, and the response."""

from __future__ import annotations

from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import WheelRecord, WheelSpec
from wheelsmith.wheel.report import CheckReport

# In the folder of a job: the wheel that the build left, and the finished one.
LEFT, PACKED = "left", "packed"
# The worker prints it when the check begins.
CHECKING = "wheelsmith: check"


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
