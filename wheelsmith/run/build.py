"""Build what was prepared, and put it into an index: every cell gets an answer."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

from wheelsmith.base.errors import CacheInUseError, StoreError
from wheelsmith.engine import Limits
from wheelsmith.index.publish import RUNS, publish_run
from wheelsmith.matrix import EngineChoice
from wheelsmith.model import (
    BuildPlan,
    BuildResult,
    CellFinished,
    Event,
    Expectation,
    Listener,
    Notice,
    RunFinished,
    RunStarted,
    Status,
    StepFinished,
    log_notices,
)
from wheelsmith.model.run_record import RunRecord
from wheelsmith.plan.fold import Build
from wheelsmith.plan.recipe import PhaseKind
from wheelsmith.run.executors import BuildOptions, BuildRequest, Executor, open_executor
from wheelsmith.run.prepare import Prepared, Request
from wheelsmith.run.result_collector import ResultCollector
from wheelsmith.run.schedule import BuildCosts
from wheelsmith.run.scratch import scratch
from wheelsmith.run.stored import stored_wheels
from wheelsmith.run.torch_header_notice import HeaderAdvice
from wheelsmith.store import Bounds, Costs, Store, StoredWheel, in_use, prune
from wheelsmith.wheel import checker_digest

# What a run writes to in its output folder, which may have come with a stranger's kernel.
_OWN_FOLDERS = ("logs", "wheels", "index", "index/_state", f"index/{RUNS}")


def build(prepared: Prepared, listen: Listener = log_notices, cancel: Flag | None = None) -> RunRecord:
    """Build what the store does not have, then publish every wheel of the run to its index.

    A cell that fails is a result, not an error.

    :param listen: hears of everything that happens; by default notices go to ``logging``.
    :param cancel: a ``threading.Event``; once it is set, nothing more is begun and what runs is ended.
    :raises WheelsmithError: the output folder, the cache or the machine is not fit for it.
    """
    start, request = time.monotonic(), prepared.request
    cancel = cancel or Flag()
    executor = open_executor(request.executor)
    make_output_folder(prepared.out)
    prepared.engine.tidy()
    listen(
        RunStarted(
            kernel=prepared.kernel,
            engine=prepared.engine.name,
            plans=prepared.plans,
            excluded=prepared.excluded,
            folded=prepared.folded,
        )
    )
    results: list[BuildResult] = []
    tally = _Tally(listen)
    try:
        with in_use(request.cache), scratch(request.cache / "work") as folder:
            _build_all(executor, prepared, folder, tally, results, cancel)
            order = {plan.cell.id: place for place, plan in enumerate(prepared.plans)}
            results.sort(key=lambda result: order[result.cell.id])
            publish_run(prepared, results, out=prepared.out, store=Store(request.cache / "store"), work=folder)
        _prune_cache(request, results, listen, cancel)
    finally:
        listen(
            RunFinished(
                results=tuple(results),
                excluded=prepared.excluded,
                interrupted=cancel.is_set(),
                seconds=round(time.monotonic() - start, 3),
                compiled=tally.counts[False],
                reused=tally.counts[True],
            )
        )
    return prepared.record(results, interrupted=cancel.is_set())


class _Tally:
    """Counts the phases of compiling by whether they had been made before, and passes events on."""

    def __init__(self, listen: Listener) -> None:
        self._listen = listen
        self.counts: Counter[bool] = Counter()

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepFinished) and event.kind != PhaseKind.PREPROCESS:
            self.counts[event.reused] += 1
        self._listen(event)


def make_output_folder(out: Path) -> None:
    """Make the folder that a run writes to, and see that it can.

    :raises StoreError: it cannot, or it came with links in it that lead elsewhere.
    """
    for name in _OWN_FOLDERS:
        if (out / name).is_symlink():
            raise StoreError(
                f"{out / name} is a link: what a run writes there, and removes, would be elsewhere",
                remedy="remove it, or choose another place with --out",
            )
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise StoreError(
            f"the output folder {out} cannot be written: {error.strerror}",
            remedy="fix its permissions, or choose another place with --out",
        ) from error


def _build_all(
    executor: Executor,
    prepared: Prepared,
    folder: Path,
    listen: Listener,
    results: list[BuildResult],
    cancel: Flag,
) -> None:
    def heard(event: Event) -> None:
        spent(event)
        advice(event)
        listen(event)

    def answered(result: BuildResult) -> None:
        results.append(result)
        heard(CellFinished(result=result))

    request, to_do = prepared.request, _look_up(prepared)
    costs = Costs(request.cache / "costs.sqlite")
    spent = BuildCosts(costs, (build.plan for build in to_do.to_build))
    advice = HeaderAdvice((build.plan for build in to_do.to_build), prepared.source)
    for result in to_do.proven:
        answered(result)
    listen(Expectation(seconds=spent.known()))
    answers = ResultCollector((*to_do.to_build, *to_do.to_recheck), Store(request.cache / "store"), answered)
    work = request_of(prepared, folder, to_build=to_do.to_build, to_recheck=to_do.to_recheck)
    try:
        executor.build(work, listen=heard, on_result=answers.take, cancel=cancel)
    finally:
        costs.save()
    advice.tell(listen)
    if cancel.is_set() or (request.fail_fast and answers.some_failed):
        answers.cancel_rest()
    answers.fail_rest(request.executor)


def request_of(
    prepared: Prepared,
    folder: Path,
    *,
    to_build: tuple[Build, ...] = (),
    to_recheck: tuple[Build, ...] = (),
) -> BuildRequest:
    """Return what an executor is given.

    :param folder: a scratch folder of this run alone.
    :param to_build: what is to be built, or tested.
    :param to_recheck: what is to be checked again.
    """
    request = prepared.request
    options = BuildOptions(
        limits=limits_of(prepared.matrix.engine),
        jobs=request.jobs,
        cores_per_cell=request.cores_per_cell,
        builds=len(prepared.builds),
        memory=request.memory,
        test=prepared.matrix.kernel.test if request.test else None,
        force=request.force,
        reuse=request.reuse,
    )
    return BuildRequest(
        to_build=tuple(build.plan for build in to_build),
        to_recheck=tuple(build.plan for build in to_recheck),
        options=options,
        source=prepared.source,
        engine=prepared.engine.name,
        cache=request.cache,
        folder=folder,
        logs=prepared.out / "logs",
        fail_fast=request.fail_fast,
    )


def limits_of(choice: EngineChoice) -> Limits:
    """Return what a matrix allows one build; what it leaves open is for the machine to say."""
    limits = {"memory": choice.memory, "disk": choice.disk, "seconds": choice.seconds}
    return Limits(**{name: value for name, value in limits.items() if value is not None})  # type: ignore[arg-type]  # each has its field's type


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToDo:
    """What a run has to do.

    :param proven: what is in the store and passed this very check.
    :param to_recheck: what is in the store, to be checked again, which needs no toolchain.
    :param to_build: what is built, or tested, with its toolchains.
    """

    proven: tuple[BuildResult, ...]
    to_recheck: tuple[Build, ...]
    to_build: tuple[Build, ...]


def _look_up(prepared: Prepared) -> _ToDo:
    request = prepared.request
    stored = {} if request.force else stored_wheels(prepared.plans, request.cache, prepared.engine)
    proven = {digest for digest, wheel in stored.items() if wheel.checked == checker_digest() and not request.test}
    builds = tuple(build for build in prepared.builds if build.plan.build_digest not in proven)
    to_recheck = tuple(build for build in builds if build.plan.build_digest in stored and not request.test)
    results = (_cached(plan, stored[plan.build_digest]) for plan in prepared.plans if plan.build_digest in proven)
    known = {build.plan.cell.id for build in to_recheck}
    to_build = tuple(build for build in builds if build.plan.cell.id not in known)
    return _ToDo(proven=tuple(results), to_recheck=to_recheck, to_build=to_build)


def _cached(plan: BuildPlan, stored: StoredWheel) -> BuildResult:
    return BuildResult(
        cell=plan.cell,
        plan_digest=plan.build_digest,
        status=Status.CACHED,
        wheel=stored.wheel,
        built_in=stored.timings,
    )


def _prune_cache(request: Request, results: list[BuildResult], listen: Listener, cancel: Flag) -> None:
    """Prune the cache to its limit when something came into it; with other runs going on, the last one does it."""
    grown = any(result.status is not Status.CACHED for result in results)
    if request.cache_limit is None or cancel.is_set() or not grown:
        return
    try:
        prune(request.cache, Bounds(size=request.cache_limit))
    except CacheInUseError:
        return
    except StoreError as error:
        listen(Notice(level="warning", text=str(error)))
