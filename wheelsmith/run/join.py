"""What the jobs of a pipeline made, taken together: every cell has its answer, and every wheel is checked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Event as Flag

from packaging.version import Version

from wheelsmith.base.errors import WheelError
from wheelsmith.engine import Limits, choose
from wheelsmith.index.publish import RunResults, RunSources, publish_run
from wheelsmith.model import (
    BuildPlan,
    BuildResult,
    CellFinished,
    Excluded,
    Failure,
    Folded,
    Listener,
    RunFinished,
    RunStarted,
    Status,
    WheelFile,
)
from wheelsmith.model.build_host import AUTO
from wheelsmith.plan.fold import Build, fold, folded
from wheelsmith.plan.shards import ShardedPlan
from wheelsmith.run.build import Outcome, make_output_folder
from wheelsmith.run.executors import BuildOptions, BuildRequest, open_executor
from wheelsmith.run.result_collector import ResultCollector
from wheelsmith.run.scratch import scratch
from wheelsmith.run.shard_results import ShardOutput, ToldResult, copy_log, take_wheel
from wheelsmith.source import SourceTree
from wheelsmith.store import Store
from wheelsmith.wheel import wheel_file
from wheelsmith.wheel.archive.contents import info_folder, open_archive
from wheelsmith.wheel.recorded_plan import read_recorded_plan

_EXECUTOR = "local"


@dataclass(frozen=True, kw_only=True)
class Joining:
    """What is joined, and into which folder.

    :param outputs: number of a shard, from 1 → what it left.
    :param out: gets the index, results and logs.
    :param cache: under which a scratch folder is made; what is joined does not come into the cache.
    """

    plan: ShardedPlan
    outputs: Mapping[int, ShardOutput]
    out: Path
    cache: Path
    engine: str | None = None
    jobs: int | None = None

    @property
    def kernel(self) -> str:
        """What people call it."""
        return self.plan.kernel

    @property
    def distribution(self) -> str:
        """The project's name."""
        return self.plan.distribution

    @property
    def version(self) -> str:
        """Without a local part."""
        return self.plan.version

    @property
    def matrix_sha256(self) -> str | None:
        """Of the matrix that was split."""
        return self.plan.matrix_sha256

    @property
    def plans(self) -> tuple[BuildPlan, ...]:
        """Those of all shards."""
        return self.plan.plans

    @property
    def excluded(self) -> tuple[Excluded, ...]:
        """The cells that nobody was to build."""
        return self.plan.excluded

    @property
    def not_folded(self) -> Mapping[str, str]:
        """Cell id → why no older minor of its CUDA answers for it."""
        return self.plan.not_folded

    @cached_property
    def builds(self) -> tuple[Build, ...]:
        """The plans, those that make the same wheel together."""
        return fold(self.plans)

    @cached_property
    def folded(self) -> dict[str, Folded]:
        """Cell id → whose wheel it shares."""
        return folded(self.builds)


def join(joining: Joining, listen: Listener, cancel: Flag) -> Outcome:
    """Check every wheel again, and put all of them into one index at once.

    A wheel that is not the one that its shard told of, or that fails its check, is its cell's failure.

    :raises WheelsmithError: the output folder or the machine is not fit for it.
    """
    start = time.monotonic()
    make_output_folder(joining.out)
    engine = choose(joining.engine or AUTO, images=frozenset({None}), trusted=False, cache=joining.cache).engine
    plans, excluded = joining.plans, joining.excluded
    listen(RunStarted(kernel=joining.kernel, engine=engine.name, plans=plans, excluded=excluded, folded=joining.folded))
    results: list[BuildResult] = []

    def answered(result: BuildResult) -> None:
        results.append(result)
        listen(CellFinished(result=result))

    try:
        with scratch(joining.cache / "work") as folder:
            _answer_all(joining, engine.name, folder, answered, listen, cancel)
            order = {plan.cell.id: place for place, plan in enumerate(plans)}
            results.sort(key=lambda result: order[result.cell.id])
            # Also where somebody stopped it: what is told to be there is there.
            if results:
                publish_run(_told(joining, results), out=joining.out, store=Store(folder / "cache/store"), work=folder)
    finally:
        seconds = round(time.monotonic() - start, 3)
        interrupted = cancel.is_set()
        listen(RunFinished(results=tuple(results), excluded=excluded, interrupted=interrupted, seconds=seconds))
    return Outcome(results=tuple(results), excluded=excluded, interrupted=cancel.is_set())


