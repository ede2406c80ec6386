"""What came of building wheels again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wheelsmith.base.json_dataclass import Record


class Verdict(StrEnum):
    """How a wheel stands to the one that was built again."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_REBUILT = "not rebuilt"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildAnswer(Record):
    """One wheel, and what came of it.

    :param sha256: of the wheel that was given.
    :param plan: the digest of the plan that it records; None where it records none.
    :param differences: members and places that differ, or why it was not built again.
    """

    wheel: str
    sha256: str
    plan: str | None
    verdict: Verdict
    differences: tuple[str, ...] = ()
