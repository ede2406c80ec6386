"""The plan that the jobs of a pipeline share. It is written once and read by every job."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from wheelsmith.base.errors import MatrixError, PackageIndexError, Place
from wheelsmith.base.files import atomic_write, read_bounded
from wheelsmith.base.json_dataclass import canonical_json, in_one_line, read_json
from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import parse_shard
from wheelsmith.index.entries.state import check_project
from wheelsmith.matrix.load import load_matrices
from wheelsmith.model import Listener
from wheelsmith.model.run_record import ShardName
from wheelsmith.plan.planned_run import Build, PlannedRun
from wheelsmith.plan.shards import ShardedPlan, split, split_by_time
from wheelsmith.run.prepare import Request
from wheelsmith.run.prepared_set import PreparedSet, prepare_set
from wheelsmith.run.schedule import BuildCosts
from wheelsmith.store import Costs
from wheelsmith.wheel.recorded_plan import plan_differences

_MAX_SIZE = 256 << 20  # bytes; a plan of flash-attn2 has one megabyte
# The fields that the plans of one matrix have in common on every machine.
_COMMON = ("kernel", "distribution", "version", "cells", "trees", "commit", "matrix_sha256")
_PLAN_FIRST = "write it once for all jobs: wheelsmith plan --shards 3"


def sharded_plan(prepared: PreparedSet, count: int, *, max_seconds: float, max_shards: int) -> ShardedPlan:
    """Split a prepared run into shards.

    :param count: number of shards; 0 for as few as the limits allow.
    :param max_seconds: maximum seconds of one core that a shard takes, if ``count`` is 0.
    :param max_shards: maximum number of shards, if ``count`` is 0.
    :raises MatrixError: the project has no name or version, so that there can be no index.
    """
    for name, each in prepared.prepared.items():
        if not each.distribution or not each.version:
            title = name or "the project"
            raise MatrixError(f"{title} has no name or no version", remedy="set kernel.distribution and version")
    if any(plan.requires for plan in prepared.plans):
        raise MatrixError("kernels that require each other cannot be split into jobs", remedy="build them in one job")
    known = _known_costs(prepared.builds, prepared.request.cache)
    shards = (
        split(prepared.builds, known, count)
        if count
        else split_by_time(prepared.builds, known, longest=max_seconds, most=max_shards)
    )
    planned: dict[str, Any] = {field.name: getattr(prepared, field.name) for field in fields(PlannedRun)}
    return ShardedPlan(**planned, shards=shards)


def add_plan(plan: ShardedPlan, other: ShardedPlan) -> ShardedPlan:
    """Add the combinations that wait in a plan from the plan of a machine that can build them.

    :raises MatrixError: the plans are not of the same matrix and source.
    """
    if differing := [name for name in _COMMON if getattr(plan, name) != getattr(other, name)]:
        raise MatrixError(
            f"the plans of two machines differ in {', '.join(differing)}", remedy="plan the same commit with both"
        )
    waiting = {item.cell.id: item.cell.arch for item in plan.excluded if item.waits}
    planned = waiting.keys() & {each.cell.id for each in other.plans}
    answered = planned | (waiting.keys() & {item.cell.id for item in other.excluded})
    parts = (tuple(cell for cell in shard.cells if cell in planned) for shard in other.shards)
    return replace(
        plan,
        plans=(*plan.plans, *(each for each in other.plans if each.cell.id in planned)),
        excluded=(
            *(item for item in plan.excluded if item.cell.id not in answered),
            *(item for item in other.excluded if item.cell.id in answered),
        ),
        not_folded=plan.not_folded | {name: why for name, why in other.not_folded.items() if name in planned},
        shards=(
            *plan.shards,
            *(
                replace(shard, cells=part, arch=next(map(waiting.get, part), None))
                for shard, part in zip(other.shards, parts, strict=True)
            ),
        ),
    )


def _known_costs(builds: Iterable[Build], cache: Path) -> dict[str, float]:
    """Return the ID of a build's first cell → seconds of one core that it took before."""
    return BuildCosts(Costs.in_cache(cache), (build.plan for build in builds)).known()


def write_shards(plan: ShardedPlan, path: Path) -> None:
    """Write the plan that the jobs share."""
    atomic_write(path, canonical_json(plan.to_json()) + b"\n")


