"""The coverage of an index: which project has a wheel for which combination, and why not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import numbers, release_order
from wheelsmith.index.entries.catalogue import catalogue_of
from wheelsmith.index.entries.entry import ProjectState
from wheelsmith.index.site.grid import GridStatus, catalogue_cells
from wheelsmith.model import Cell, release_title
from wheelsmith.platforms import compute_name, compute_order

_USUAL_ARCH = "x86_64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered(Record):
    """One combination of a project.

    :param reason: why it has no wheel; None if it has one.
    """

    framework: str
    release: str
    compute: str
    status: GridStatus
    reason: str | None = None

    @property
    def column(self) -> str:
        """Return the heading of its column: ``torch 2.13, CUDA 13.0``."""
        return f"{release_title(self.framework, self.release)}, {compute_name(self.compute)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRow(Record):
    """All combinations of one project, CPU architecture and Python.

    :param python: None if its wheels serve every Python.
    """

    project: str
    arch: str
    python: str | None
    combinations: tuple[Covered, ...]

    @property
    def title(self) -> str:
        """Return the heading of the row: ``relu, aarch64, Python 3.12``, without the usual architecture."""
        arch = () if self.arch == _USUAL_ARCH else (self.arch,)
        python = () if self.python is None else (f"Python {self.python}",)
        return ", ".join((self.project, *arch, *python))


def coverage(states: Iterable[ProjectState]) -> tuple[CoverageRow, ...]:
    """Return the rows of some projects, sorted by name."""
    return tuple(row for state in sorted(states, key=lambda state: state.project) for row in _rows(state))


def columns(rows: Iterable[CoverageRow]) -> tuple[str, ...]:
    """Return the headings of all columns: by framework and release, and then by compute platform."""
    found = {(each.framework, each.release, each.compute): each.column for row in rows for each in row.combinations}
    order = sorted(found, key=lambda key: (key[0], release_order(key[1]), compute_order(key[2])))
    return tuple(found[key] for key in order)


def common_columns(rows: Iterable[CoverageRow]) -> tuple[str, ...]:
    """Return the columns in which every row has a current wheel."""
    rows = tuple(rows)
    covered = [{each.column for each in row.combinations if each.status.ordinary} for row in rows]
    return tuple(column for column in columns(rows) if all(column in found for found in covered))


def _rows(state: ProjectState) -> list[CoverageRow]:
    catalogue = catalogue_of(state)
    reasons = {answer.cell: answer.reason for answer in catalogue.unserved}
    found: dict[tuple[str, str | None], list[Covered]] = {}
    for cell, shown in catalogue_cells(catalogue).items():
        found.setdefault((cell.arch, cell.python), []).append(_covered(cell, shown.status, reasons.get(cell)))
    order = sorted(found, key=lambda key: (key[0] != _USUAL_ARCH, key[0], numbers(key[1] or "")))
    return [
        CoverageRow(project=state.project, arch=arch, python=python, combinations=tuple(found[arch, python]))
        for arch, python in order
    ]


def _covered(cell: Cell, status: GridStatus, reason: str | None) -> Covered:
    return Covered(framework=cell.framework, release=cell.release, compute=cell.compute, status=status, reason=reason)
