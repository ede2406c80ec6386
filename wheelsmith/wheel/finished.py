"""What the program that finishes a wheel is told, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import WheelFile, WheelSpec
from wheelsmith.wheel.report import CheckReport

ORDER, LEFT, FINISHED, PACKED = "order.json", "left", "finished.json", "packed"
# Said when the second stage begins.
CHECKING = "wheelsmith: check"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest(Record):
    """What to make of the wheel.

    :param spec: what the plan promised.
    :param members: every file that the wheel must hold besides its own records; None leaves it open.
    :param plan: what the wheel records of how it was made; None records nothing.
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
    """What came of it: a wheel that was checked, or why there is none.

    :param refusal: why it could not be repaired, with what fixes that.
    """

    wheel: WheelFile | None = None
    report: CheckReport | None = None
    refusal: str | None = None
    remedy: str | None = None
