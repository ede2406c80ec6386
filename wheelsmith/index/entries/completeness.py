"""Which cells a version is to have a wheel for, and which of them have one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from packaging.version import Version

from wheelsmith.base.json_dataclass import Record
from wheelsmith.index.entries.entry import IndexEntry, PlannedVersion, ProjectState
from wheelsmith.index.entries.state import public_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness(Record):
    """What a version has of what is planned for it.

    :param version: of the kernel, without a local part.
    :param planned: ids of the cells that are to have a wheel, sorted.
    :param missing: those of them that have none which everybody may see, or a yanked one alone.
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
    return _completeness(planned, _served(of_version(state.entries, version))) if planned else None


def all_completeness(state: ProjectState) -> tuple[Completeness, ...]:
    """Return what each version has of which somebody said what is planned, the newest first."""
    entries: dict[Version, list[IndexEntry]] = {}
    for entry in state.entries:
        entries.setdefault(public_of(entry), []).append(entry)
    served: Mapping[Version, Collection[str]] = {version: _served(found) for version, found in entries.items()}
    none: Collection[str] = frozenset()
    return tuple(_completeness(item, served.get(Version(item.version), none)) for item in reversed(state.planned))


def of_version(entries: Iterable[IndexEntry], version: str) -> tuple[IndexEntry, ...]:
    """Return the wheels of a version, its variant wheels among them."""
    asked = Version(version)
    return tuple(entry for entry in entries if public_of(entry) == asked)


def _completeness(planned: PlannedVersion, served: Collection[str]) -> Completeness:
    # Left out is what a run excluded and none has tried to build.
    left_out = set(planned.excluded) - set(planned.tried)
    wanted = tuple(name for name in planned.cells if name not in left_out)
    missing = tuple(name for name in wanted if name not in served)
    return Completeness(version=planned.version, planned=wanted, missing=missing)


def _served(entries: Iterable[IndexEntry]) -> set[str]:
    """Return the cells that have a plain wheel in good standing, on a page."""
    standing = (entry for entry in entries if entry.yanked is None and entry.variant is None)
    return {cell.id for entry in standing for cell in entry.cells if cell.settings.advertise}
