"""The plan that the jobs of a pipeline share: it is written once, and every job builds by it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from wheelsmith.base.errors import MatrixError, PackageIndexError, Place
from wheelsmith.base.files import atomic_write, read_bounded
from wheelsmith.base.json_dataclass import canonical_json, in_one_line, read_json
from wheelsmith.base.sanitize import visible
from wheelsmith.index.entries.state import check_project
from wheelsmith.model import Listener
from wheelsmith.model.run_record import ShardName
from wheelsmith.plan.planned_run import PlannedRun
from wheelsmith.plan.shards import ShardedPlan, fewest, split
from wheelsmith.run.prepare import Prepared, Request, prepare
from wheelsmith.run.schedule import BuildCosts
from wheelsmith.store import Costs
from wheelsmith.wheel.recorded_plan import plan_differences

_LARGEST = 256 << 20  # bytes: a plan of flash-attn2's is one megabyte
_WORD = re.compile(r"(?P<number>\d{1,6})/(?P<count>\d{1,6})", re.ASCII)
_WRITE = "write it once for all jobs: wheelsmith plan --shards 3"


def sharded_plan(prepared: Prepared, count: int, *, longest: float, most: int) -> ShardedPlan:
    """Split what was prepared.

    :param count: of shards; 0 takes as few as the limits allow.
    :param longest: seconds of one core that a shard may take then.
    :param most: shards that there may be then.
    :raises MatrixError: nobody says what the project is called, so that there can be no index.
    """
    if not prepared.distribution or not prepared.version:
        raise MatrixError("nobody says what the project is called", remedy="say kernel.distribution and version")
    costs = BuildCosts(Costs(prepared.request.cache / "costs.sqlite"), (build.plan for build in prepared.builds))
    known = costs.known()
    shards = (
        split(prepared.builds, known, count) if count else fewest(prepared.builds, known, longest=longest, most=most)
    )
    planned: dict[str, Any] = {field.name: getattr(prepared, field.name) for field in fields(PlannedRun)}
    return ShardedPlan(**planned, shards=shards)


def write_shards(plan: ShardedPlan, path: Path) -> None:
    """Write what the jobs share."""
    atomic_write(path, canonical_json(plan.to_json()) + b"\n")


def read_shards(path: Path) -> ShardedPlan:
    """Read what the jobs share.

    :raises MatrixError: it is not there, or cannot be read.
    """
    try:
        plan = ShardedPlan.from_json(read_json(read_bounded(path, _LARGEST)))
        _check_complete(plan)
    except FileNotFoundError:
        raise MatrixError(f"there is no {path}", remedy=_WRITE) from None
    except (OSError, ValueError, PackageIndexError) as error:
        reason = f"it cannot be read: {in_one_line(error)}"
        raise MatrixError(reason, where=Place(file=str(path)), remedy=_WRITE) from None
    return plan


def _check_complete(plan: ShardedPlan) -> None:
    """Refuse a plan that was changed since it was written.

    :raises ValueError: it is inconsistent.
    :raises PackageIndexError: its project's name is none.
    """
    named = sorted(name for shard in plan.shards for name in shard.cells)
    planned = sorted(each.cell.id for each in plan.plans)
    excluded = {each.cell.id for each in plan.excluded}
    if named != planned or len(set(planned)) != len(planned) or excluded & set(planned):
        raise ValueError("its shards are not of its cells")
    if not planned or visible(plan.kernel) != plan.kernel:
        raise ValueError("it has no cells, or no name")
    Version(plan.version)
    check_project(plan.distribution)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenShard:
    """One shard of a plan that all jobs share."""

    plan: ShardedPlan
    number: int

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the ids of what it builds."""
        return self.plan.shards[self.number - 1].cells

    @property
    def name(self) -> ShardName:
        """Return what results.json calls it."""
        return ShardName(plan=self.plan.digest, number=self.number)

    def prepare(self, request: Request, listen: Listener) -> Prepared:
        """Prepare its cells alone.

        :raises MatrixError: this machine plans one of them otherwise than all jobs agreed on.
        """
        prepared = prepare(replace(request, only=self.cells), listen)
        _require_same_plans(self.plan, prepared)
        return prepared


def chosen_shard(word: str, path: Path) -> ChosenShard:
    """Return the shard that ``2/3`` is.

    :param path: of the plan that all jobs share.
    :raises MatrixError: it is none of that plan's, or that cannot be read.
    """
    plan = read_shards(path)
    match, count = _WORD.fullmatch(word), len(plan.shards)
    if match is None or int(match["count"]) != count or not 1 <= int(match["number"]) <= count:
        raise MatrixError(f"{word!r} is none of the plan's shards", remedy=f"name one of 1/{count} to {count}/{count}")
    return ChosenShard(plan=plan, number=int(match["number"]))


def _require_same_plans(plan: ShardedPlan, prepared: Prepared) -> None:
    agreed = {each.cell.id: each for each in plan.plans}
    for item in prepared.excluded:
        if item.cell.id in agreed:
            raise _otherwise(item.cell.id, f"it is not built: {item.reason}")
    for each in prepared.plans:
        known = agreed.get(each.cell.id)
        if known and known.build_digest != each.build_digest:
            told = (json.loads(one.recorded()) for one in (known, each))
            found = plan_differences(*told, said=("all jobs have", "here it is"))
            raise _otherwise(each.cell.id, found[0])


def _otherwise(cell: str, how: str) -> MatrixError:
    return MatrixError(
        f"{cell} is planned otherwise here than for all jobs: {how}",
        remedy="plan and build with the same wheelsmith, source and lock (wheelsmith lock), on machines alike",
    )
