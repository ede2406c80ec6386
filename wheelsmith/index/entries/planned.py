"""Which cells the versions of a project are to have a wheel for, as several runs may say it, in any order."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import Version

from wheelsmith.index.entries.entry import PlannedVersion


def merge_planned(before: Iterable[PlannedVersion], new: Iterable[PlannedVersion]) -> tuple[PlannedVersion, ...]:
    """Return what is planned once more is said: several matrices may plan cells of one version."""
    merged: dict[Version, tuple[set[str], set[str], set[str]]] = {}
    for item in (*before, *new):
        cells, excluded, tried = merged.setdefault(Version(item.version), (set(), set(), set()))
        cells.update(item.cells)
        excluded.update(item.excluded)
        tried.update(item.tried)
    return tuple(
        PlannedVersion(
            version=str(version),
            cells=tuple(sorted(cells)),
            excluded=tuple(sorted(excluded)),
            tried=tuple(sorted(tried)),
        )
        for version, (cells, excluded, tried) in sorted(merged.items())
    )
