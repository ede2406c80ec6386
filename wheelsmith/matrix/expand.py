"""From axes and rules to cells: pure, ordered, and with a reason for every cell that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from wheelsmith.frameworks import framework
from wheelsmith.matrix.types import CudaCompatibility, Matrix, MatrixRule, ProjectSettings
from wheelsmith.model import CUDA, Cell, Excluded
from wheelsmith.platforms import platform_of, platforms


def expand(matrix: Matrix) -> tuple[Cell | Excluded, ...]:
    """Return every combination of the axes, in the order in which they are written."""
    return tuple(_answer(matrix, cell) for cell in _cells(matrix))


def project_settings(matrix: Matrix, cell: Cell) -> ProjectSettings:
    """Return what a project's build system is given for a cell."""
    found = matrix.project
    for rule in matrix.rules:
        if rule.where.matches(cell) and not rule.exclude:
            found = found.with_more(rule.project)
    return found


def idle_rules(matrix: Matrix) -> tuple[MatrixRule, ...]:
    """Return the rules that select no cell at all: most likely a mistake."""
    cells = tuple(_cells(matrix))
    return tuple(rule for rule in matrix.rules if not any(rule.where.matches(cell) for cell in cells))


def _cells(matrix: Matrix) -> Iterator[Cell]:
    calls = framework(matrix.framework)
    for release, compute, arch, python in product(
        matrix.releases, matrix.computes, matrix.arch, matrix.python or (None,)
    ):
        platform, toolkit = platform_of(compute) or (None, None)
        yield Cell(
            framework=calls.name,
            release=release,
            platform=platform.name if platform else CUDA,
            toolkit=toolkit,
            arch=arch,
            python=python,
            cxx11_abi=calls.cxx11_abi(release, arch, toolkit),
        )


def _answer(matrix: Matrix, cell: Cell) -> Cell | Excluded:
    settings = matrix.settings
    for rule in matrix.rules:
        if not rule.where.matches(cell):
            continue
        if rule.exclude:
            return Excluded(cell=cell, reason=f"{rule.reason} ({rule.place})")
        settings = replace(settings, **{name: getattr(rule.settings, name) for name in rule.sets})
    cell = replace(cell, settings=settings)
    reason = _why_impossible(cell, matrix)
    return Excluded(cell=cell, reason=reason) if reason else cell


def _why_impossible(cell: Cell, matrix: Matrix) -> str | None:
    any_minor = matrix.cuda_compatibility is not CudaCompatibility.HUB
    if reason := framework(cell.framework).why_impossible(cell, any_minor=any_minor):
        return reason
    if cell.toolkit is None:
        return None
    platform = platforms()[cell.platform]
    if matrix.cuda_compatibility is CudaCompatibility.OLDEST_MINOR and cell.toolkit in platform.toolkits():
        return None  # an older minor may answer for it: the plan says
    return platform.why_impossible(cell.toolkit, cell.settings.image or matrix.engine.image)
