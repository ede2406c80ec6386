"""The grid of the index's front page: a row for each project, a column for each release, and commands for groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wheelsmith.base.units import release_order
from wheelsmith.index.resolve.install_commands import Installer, Presence, framework_slots, template_for_group
from wheelsmith.index.resolve.target import Target
from wheelsmith.index.site.coverage import CoverageRow, Covered, spread
from wheelsmith.index.site.grid import GridStatus
from wheelsmith.index.site.listing import Listing
from wheelsmith.index.site.picker import format_releases
from wheelsmith.model import NO_FRAMEWORK, TORCH
from wheelsmith.platforms import compute_order

_INSTALLERS = (Installer.PIP, Installer.UV)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The compute platforms in one cell of the grid, for CPU architectures and Pythons for which they are equal.

    :param pythons: the Pythons; empty for every Python.
    """

    archs: tuple[str, ...]
    pythons: tuple[str, ...]
    covered: tuple[Covered, ...]

    @property
    def machine(self) -> str:
        """Return the architectures and the Pythons as text."""
        pythons = (f"Python {format_releases(self.pythons)}",) if self.pythons else ()
        return ", ".join([*self.archs, *pythons])


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRow:
    """One project.

    :param cells: the marks in each column.
    :param machine: the architectures and the Pythons of all cells; None if they differ.
    :param stable: the releases that its newest wheels accept, e.g. ``torch ≥2.10``; None if they are for one release.
    """

    project: str
    listing: Listing
    cells: tuple[tuple[Marks, ...], ...]
    machine: str | None
    stable: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The grid of all projects, and the values of its filters.

    :param columns: frameworks and releases, newest first.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[FrontRow, ...]
    computes: tuple[str, ...]
    archs: tuple[str, ...]
    legend: tuple[GridStatus, ...]


def make_front(listing: Mapping[str, Listing]) -> Front:
    """Return the grid of some projects, sorted by name."""
    rows = spread(row for name in sorted(listing) for row in listing[name].coverage)
    every = [each for row in rows for each in row.combinations]
    columns = sorted(
        {(each.framework, each.release) for each in every},
        key=lambda place: (place[0] == TORCH, release_order(place[1])),
        reverse=True,
    )
    used = {each.status.shown for each in every}
    return Front(
        columns=tuple(columns),
        rows=tuple(
            _front_row(listing[name], name, [row for row in rows if row.project == name], columns)
            for name in sorted(listing)
        ),
        computes=tuple(sorted({each.compute for each in every}, key=compute_order)),
        archs=tuple(sorted({row.arch for row in rows}, reverse=True)),
        legend=tuple(status for status in GridStatus if status in used),
    )


def front_data(front: Front) -> dict[str, Any]:
    """Return the data for the script: the templates of commands, and what they say of each torch."""
    return {
        "templates": {
            framework: {
                installer: {
                    presence: [
                        template_for_group(installer, presence, framework=framework, others=others).to_json()
                        for others in (False, True)
                    ]
                    for presence in Presence
                }
                for installer in _INSTALLERS
            }
            for framework in (TORCH, NO_FRAMEWORK)
        },
        "torch": {
            release: {compute: _torch_slots(release, compute) for compute in front.computes}
            for framework, release in front.columns
            if framework == TORCH
        },
    }


def _torch_slots(release: str, compute: str) -> dict[str, dict[str, str]]:
    target = Target(release=release, compute=compute, arch="", python="")
    return {presence: framework_slots((), target, presence) for presence in Presence}


def _front_row(
    listing: Listing, name: str, rows: Sequence[CoverageRow], columns: Iterable[tuple[str, str]]
) -> FrontRow:
    cells = tuple(_cell(rows, *column) for column in columns)
    machines = {marks.machine for cell in cells for marks in cell}
    return FrontRow(
        project=name,
        listing=listing,
        cells=cells,
        machine=next(iter(machines)) if len(machines) == 1 else None,
        stable=next(
            (
                f"{each.like.framework} {each.requires.replace('>=', '≥') or 'of any release'}"
                for row in rows
                for each in row.onward
            ),
            None,
        ),
    )


def _cell(rows: Iterable[CoverageRow], framework: str, release: str) -> tuple[Marks, ...]:
    """Return the marks of a project in a column. Architectures and Pythons with equal marks are together."""
    pythons: dict[tuple[str, tuple[Covered, ...]], list[str]] = {}
    for row in rows:
        here = (each for each in row.combinations if (each.framework, each.release) == (framework, release))
        if covered := tuple(sorted(here, key=lambda each: compute_order(each.compute))):
            pythons.setdefault((row.arch, covered), []).extend(filter(None, (row.python,)))
    archs: dict[tuple[tuple[str, ...], tuple[Covered, ...]], list[str]] = {}
    for (arch, covered), found in pythons.items():
        archs.setdefault((tuple(found), covered), []).append(arch)
    return tuple(Marks(archs=tuple(a), pythons=which, covered=covered) for (which, covered), a in archs.items())
