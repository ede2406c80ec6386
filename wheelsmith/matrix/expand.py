"""From axes and rules to cells: pure, ordered, and with a reason for every cell that cannot be."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from wheelsmith.facts import cuda_toolkits, torch_releases, why_incompatible
from wheelsmith.matrix.types import Matrix, Rule
from wheelsmith.model import Cell, CellSettings, Excluded


def expand(matrix: Matrix) -> tuple[Cell | Excluded, ...]:
    """Give every combination of the axes, in the order in which they are written."""
    return tuple(
        _answer(matrix, Cell(torch=torch, cuda=None if cuda == "cpu" else cuda, arch=arch))
        for torch, cuda, arch in product(matrix.torch, matrix.cuda, matrix.arch)
    )


def idle_rules(matrix: Matrix) -> tuple[Rule, ...]:
    """Give the rules that select no cell at all: most likely a mistake."""
    cells = [
        Cell(torch=torch, cuda=None if cuda == "cpu" else cuda, arch=arch)
        for torch, cuda, arch in product(matrix.torch, matrix.cuda, matrix.arch)
    ]
    return tuple(rule for rule in matrix.rules if not any(rule.where.matches(cell) for cell in cells))


def _answer(matrix: Matrix, cell: Cell) -> Cell | Excluded:
    settings = matrix.settings
    for rule in matrix.rules:
        if not rule.where.matches(cell):
            continue
        if rule.exclude:
            return Excluded(cell=cell, reason=f"{rule.reason} ({rule.place})")
        settings = _set(settings, rule)
    cell = replace(cell, settings=settings)
    reason = _why_impossible(cell, any_cuda_minor=matrix.any_cuda_minor)
    return Excluded(cell=cell, reason=reason) if reason else cell


def _set(settings: CellSettings, rule: Rule) -> CellSettings:
    changes = {"gpu_archs": rule.gpu_archs, "advertise": rule.advertise, "image": rule.image}
    return replace(settings, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]  # names and types are CellSettings' own


def _why_impossible(cell: Cell, *, any_cuda_minor: bool) -> str | None:
    release = torch_releases().get(cell.torch)
    if release is None:
        known = list(torch_releases())
        return f"torch {cell.torch} is not known: wheelsmith knows torch {known[0]} to {known[-1]}"
    if cell.arch not in release.wheels:
        return f"torch {cell.torch} has no {cell.arch} build"
    if cell.cuda is None:
        return None
    same_major = any(built.split(".")[0] == cell.cuda.split(".")[0] for built in release.cuda)
    if not (any_cuda_minor and same_major) and (reason := why_incompatible(release, cell.cuda)):
        return reason
    if cell.cuda not in cuda_toolkits():
        return (
            f"CUDA {cell.cuda} is not complete on the package index, so it cannot be assembled here: "
            f"wheelsmith assembles {', '.join(cuda_toolkits())}"
        )
    return None
