"""What a version of a project has that the one before had not, by its cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.version import Version

from wheelsmith.base.json_dataclass import Record
from wheelsmith.index.entries.catalogue import Catalogue, CatalogueWheel


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange(Record):
    """One cell in both versions; None where a version has no wheel for it.

    :param before: the wheel of the older version.
    :param now: the wheel of the newer one.
    :param reason: why it has none any more, as far as somebody said so.
    """

    cell: str
    before: CatalogueWheel | None
    now: CatalogueWheel | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanges(Record):
    """What became of every cell between two versions.

    :param before: the older version, without a local part; None where there is none.
    :param cells: those of either version, and those that should have a wheel; sorted.
    """

    project: str
    version: str
    before: str | None
    cells: tuple[CellChange, ...]


def version_changes(earlier: Catalogue, now: Catalogue, version: str) -> VersionChanges:
    """Return what a version brings.

    :param earlier: what was published before; the newest version in it that is older is what it is compared with.
    :param now: has the version.
    :param version: without a local part.
    """
    asked = Version(version)
    older = max((version for version in _versions(earlier) if version < asked), default=None)
    before = _by_cell(earlier, older) if older else {}
    current = _by_cell(now, asked)
    said = {item.cell.id: f"{item.status}: {item.reason}" for item in now.unserved if Version(item.version) == asked}
    missing = (each.missing for each in now.versions if Version(each.version) == asked)
    reasons = {name: "planned, and not built" for names in missing for name in names} | said
    cells = tuple(
        CellChange(cell=name, before=before.get(name), now=current.get(name), reason=reasons.get(name))
        for name in sorted({*before, *current, *reasons})
    )
    return VersionChanges(project=now.project, version=str(asked), before=str(older) if older else None, cells=cells)


def _versions(catalogue: Catalogue) -> Iterator[Version]:
    for wheel in catalogue.wheels:
        if wheel.yanked is None:
            yield Version(Version(wheel.version).public)


def _by_cell(catalogue: Catalogue, version: Version) -> Mapping[str, CatalogueWheel]:
    return {
        cell.id: wheel
        for wheel in catalogue.wheels
        if wheel.yanked is None and Version(Version(wheel.version).public) == version
        for cell in wheel.cells
    }
