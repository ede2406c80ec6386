"""From axes and rules to cells: pure, ordered, and with a reason for every cell that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from wheelsmith.frameworks import torch_releases, why_incompatible
from wheelsmith.matrix.types import CudaCompatibility, Matrix, Rule
from wheelsmith.model import Cell, CellSettings, Excluded
from wheelsmith.platforms import cuda_toolkits


def expand(matrix: Matrix) -> tuple[Cell | Excluded, ...]:
    """Return every combination of the axes, in the order in which they are written."""
    return tuple(_answer(matrix, cell) for cell in _cells(matrix))


def idle_rules(matrix: Matrix) -> tuple[Rule, ...]:
    """Return the rules that select no cell at all: most likely a mistake."""
    cells = tuple(_cells(matrix))
    return tuple(rule for rule in matrix.rules if not any(rule.where.matches(cell) for cell in cells))


def _cells(matrix: Matrix) -> Iterator[Cell]:
    for torch, cuda, arch, python in product(matrix.torch, matrix.cuda, matrix.arch, matrix.python or (None,)):
        release = torch_releases().get(torch)
        compute = None if cuda == "cpu" else cuda
        cxx11_abi = release is None or release.has_cxx11_abi(arch, compute)
        yield Cell(torch=torch, cuda=compute, arch=arch, python=python, cxx11_abi=cxx11_abi)


def _answer(matrix: Matrix, cell: Cell) -> Cell | Excluded:
    settings = matrix.settings
    for rule in matrix.rules:
        if not rule.where.matches(cell):
            continue
        if rule.exclude:
            return Excluded(cell=cell, reason=f"{rule.reason} ({rule.place})")
        settings = _set(settings, rule)
    cell = replace(cell, settings=settings)
    reason = _why_impossible(cell, matrix)
    return Excluded(cell=cell, reason=reason) if reason else cell


def _set(settings: CellSettings, rule: Rule) -> CellSettings:
    changes = {
        "gpu_archs": rule.gpu_archs,
        "advertise": rule.advertise,
        "image": rule.image,
        "torch_headers": rule.torch_headers,
    }
    return replace(settings, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]  # names and types are CellSettings' own


def _why_impossible(cell: Cell, matrix: Matrix) -> str | None:
    release = torch_releases().get(cell.torch)
    if release is None:
        known = list(torch_releases())
        return f"torch {cell.torch} is not known: wheelsmith knows torch {known[0]} to {known[-1]}"
    if cell.arch not in release.wheels:
        return f"torch {cell.torch} has no {cell.arch} build"
    if cell.cuda is None:
        return None
    if cell.cxx11_abi and not release.cxx11_abi[cell.arch]:
        return (
            f"torch {cell.torch} for CUDA {cell.cuda} has the C++11 ABI, unlike the {cell.arch} wheel that wheelsmith "
            f"knows its libraries from, so nothing could be checked"
        )
    if cell.arch in release.without_cuda:
        return (
            f"PyPI's torch {cell.torch} for {cell.arch} is a CPU build: wheelsmith knows no CUDA headers and "
            f"libraries of that torch to compile with and to check by"
        )
    same_major = any(built.split(".")[0] == cell.cuda.split(".")[0] for built in release.cuda)
    if not (same_major and matrix.cuda_compatibility is not CudaCompatibility.HUB) and (
        reason := why_incompatible(release, cell.cuda)
    ):
        return reason
    return _why_no_toolkit(cell.cuda, cell.settings.image or matrix.engine.image)


def _why_no_toolkit(cuda: str, image: str | None) -> str | None:
    toolkit = cuda_toolkits().get(cuda)
    if toolkit is None:
        return f"CUDA {cuda} is not known: wheelsmith knows CUDA {', '.join(cuda_toolkits())}"
    if not toolkit.assembled and image is None:
        return (
            f"CUDA {cuda} is not complete on the package index, so it must come from an image: "
            f"set image in a rule for these cells"
        )
    return None
