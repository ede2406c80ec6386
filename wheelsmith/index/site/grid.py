"""A grid that shows the status of every cell of a matrix, with text, signs and links.

Index pages and the reports of runs both use it. The template ``_grid.html`` renders it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from wheelsmith.base.units import release_order, show_size
from wheelsmith.index.entries.catalogue import Catalogue
from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, NoWheel
from wheelsmith.index.resolve.incompatibility import torch_build
from wheelsmith.index.resolve.target import ParsedWheel, Target
from wheelsmith.model import Cell, release_title
from wheelsmith.platforms import compute_name, compute_order


class GridStatus(StrEnum):
    """Status of a cell in a grid."""

    BUILT = "built"
    CACHED = "cached"
    FOLDED = "folded"
    UPSTREAM = "upstream"
    STABLE = "stable"
    OLDER = "older"
    UNPAIRED = "unpaired"
    YANKED = "yanked"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXCLUDED = "excluded"

    @property
    def sign(self) -> str:
        """Return a character that identifies the status without colour."""
        return _SIGNS[self]

    @property
    def ordinary(self) -> bool:
        """Return True if the cell has a current wheel: built now, cached, shared or from upstream."""
        return self in {
            GridStatus.BUILT,
            GridStatus.CACHED,
            GridStatus.FOLDED,
            GridStatus.UPSTREAM,
            GridStatus.STABLE,
        }

    @property
    def shown(self) -> GridStatus:
        """Return the status for a legend. ``BUILT`` represents all statuses with the same sign."""
        return GridStatus.BUILT if self.sign == GridStatus.BUILT.sign else self

    @property
    def meaning(self) -> str:
        """Return the text for the legend."""
        return _MEANINGS[self]


_SIGNS = dict(zip(GridStatus, "✓✓✓✓≥↶≠⊘✕-·", strict=True))
_MEANINGS = {
    GridStatus.BUILT: "has a wheel",
    GridStatus.CACHED: "has a wheel from the cache",
    GridStatus.FOLDED: "shares the wheel of another combination",
    GridStatus.UPSTREAM: "has a wheel that upstream compiled",
    GridStatus.STABLE: "has the wheel of another torch, which serves this one, too",
    GridStatus.OLDER: "only an older version or source has a wheel",
    GridStatus.UNPAIRED: "has a wheel, but torch is built only for older CUDA releases",
    GridStatus.YANKED: "its wheel was yanked",
    GridStatus.FAILED: "its build failed",
    GridStatus.CANCELLED: "was not built",
    GridStatus.EXCLUDED: "is excluded, with a reason",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One cell of a grid.

    :param detail: a few words: the size of the wheel, or the cell with which it is shared.
    :param link: address of the details on the page.
    :param target: query for the page's picker, e.g. ``torch=2.11&compute=cu130&arch=x86_64``.
    :param yank: the yanked version that the cell would otherwise get, and the reason; None if there is none.
    """

    status: GridStatus
    detail: str = ""
    link: str | None = None
    target: str | None = None
    yank: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """One release, or one release and Python.

    :param cells: one cell per column; None if the matrix has no such cell.
    """

    heading: str
    cells: tuple[GridCell | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The grid of one CPU architecture.

    :param caption: the architecture.
    :param columns: names of the compute platforms.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[GridRow, ...]


def grids(cells: Mapping[Cell, GridCell]) -> tuple[Grid, ...]:
    """Arrange cells in one grid per kernel and CPU architecture, with one column per compute platform."""
    kernels = dict.fromkeys(cell.kernel for cell in cells)
    arches = sorted({cell.arch for cell in cells}, reverse=True)
    groups = (
        (
            f"{kernel} · {arch}" if kernel else arch,
            {cell: cells[cell] for cell in cells if _belongs(cell, kernel, arch)},
        )
        for kernel in kernels
        for arch in arches
    )
    return tuple(_grid(caption, own) for caption, own in groups if own)


def legend_statuses(shown: Iterable[Grid]) -> tuple[GridStatus, ...]:
    """Return the statuses for the legend."""
    used = {cell.status.shown for cell in _cells(shown)}
    return tuple(status for status in GridStatus if status in used)


def yank_reasons(shown: Iterable[Grid]) -> dict[str, tuple[str, ...]]:
    """Return the reasons of yanked wheels, each with the yanked versions."""
    found: dict[str, dict[str, None]] = {}
    for version, reason in dict.fromkeys(cell.yank for cell in _cells(shown) if cell.yank):
        found.setdefault(reason, {})[version] = None
    return {reason: tuple(versions) for reason, versions in found.items()}


def catalogue_cells(catalogue: Catalogue) -> dict[Cell, GridCell]:
    """Return the grid cell for every cell of a project.

    A wheel is linked as ``#wheel-`` plus its position in the catalogue, a cell without a wheel as ``#cell-`` plus its
    id.
    """
    not_yanked = [wheel for wheel in catalogue.wheels if wheel.yanked is None]
    newest = max((wheel.public for wheel in not_yanked or catalogue.wheels), default=None)
    found: dict[Cell, GridCell] = {}
    shown: dict[Cell, IndexEntry] = {}
    # Wheels are sorted newest first. Yanked ones go to the end.
    for place, wheel in sorted(enumerate(catalogue.wheels), key=lambda pair: pair[1].yanked is not None):
        for cell in wheel.cells:
            known = found.get(cell)
            # Like the picker, prefer an older wheel with a suitable torch build to a newer wheel without one.
            unpaired = known is not None and known.status is GridStatus.UNPAIRED
            better = unpaired and wheel.yanked is None and _has_torch_build(cell, wheel)
            if known is None or better:
                older = wheel.older or (newest is not None and wheel.public < newest)
                found[cell], shown[cell] = _wheel_cell(cell, wheel, place, older=older), wheel
            elif wheel.yanked is not None and wheel.version > shown[cell].version:
                found[cell] = replace(found[cell], yank=(str(wheel.version), wheel.yanked))
                shown[cell] = wheel
    for answer in catalogue.unserved:
        found[answer.cell] = _unserved_cell(answer)
    return found


def _cells(shown: Iterable[Grid]) -> Iterator[GridCell]:
    return (cell for grid in shown for row in grid.rows for cell in row.cells if cell)


def _belongs(cell: Cell, kernel: str | None, arch: str) -> bool:
    return (cell.kernel, cell.arch) == (kernel, arch)


def _grid(caption: str, cells: Mapping[Cell, GridCell]) -> Grid:
    here = {(cell.framework, cell.release, cell.python, cell.compute): shown for cell, shown in cells.items()}
    computes = sorted({compute for *_, compute in here}, key=compute_order)
    heads = sorted({place[:3] for place in here}, key=lambda head: (head[0], release_order(head[1]), head[2] or ""))
    rows = tuple(
        GridRow(
            heading=release_title(framework, release) + (f", Python {python}" if python else ""),
            cells=tuple(here.get((framework, release, python, compute)) for compute in computes),
        )
        for framework, release, python in heads
    )
    return Grid(caption=caption, columns=tuple(map(compute_name, computes)), rows=rows)


def _wheel_cell(cell: Cell, wheel: IndexEntry, place: int, *, older: bool) -> GridCell:
    made_for = wheel.provenance.cell if wheel.provenance else cell.id
    yank = None if wheel.yanked is None else (str(wheel.version), wheel.yanked)
    if yank:
        status, detail = GridStatus.YANKED, ""
    elif not _has_torch_build(cell, wheel):
        status, detail = GridStatus.UNPAIRED, ""
    elif older:
        status, detail = GridStatus.OLDER, str(wheel.public)
    elif made_for != cell.id:
        status, detail = GridStatus.FOLDED, _difference(cell, made_for, wheel.cells)
    else:
        status, detail = GridStatus.BUILT, show_size(wheel.size)
    return GridCell(status=status, detail=detail, link=f"#wheel-{place}", target=target_query(cell), yank=yank)


def _has_torch_build(cell: Cell, wheel: IndexEntry) -> bool:
    """Return True if a torch build suits the wheel."""
    target = Target(framework=cell.framework, release=cell.release, compute=cell.compute, arch=cell.arch, python="3.12")
    return torch_build(target, ParsedWheel(wheel)) is not None


def _unserved_cell(answer: CellWithoutWheel) -> GridCell:
    status = GridStatus.FAILED if answer.status is NoWheel.FAILED else GridStatus.EXCLUDED
    return GridCell(status=status, link=f"#cell-{answer.cell.id}", target=target_query(answer.cell))


def _difference(cell: Cell, made_for: str, served: Iterable[Cell]) -> str:
    """Return the differences of the cell for which the wheel was built."""
    other = next((other for other in served if other.id == made_for), None)
    if other is None:
        return made_for
    differing = [
        text
        for text, differs in (
            (release_title(other.framework, other.release), other.release != cell.release),
            (compute_name(other.compute), other.compute != cell.compute),
            (other.arch, other.arch != cell.arch),
        )
        if differs
    ]
    return "of " + ", ".join(differing)


def target_query(cell: Cell | Target) -> str:
    """Return the query for the page's picker that selects a cell."""
    minor = cell.python_minor if isinstance(cell, Target) else cell.python
    python = f"&python={minor}" if minor else ""
    return f"{cell.framework}={cell.release}&compute={cell.compute}&arch={cell.arch}{python}"
