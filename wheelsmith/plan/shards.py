"""Split a matrix into shards, one per job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from wheelsmith.base.json_dataclass import Record, canonical_digest
from wheelsmith.model import BuildPlan
from wheelsmith.plan.planned_run import Build, PlannedRun

# Estimates for builds without a recorded time, in core seconds: for each step, for the rest, and for a project.
_STEP, _REST = 60.0, 30.0
_PROJECT = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard(Record):
    """The builds of one job.

    :param cells: cell IDs. Cells that share a wheel are in the same shard.
    :param seconds: the estimated time in core seconds, rounded up.
    :param arch: the architecture of the machine that must build them; None for one like that of the plan.
    """

    cells: tuple[str, ...]
    seconds: int
    arch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedPlan(PlannedRun, Record):
    """A planned run that is split into shards."""

    shards: tuple[Shard, ...]

    @property
    def digest(self) -> str:
        """The sha256 that identifies the plan in the output of each shard."""
        return canonical_digest(self.to_json())


def shard_label(number: int, shards: Sequence[Shard]) -> str:
    """Return the display name of a shard: ``2/3``.

    :param number: counted from 1.
    """
    return f"{number}/{len(shards)}"


def split(builds: Sequence[Build], known: Mapping[str, float], count: int) -> tuple[Shard, ...]:
    """Distribute builds over ``count`` shards so that the longest shard is short.

    Each build, longest first, goes to the shard with the least work. The result is at most a third longer than the
    optimum (Graham, Bounds on Multiprocessing Timing Anomalies, 1969).

    :param known: ID of a build's first cell → the core seconds that it took before.
    :param count: the number of shards. Some are empty if there are fewer builds.
    """
    return _split(builds, estimate_seconds(builds, known), count)


def _split(builds: Sequence[Build], costs: Mapping[str, float], count: int) -> tuple[Shard, ...]:
    loads, parts = [0.0] * count, [[] for _ in range(count)]  # type: tuple[list[float], list[list[Build]]]
    for build in sorted(builds, key=lambda build: (-costs[build.plan.cell.id], build.plan.cell.id)):
        number = min(range(count), key=lambda place: (loads[place], place))
        loads[number] += costs[build.plan.cell.id]
        parts[number].append(build)
    return tuple(
        Shard(cells=tuple(sorted(plan.cell.id for build in part for plan in build.plans)), seconds=ceil(load))
        for part, load in zip(parts, loads, strict=True)
    )


def split_by_time(
    builds: Sequence[Build], known: Mapping[str, float], *, longest: float, most: int
) -> tuple[Shard, ...]:
    """Distribute builds over few shards of limited length. A longer build gets a shard for itself.

    :param longest: the limit in core seconds.
    :param most: the maximum number of shards. If they do not suffice, the limit is exceeded.
    """
    costs = estimate_seconds(builds, known)
    alone = [build for build in builds if costs[build.plan.cell.id] > longest]
    late = {plan.cell.id for build in alone for plan in build.plans}
    rest = sum(cost for cost in costs.values() if cost <= longest)
    count = max(1, min(most, len(alone) + ceil(rest / longest)))
    while (shards := _split(builds, costs, count)) and count < most:
        # Builds are distributed longest first, so a build over the limit is alone once there are enough shards.
        if all(shard.seconds <= ceil(longest) or late.issuperset(shard.cells) for shard in shards):
            break
        count += 1
    return shards


def estimate_seconds(builds: Sequence[Build], known: Mapping[str, float]) -> dict[str, float]:
    """Return the estimated core seconds of each build, by the ID of its first cell.

    Estimates for builds without a recorded time are scaled by the recorded times of the others.
    """
    guesses = {build.plan.cell.id: _guess_seconds(build.plan) for build in builds}
    measured = [(known[name], guess) for name, guess in guesses.items() if name in known]
    factor = sum(cost for cost, _ in measured) / sum(guess for _, guess in measured) if measured else 1.0
    return {name: known.get(name, guess * factor) for name, guess in guesses.items()}


def _guess_seconds(plan: BuildPlan) -> float:
    if plan.project:
        return _PROJECT
    capabilities = max(1, len(plan.wheel.gpu_archs))
    return _REST + _STEP * capabilities * len(plan.recipe.steps)
