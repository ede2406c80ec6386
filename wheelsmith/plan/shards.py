"""A matrix split among jobs: each builds some of it, and what they made is joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from wheelsmith.base.json_dataclass import Record, canonical_digest
from wheelsmith.model import BuildPlan
from wheelsmith.plan.planned_run import Build, PlannedRun

# Seconds of one core that a build takes of which nothing is known, for each of its steps, and for all that is no step.
_STEP, _REST = 60.0, 30.0
_PROJECT = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard(Record):
    """What one job builds.

    :param cells: ids; cells that share a wheel are in one shard.
    :param seconds: of one core that it is expected to take, in whole ones.
    """

    cells: tuple[str, ...]
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedPlan(PlannedRun, Record):
    """A run that several jobs build, and which cells each of them builds."""

    distribution: str
    version: str
    shards: tuple[Shard, ...]

    @property
    def digest(self) -> str:
        """Return the sha256 by which a shard's output names the plan that it is a part of."""
        return canonical_digest(self.to_json())


def shard_word(number: int, shards: Sequence[Shard]) -> str:
    """Return what people call a shard: ``2/3``.

    :param number: from 1.
    """
    return f"{number}/{len(shards)}"


def split(builds: Sequence[Build], known: Mapping[str, float], count: int) -> tuple[Shard, ...]:
    """Return so many shards, of which the longest is about as short as can be: the longest build first, to who is free.

    Graham, Bounds on Multiprocessing Timing Anomalies (1969): at most a third longer than the best.

    :param known: cell id of a build → the seconds of one core that it took before.
    :param count: of shards; some are empty where there are fewer builds.
    """
    return _split(builds, expected(builds, known), count)


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


def fewest(builds: Sequence[Build], known: Mapping[str, float], *, longest: float, most: int) -> tuple[Shard, ...]:
    """Return about as few shards as there can be without one that takes too long; a build that does has one of its own.

    :param longest: seconds of one core that a shard may take.
    :param most: shards that there may be; of those the last try is given, whatever they take.
    """
    costs = expected(builds, known)
    alone = [build for build in builds if costs[build.plan.cell.id] > longest]
    late = {plan.cell.id for build in alone for plan in build.plans}
    rest = sum(cost for cost in costs.values() if cost <= longest)
    count = max(1, min(most, len(alone) + ceil(rest / longest)))
    while (shards := _split(builds, costs, count)) and count < most:
        # The longest first: what is too long stands alone once there are as many shards as that takes.
        if all(shard.seconds <= ceil(longest) or late.issuperset(shard.cells) for shard in shards):
            break
        count += 1
    return shards


def expected(builds: Sequence[Build], known: Mapping[str, float]) -> dict[str, float]:
    """Return what each build may take, by the id of its first cell, in seconds of one core.

    One of which nothing is known takes as long by its steps as those of which something is.
    """
    guesses = {build.plan.cell.id: _guess(build.plan) for build in builds}
    learnt = [(known[name], guess) for name, guess in guesses.items() if name in known]
    factor = sum(cost for cost, _ in learnt) / sum(guess for _, guess in learnt) if learnt else 1.0
    return {name: known.get(name, guess * factor) for name, guess in guesses.items()}


def _guess(plan: BuildPlan) -> float:
    if plan.project:
        return _PROJECT
    capabilities = max(1, len(plan.wheel.gpu_archs))
    return _REST + _STEP * capabilities * len(plan.recipe.steps)
