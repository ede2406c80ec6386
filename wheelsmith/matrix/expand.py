"""Expand a matrix into cells and excluded cells, and select cells by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product

from wheelsmith.base.errors import SelectionError
from wheelsmith.base.suggest import closest
from wheelsmith.frameworks import framework
from wheelsmith.matrix.types import CudaCompatibility, Matrix, MatrixRule, ProjectSettings
from wheelsmith.model import CUDA, Cell, Excluded
from wheelsmith.platforms import platform_of, platforms


def expand(matrix: Matrix) -> tuple[Cell | Excluded, ...]:
    """Return a cell for every combination of the axes, in the order of the file.

    A cell that a rule excludes, or that is impossible, becomes an ``Excluded`` with the reason.
    """
    return tuple(_apply_rules(matrix, cell) for cell in _cells(matrix))


def not_excluded(matrix: Matrix) -> tuple[Cell, ...]:
    """Return the cells that no rule excludes."""
    excluding = [rule.where for rule in matrix.rules if rule.exclude]
    return tuple(cell for cell in _cells(matrix) if not any(where.matches(cell) for where in excluding))


def project_settings(matrix: Matrix, cell: Cell) -> ProjectSettings:
    """Return the settings of a project's build for a cell."""
    found = matrix.project
    for rule in matrix.rules:
        if rule.where.matches(cell) and not rule.exclude:
            found = found.merged_with(rule.project)
    return found


def unused_rules(matrix: Matrix) -> tuple[MatrixRule, ...]:
    """Return the rules that select no cell. Such a rule is probably a mistake."""
    cells = tuple(_cells(matrix))
    return tuple(rule for rule in matrix.rules if not any(rule.where.matches(cell) for cell in cells))


def _cells(matrix: Matrix) -> Iterator[Cell]:
    chosen = framework(matrix.framework)
    for release, compute, arch, python in product(
        matrix.releases, matrix.computes, matrix.arch, matrix.python or (None,)
    ):
        platform, toolkit = platform_of(compute) or (None, None)
        yield Cell(
            framework=chosen.name,
            release=release,
            platform=platform.name if platform else CUDA,
            toolkit=toolkit,
            arch=arch,
            python=python,
            cxx11_abi=chosen.cxx11_abi(release, arch, toolkit),
            settings=matrix.settings,
        )


def _apply_rules(matrix: Matrix, cell: Cell) -> Cell | Excluded:
    settings = cell.settings
    for rule in matrix.rules:
        if not rule.where.matches(cell):
            continue
        if rule.exclude:
            return Excluded(cell=cell, reason=f"{rule.reason} ({rule.place})")
        settings = replace(settings, **{name: getattr(rule.settings, name) for name in rule.sets})
    cell = cell if settings is cell.settings else replace(cell, settings=settings)
    reason = _why_impossible(cell, matrix)
    return Excluded(cell=cell, reason=reason) if reason else cell


def _why_impossible(cell: Cell, matrix: Matrix) -> str | None:
    any_minor = matrix.cuda_compatibility is not CudaCompatibility.HUB
    if reason := framework(cell.framework).why_impossible(cell, any_minor=any_minor):
        return reason
    if cell.toolkit is None:
        return None
    return platforms()[cell.platform].why_impossible(cell.toolkit)


_BRACES = re.compile(r"\{([^{}]*)\}")
_LIST_ALL = "list all combinations with: wheelsmith plan"


def select(
    answers: Mapping[str, Sequence[Cell | Excluded]],
    *,
    arch: str | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
) -> dict[str, tuple[Cell | Excluded, ...]]:
    """Return the cells of an architecture whose id matches a pattern of ``only`` and no pattern of ``skip``, by kernel.

    An empty ``only`` matches every cell. Patterns are globs with braces: ``torch2{11,13}-*-cu130-*``. A pattern without
    the name of a kernel selects cells of every kernel.

    :param answers: name of a kernel → its cells, excluded or not; "" for the only kernel of a file.
    :param arch: None for every architecture.
    :raises SelectionError: a pattern matches no cell, or no cell remains.
    """
    if not only and not skip and arch is None:
        return {kernel: tuple(found) for kernel, found in answers.items()}
    ids = {f"{kernel}/{cell_of(each).id}".lstrip("/"): (kernel, each) for kernel in answers for each in answers[kernel]}
    for pattern in (*only, *skip):
        if not any(_matches_cell(pattern, name) for name in ids):
            raise SelectionError(f"{pattern!r} matches no combination", remedy=_suggest(pattern, [*ids]))
    kept: dict[str, list[Cell | Excluded]] = {}
    for name, (kernel, answer) in ids.items():
        wanted = not only or any(_matches_cell(pattern, name) for pattern in only)
        wanted = wanted and arch in {None, cell_of(answer).arch}
        if wanted and not any(_matches_cell(pattern, name) for pattern in skip):
            kept.setdefault(kernel, []).append(answer)
    if not kept:
        raise SelectionError("the selection matches no combination", remedy=_LIST_ALL)
    return {kernel: tuple(found) for kernel, found in kept.items()}


def cell_of(answer: Cell | Excluded) -> Cell:
    """Return the cell itself, or the cell of an ``Excluded``."""
    return answer.cell if isinstance(answer, Excluded) else answer


def matches_glob(pattern: str, name: str) -> bool:
    """Return True if a glob with braces matches a name."""
    return any(fnmatchcase(name, glob) for glob in _expand_braces(pattern))


def _matches_cell(pattern: str, name: str) -> bool:
    return matches_glob(pattern, name) or matches_glob(pattern, name.rpartition("/")[2])


def _expand_braces(pattern: str) -> Iterator[str]:
    match = _BRACES.search(pattern)
    if not match:
        yield pattern
        return
    for choice in match[1].split(","):
        yield from _expand_braces(pattern[: match.start()] + choice + pattern[match.end() :])


def _suggest(pattern: str, ids: list[str]) -> str:
    close = closest(pattern, ids)
    hint = f"did you mean {close!r}? " if close else ""
    return f"{hint}{_LIST_ALL}"
