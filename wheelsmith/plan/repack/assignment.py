"""Which build folder has the wheel of which cell, where several could: as the Hub's loader and installers choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wheelsmith.base.errors import SourceError
from wheelsmith.base.units import numbers
from wheelsmith.model import TORCH, BuildPlan, Cell, ImageId
from wheelsmith.plan.repack.names import cells_of
from wheelsmith.plan.repack.plans import WheelNames, plan_repack
from wheelsmith.plan.repack.types import BuildFolder, VariantAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPlans:
    """A plan for each cell that a build folder serves, and what becomes of each folder."""

    plans: tuple[BuildPlan, ...] = ()
    answers: tuple[VariantAnswer, ...] = ()


def plan_folders(folders: Iterable[BuildFolder], names: WheelNames, image: ImageId | None) -> FolderPlans:
    """Plan a wheel of each build folder that serves a cell which none before it does, and answer for all of them.

    :param image: in which wheels are laid out, for engines with images.
    """
    taken: dict[str, str] = {}
    plans: list[BuildPlan] = []
    answers: list[VariantAnswer] = []
    for group in _groups(folders):
        made, answer = _planned(group, taken, names, image)
        plans += made
        taken |= {plan.cell.id: answer.variant for plan in made}
        answers += [replace(answer, variant=folder.variant.name) for folder in group]
    return FolderPlans(plans=tuple(plans), answers=tuple(answers))


def _planned(
    group: Sequence[BuildFolder], taken: Mapping[str, str], names: WheelNames, image: ImageId | None
) -> tuple[tuple[BuildPlan, ...], VariantAnswer]:
    """Plan the one wheel of some folders.

    :param taken: cell id → the variant that serves it already.
    """
    name = group[0].variant.name
    cells = {cell.id: cell for folder in group for cell in _cells(folder)}
    left = [cell for key, cell in cells.items() if key not in taken]
    if not left:
        others = sorted({taken[key] for key in cells})
        return (), VariantAnswer(variant=name, reason=f"{', '.join(others)} serves all that it is for")
    try:
        made = plan_repack(group, left, names, image)
    except SourceError as error:
        return (), VariantAnswer(variant=name, reason=str(error), refused=True)
    return made, VariantAnswer(variant=name, cell=left[0].id)


def _groups(folders: Iterable[BuildFolder]) -> Iterator[tuple[BuildFolder, ...]]:
    """Yield the folders that are one wheel together, those to prefer first."""
    ordered = sorted(folders, key=_rank)
    yield from ((folder,) for folder in ordered if folder.variant.release is not None)
    if pure := tuple(folder for folder in ordered if folder.variant.release is None):
        yield pure


def _rank(folder: BuildFolder) -> tuple[bool, bool, tuple[int, ...], str]:
    """Order as installers do: the stable ABI's sort above one torch's; the oldest floor of them serves the most."""
    variant = folder.variant
    return not variant.stable_abi, variant.framework != TORCH, numbers(variant.release or "0"), variant.name


def _cells(folder: BuildFolder) -> tuple[Cell, ...]:
    cells = cells_of(folder.variant)
    return () if isinstance(cells, str) else cells
