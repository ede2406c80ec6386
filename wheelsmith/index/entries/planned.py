"""Which cells the versions of a project are to have a wheel for, as several matrices may say it."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import Version

from wheelsmith.index.entries.entry import CellWithoutWheel, NoWheel, PlannedVersion


def merge_planned(
    before: Iterable[PlannedVersion], new: Iterable[PlannedVersion], answers: Iterable[CellWithoutWheel]
) -> tuple[PlannedVersion, ...]:
    """Return what is planned once more is said: several matrices may plan cells of one version.

    :param answers: what became of cells without a wheel, some of which a build left out.
    """
    excluded = [
        PlannedVersion(version=each.version, cells=(), excluded=(each.cell.id,))
        for each in answers
        if each.status is NoWheel.EXCLUDED
    ]
    said = [*before, *new]
    merged: dict[Version, tuple[set[str], set[str]]] = {Version(item.version): (set(), set()) for item in said}
    for item in (*said, *excluded):
        # Where nobody says what is planned, nothing is known to be missing.
        if both := merged.get(Version(item.version)):
            both[0].update(item.cells)
            both[1].update(item.excluded)
    return tuple(
        PlannedVersion(version=str(version), cells=tuple(sorted(cells)), excluded=tuple(sorted(left_out & cells)))
        for version, (cells, left_out) in sorted(merged.items())
    )
