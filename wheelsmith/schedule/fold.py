"""Cells that would give the same wheel are one build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wheelsmith.model import BuildPlan, BuildResult, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One build and the plans that it answers; the first of them is the one that is run."""

    plans: tuple[BuildPlan, ...]

    @property
    def plan(self) -> BuildPlan:
        """Give the plan that is run."""
        return self.plans[0]

    def answers(self, result: BuildResult) -> tuple[BuildResult, ...]:
        """Give a result for every plan, from the one that was run."""
        folded = Status.FOLDED if result.wheel else result.status
        return (
            result,
            *(replace(result, cell=plan.cell, status=folded, timings=()) for plan in self.plans[1:]),
        )


def fold(plans: Sequence[BuildPlan]) -> tuple[Build, ...]:
    """Group plans by what they build, in the order of their first cells."""
    groups: dict[str, list[BuildPlan]] = {}
    for plan in plans:
        groups.setdefault(plan.build_digest, []).append(plan)
    return tuple(Build(plans=tuple(group)) for group in groups.values())
