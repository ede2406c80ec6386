"""Share one wheel among the minor versions of a CUDA major version.

Code built with an older toolkit runs with the libraries and drivers of every newer minor version. This module decides
if the older toolkit's wheel contains everything that the newer toolkit's wheel would contain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from packaging.version import Version

from wheelsmith.model import BuildHost, BuildPlan, Cell, Excluded, Step
from wheelsmith.model.build_host import ImageId, ToolkitHome
from wheelsmith.platforms import Platform, platforms


def older_minors(cells: Iterable[Cell]) -> dict[str, tuple[Cell, ...]]:
    """Return for each cell's ID the cells that differ only by an older CUDA minor version, oldest first.

    Their settings may differ. Cells without any are left out.
    """
    groups: dict[tuple[object, ...], list[tuple[Version, Cell]]] = {}
    for cell in cells:
        if cell.toolkit:
            version = Version(cell.toolkit)
            key = (
                cell.framework,
                cell.release,
                cell.platform,
                cell.arch,
                cell.python,
                cell.os,
                cell.cxx11_abi,
                version.major,
            )
            groups.setdefault(key, []).append((version, cell))
    found = {}
    for group in groups.values():
        ascending = [cell for _, cell in sorted(group, key=lambda pair: pair[0])]
        found.update({cell.id: tuple(ascending[:place]) for place, cell in enumerate(ascending) if place})
    return found


def plan_by_oldest_minor(
    cell: Cell,
    older: Sequence[Cell],
    plan: Callable[[Cell], BuildPlan | Excluded],
    plan_as_if_available: Callable[[Cell], BuildPlan | Excluded],
) -> tuple[BuildPlan | Excluded, str | None]:
    """Plan a cell with the oldest minor version that suffices for it, or with its own.

    The result depends only on the matrix, not on the selected cells. Pipelines that build each cell in a separate job
    get the same wheels.

    :param older: the cells whose wheels may serve it, oldest first.
    :param plan: plans a cell with its own CUDA.
    :param plan_as_if_available: the same, but as if the cell's own CUDA were available.
    :return: the plan, and the reason why no older minor version serves the cell although there is one.
    """
    own = plan(cell)
    target = plan_as_if_available(cell) if older and isinstance(own, Excluded) else own
    if isinstance(target, Excluded) or target.wheel.toolkit is None:
        return own, None
    reasons = []
    for other in older:
        reason = _find_different_setting(cell, other)
        if reason is None:
            made = plan(other)
            if isinstance(made, Excluded):
                reason = f"CUDA {other.toolkit} has no wheel: {made.reason}"
            elif (reason := _find_missing(target, made)) is None:
                return replace(made, cell=cell), None
        reasons.append(reason)
    if isinstance(own, Excluded):
        return replace(own, reason="; ".join([own.reason, *reasons[:1]])), None
    return own, reasons[0] if reasons else None


def with_toolkit(host: BuildHost, cell: Cell) -> BuildHost:
    """Return the build host as if it had the toolkit that the cell names."""
    named = str(cell.toolkit)
    there = host.toolkits.get(cell.platform)
    home = there.home if there else platforms()[cell.platform].mount_point
    assumed = ToolkitHome(home=home, version=named, release=named, digest="", arch=cell.arch)
    return replace(
        host,
        image=host.image or ImageId(name="", digest=""),
        toolkits={cell.platform: assumed},
    )


def _find_different_setting(cell: Cell, other: Cell) -> str | None:
    if cell.settings.image != other.settings.image:
        return f"a rule sets a different image for CUDA {other.toolkit}"
    if cell.settings.gpu_archs != other.settings.gpu_archs:
        return f"a rule sets different gpu-archs for CUDA {other.toolkit}"
    return None


def _find_missing(own: BuildPlan, made: BuildPlan) -> str | None:
    """Return what a wheel of the older toolkit lacks compared with the newer one's, or None."""
    cuda = made.wheel.toolkit
    platform = platforms()[made.cell.platform]
    covers = platform.includes_code
    if missing := [text for text in own.wheel.gpu_archs if not covers(made.wheel.gpu_archs, (text,))]:
        return f"CUDA {cuda} cannot compile for {', '.join(missing)}"
    available = {step.output: step for step in made.recipe.steps}
    if missing := [step.source for step in own.recipe.steps if step.output not in available and step.source]:
        return f"the wheel for CUDA {cuda} does not contain {', '.join(missing)}"
    if not all(_can_replace(step, available[step.output], platform) for step in own.recipe.steps):
        return f"the commands for CUDA {cuda} are different"
    return None


def _can_replace(own: Step, made: Step, platform: Platform) -> bool:
    without = platform.without_capabilities
    return without(own.argv) == without(made.argv) and platform.includes_code(made.gpu_archs, own.gpu_archs)
