"""Which cells a version is to have a wheel for, and which of them have one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import Version

from wheelsmith.base.record import Record
from wheelsmith.index.entries.entry import IndexEntry, NoWheel, ProjectState
from wheelsmith.index.entries.state import version_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness(Record):
    """What a version has of what is planned for it.

    :param version: of the kernel, without a local part.
    :param planned: ids of the cells that are to have a wheel, sorted.
    :param missing: those of them that have none, or a yanked one alone.
    """

    version: str
    planned: tuple[str, ...]
    missing: tuple[str, ...]

    def __str__(self) -> str:
        """Return it in words."""
        served = len(self.planned) - len(self.missing)
        return f"version {self.version}: {served} of {len(self.planned)} planned cells have a wheel"


def completeness(state: ProjectState, version: str) -> Completeness | None:
    """Return what a version has; None where nobody said what is planned.

    :param version: without a local part.
    """
    asked = Version(version)
    planned = next((item for item in state.planned if Version(item.version) == asked), None)
    if planned is None:
        return None
    answers = {answer.cell.id: answer.status for answer in state.answers if Version(answer.version) == asked}
    left_out = {*planned.excluded, *(name for name, status in answers.items() if status is NoWheel.EXCLUDED)}
    # A build that failed after another had left the cell out.
    left_out -= {name for name, status in answers.items() if status is NoWheel.FAILED}
    wanted = tuple(name for name in planned.cells if name not in left_out)
    served = {cell.id for entry in of_version(state.entries, version) if entry.yanked is None for cell in entry.cells}
    return Completeness(
        version=planned.version, planned=wanted, missing=tuple(name for name in wanted if name not in served)
    )


def of_version(entries: Iterable[IndexEntry], version: str) -> tuple[IndexEntry, ...]:
    """Return the wheels of a version, its variant wheels among them."""
    asked = Version(version)
    return tuple(entry for entry in entries if Version(version_of(entry).public) == asked)
