"""Cells that would give the same wheel are one build."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from wheelsmith.model import BuildPlan, BuildResult, Folded, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One build and the plans that it answers; the first of them is the one that is run."""

    plans: tuple[BuildPlan, ...]

    @property
    def plan(self) -> BuildPlan:
        """Return the plan that is run."""
        return self.plans[0]

    def answers(self, result: BuildResult) -> tuple[BuildResult, ...]:
        """Return a result for every plan, from the one that was run."""
        folded = Status.FOLDED if result.wheel else result.status
        return (
            result,
            *(replace(result, cell=plan.cell, status=folded, timings=()) for plan in self.plans[1:]),
        )


def fold(plans: Sequence[BuildPlan]) -> tuple[Build, ...]:
    """Group plans by what they build, in the order of their first cells.

    The plan that is run is that of a cell whose own CUDA makes the wheel, where there is one.
    """
    groups: dict[str, list[BuildPlan]] = {}
    for plan in plans:
        groups.setdefault(plan.build_digest, []).append(plan)
    return tuple(Build(plans=tuple(sorted(group, key=_made_by_another_cuda))) for group in groups.values())


def folded(builds: Iterable[Build]) -> dict[str, Folded]:
    """Return by its id every cell that another cell's wheel answers."""
    return {
        plan.cell.id: Folded(cell=build.plan.cell.id, reason=_reason(plan, build.plan))
        for build in builds
        for plan in build.plans[1:]
    }


def _made_by_another_cuda(plan: BuildPlan) -> bool:
    return plan.wheel.toolkit not in {None, plan.cell.toolkit}


def _reason(plan: BuildPlan, first: BuildPlan) -> str:
    if plan.wheel.release is None:
        return "nothing is compiled"
    reasons = []
    if plan.cell.release != first.cell.release:
        reasons.append(f"torch's stable ABI from {plan.wheel.stable_abi} on")
    if plan.cell.toolkit != first.cell.toolkit:
        reasons.append("CUDA minor-version compatibility")
    return " and ".join(reasons)
