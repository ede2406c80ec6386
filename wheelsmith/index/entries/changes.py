"""Compare a version of a project with the one before it, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packaging.version import Version

from wheelsmith.index.entries.catalogue import Catalogue
from wheelsmith.index.entries.entry import IndexEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """One cell in both versions.

    :param before: the wheel of the older version, if it has one.
    :param now: the wheel of the newer one, if it has one.
    :param reason: why it has none, as far as that is known.
    """

    cell: str
    before: IndexEntry | None
    now: IndexEntry | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanges:
    """The cells of two versions.

    :param before: the older version, without a local part; None if there is none.
    :param cells: those of either version, and those that should have a wheel; sorted.
    """

    project: str
    version: str
    before: str | None
    cells: tuple[CellChange, ...]


def version_changes(earlier: Catalogue, now: Catalogue, version: str) -> VersionChanges:
    """Return what a version brings.

    :param earlier: what was published before; its newest version that is older is compared.
    :param now: has the version.
    :param version: without a local part.
    """
    newer = Version(version)
    published = {wheel.public for wheel in earlier.wheels if wheel.yanked is None}
    older = max((version for version in published if version < newer), default=None)
    before = _by_cell(earlier, older) if older else {}
    current = _by_cell(now, newer)
    told = {item.cell.id: f"{item.status}: {item.reason}" for item in now.unserved if Version(item.version) == newer}
    missing = (each.missing for each in now.versions if Version(each.version) == newer)
    reasons = {name: "planned, and not built" for names in missing for name in names} | told
    cells = tuple(
        CellChange(cell=name, before=before.get(name), now=current.get(name), reason=reasons.get(name))
        for name in sorted({*before, *current, *reasons})
    )
    return VersionChanges(project=now.project, version=str(newer), before=str(older) if older else None, cells=cells)


def _by_cell(catalogue: Catalogue, version: Version) -> Mapping[str, IndexEntry]:
    wheels = (wheel for wheel in catalogue.wheels if wheel.yanked is None and wheel.public == version)
    return {cell.id: wheel for wheel in wheels for cell in wheel.cells}