def read_shards(path: Path) -> ShardedPlan:
    """Read the plan that the jobs share.

    :raises MatrixError: it does not exist, or cannot be read.
    """
    try:
        plan = ShardedPlan.from_json(read_json(read_bounded(path, _MAX_SIZE)))
        _check_complete(plan)
    except FileNotFoundError:
        raise MatrixError(f"there is no {path}", remedy=_PLAN_FIRST) from None
    except (OSError, ValueError, PackageIndexError) as error:
        reason = f"it cannot be read: {in_one_line(error)}"
        raise MatrixError(reason, where=Place(file=str(path)), remedy=_PLAN_FIRST) from None
    return plan


def require_current(plan: ShardedPlan, matrix: Path, path: Path) -> None:
    """Require that a plan is of a matrix as it is now.

    :param path: the file of the plan.
    :raises MatrixError: the matrix has changed since, or cannot be read.
    """
    if load_matrices(matrix)[0].sha256 != plan.matrix_sha256:
        raise MatrixError(f"{matrix} has changed since {path} was written", remedy="run wheelsmith plan --shards again")


def _check_complete(plan: ShardedPlan) -> None:
    """Reject a plan that was changed after it was written.

    :raises ValueError: it is inconsistent.
    :raises PackageIndexError: its project's name is invalid.
    """
    named = sorted(name for shard in plan.shards for name in shard.cells)
    planned = sorted(each.cell.id for each in plan.plans)
    excluded = {each.cell.id for each in plan.excluded}
    if named != planned or len(set(planned)) != len(planned) or excluded & set(planned):
        raise ValueError("its shards do not match its combinations")
    if not planned or visible(plan.kernel) != plan.kernel:
        raise ValueError("it has no combinations, or no name")
    for run, _ in plan.by_kernel(()):
        Version(str(run.version))
        check_project(str(run.distribution))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenShard:
    """One shard of a plan that all jobs share."""

    plan: ShardedPlan
    number: int

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the IDs of its cells."""
        return self.plan.shards[self.number - 1].cells

    def name(self, cache: Path) -> ShardName:
        """Return its name in results.json, with the costs of its builds."""
        own = (build for build in self.plan.builds if build.plan.cell.id in self.cells)
        return ShardName(plan=self.plan.digest, number=self.number, costs=_known_costs(own, cache))

    def prepare(self, request: Request, listen: Listener) -> PreparedSet:
        """Prepare the cells of this shard.

        :raises MatrixError: this machine plans a cell differently from the shared plan.
        """
        prepared = prepare_set(replace(request, only=self.cells), listen)
        _require_same_plans(self.plan, prepared)
        return prepared


def chosen_shard(word: str, path: Path) -> ChosenShard:
    """Return a shard of a plan.

    :param word: the shard's number and the number of shards, e.g. ``2/3``.
    :param path: the file of the plan that all jobs share.
    :raises MatrixError: the plan has no such shard, or cannot be read.
    """
    plan = read_shards(path)
    parsed, count = parse_shard(word), len(plan.shards)
    if parsed is None or parsed[1] != count:
        raise MatrixError(f"{word!r} is not a shard of the plan", remedy=f"use one of 1/{count} to {count}/{count}")
    return ChosenShard(plan=plan, number=parsed[0])


def _require_same_plans(plan: ShardedPlan, prepared: PreparedSet) -> None:
    agreed = {each.cell.id: each for each in plan.plans}
    for item in prepared.excluded:
        if item.cell.id in agreed:
            raise _planned_differently(item.cell.id, f"it is not built: {item.reason}")
    for each in prepared.plans:
        known = agreed.get(each.cell.id)
        if known and known.build_digest != each.build_digest:
            records = (json.loads(one.recorded()) for one in (known, each))
            found = plan_differences(*records, labels=("the shared plan has", "this machine has"))
            raise _planned_differently(each.cell.id, found[0])


def _planned_differently(cell: str, how: str) -> MatrixError:
    return MatrixError(
        f"{cell} is planned differently here than in the shared plan: {how}",
        remedy="plan and build with the same wheelsmith, source and lock file (wheelsmith lock) on similar machines",
    )