def _told(joining: Joining, results: list[BuildResult]) -> RunResults:
    plan = joining.plan
    return RunResults(
        distribution=plan.distribution,
        version=Version(plan.version),
        sources=RunSources(trees=frozenset(plan.trees), commit=plan.commit),
        cells=frozenset(plan.cells),
        offered=frozenset(plan.offered),
        plans=plan.plans,
        results=tuple(results),
        excluded=plan.excluded,
        variants=plan.variants,
    )


def _answer_all(
    joining: Joining,
    engine: str,
    folder: Path,
    answered: Callable[[BuildResult], None],
    listen: Listener,
    cancel: Flag,
) -> None:
    """Answer for every cell: as its shard did, if its wheel is what that says and passes the check."""
    told = {name: output for output in joining.outputs.values() for name in output.results}
    store = Store(folder / "cache/store")
    to_check: list[Build] = []
    kept: dict[str, ToldResult] = {}
    for number, build in enumerate(joining.builds):
        cell = build.plan.cell.id
        result, output = told[cell].results[cell], told[cell]
        known = replace(result, log=copy_log(output, result.log, cell, joining.out / "logs"))
        kept[build.plan.build_digest] = known
        why = _take(build.plan, output, result.wheel, folder / "given" / str(number), store) if result.wheel else None
        if result.wheel and why is None:
            to_check.append(build)
            continue
        for answer in build.answers(_failed(build.plan, known, why or result.failure)):
            answered(answer)

    def checked(result: BuildResult) -> None:
        """Tell of a wheel that was checked here; of its shard's words, how it was made and how long it took."""
        known = kept[result.plan_digest]
        own = replace(result, log=known.log)
        if result.wheel and result.status is not Status.FOLDED:
            made = known.status if known.status in {Status.BUILT, Status.CACHED} else Status.BUILT
            own = replace(own, status=made, timings=known.timings, built_in=known.built_in)
        answered(own)

    answers = ResultCollector(to_check, store, checked)
    open_executor(_EXECUTOR).build(
        _order(joining, engine, folder, to_check), listen=listen, on_result=answers.take, cancel=cancel
    )
    if cancel.is_set():
        answers.cancel_rest()
    answers.fail_rest(_EXECUTOR)


def _take(plan: BuildPlan, output: ShardOutput, wheel: WheelFile, folder: Path, store: Store) -> Failure | None:
    """Put a wheel into a store; return why it is not what its shard says."""
    try:
        path = take_wheel(output, wheel, folder)
        with open_archive(path) as archive:
            recorded = read_recorded_plan(archive, info_folder(archive))
        if not plan.repacked and (recorded is None or recorded.digest != plan.build_digest):
            return Failure(stage="store", message=f"{path.name} is not from the plan of this cell")
        store.put(plan.build_digest, path, wheel_file(path))
    except WheelError as error:
        return Failure(stage="store", message=error.message, remedy=error.remedy)
    return None


def _failed(plan: BuildPlan, told: ToldResult, failure: Failure | None) -> BuildResult:
    return BuildResult(
        cell=plan.cell,
        plan_digest=plan.build_digest,
        status=Status.FAILED,
        failure=failure or Failure(stage="internal", message="the shard does not say why"),
        timings=told.timings,
        log=told.log,
    )


def _order(joining: Joining, engine: str, folder: Path, to_check: Sequence[Build]) -> BuildRequest:
    options = BuildOptions(
        limits=Limits(),
        jobs=joining.jobs,
        cores_per_cell=None,
        builds=len(to_check),
        memory=None,
        test=None,
        force=False,
        reuse=False,
    )
    return BuildRequest(
        to_build=(),
        to_recheck=tuple(build.plan for build in to_check),
        options=options,
        source=SourceTree(id=joining.plans[0].source, files=()),
        engine=engine,
        cache=folder / "cache",
        folder=folder,
        logs=folder / "logs",
        fail_fast=False,
    )
