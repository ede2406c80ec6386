"""Build the planned cells of a run, and publish their wheels to its index."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag

from wheelsmith.base.errors import CacheInUseError, StoreError
from wheelsmith.base.units import counted
from wheelsmith.engine import Engine, Limits
from wheelsmith.index.entries.stored_states import RUNS
from wheelsmith.index.publish.run_index import publish_run
from wheelsmith.matrix.remote_cache import RemoteCacheSettings
from wheelsmith.matrix.types import EngineChoice
from wheelsmith.model import (
    BuildPlan,
    BuildResult,
    CellFinished,
    Event,
    Expectation,
    Failure,
    Listener,
    Notice,
    RunFinished,
    RunStarted,
    Status,
    StepFinished,
    log_notices,
)
from wheelsmith.model.events import ignore
from wheelsmith.model.run_record import RunRecord
from wheelsmith.plan.planned_run import Build, PlannedRun, in_order
from wheelsmith.plan.recipe.phases import PhaseKind
from wheelsmith.run.executors import BuildRequest, Executor, open_executor
from wheelsmith.run.prepare import Prepared, Request
from wheelsmith.run.prepared_set import PreparedSet
from wheelsmith.run.remote_cache import fetch_wheels, open_remote_cache
from wheelsmith.run.result_collector import ResultCollector
from wheelsmith.run.schedule import BuildCosts
from wheelsmith.run.scratch import scratch
from wheelsmith.run.wheel_sizes import size_failure
from wheelsmith.store import (
    Bounds,
    Costs,
    RemoteCache,
    Store,
    StoredWheel,
    in_use,
    prune,
    reject_wheel,
    send_wheel,
)
from wheelsmith.toolchain.progress import report_preparation
from wheelsmith.wheel.checker_version import checker_digest

NO_REMOTE_CACHE = RemoteCacheSettings()
# Folders that a run writes to. The output folder may come from an untrusted kernel, so these may be links.
_OUTPUT_FOLDERS = ("logs", "wheels", "index", "index/_state", f"index/{RUNS}")


def build(run_of: Prepared | PreparedSet, listen: Listener = log_notices, cancel: Flag | None = None) -> RunRecord:
    """Build the wheels that the store lacks, then publish every wheel of the run to its index.

    A failed cell is a result, not an error.

    :param listen: receives every event; by default notices go to ``logging``.
    :param cancel: a ``threading.Event``. Once it is set, running builds are stopped and no more are started.
    :raises WheelsmithError: the output folder, the cache or the machine cannot be used.
    """
    prepared = run_of if isinstance(run_of, PreparedSet) else PreparedSet.of(run_of)
    request, cancel = prepared.request, cancel or Flag()
    executor = open_executor(request.executor)
    make_output_folder(prepared.out)
    prepared.engine.tidy()
    with announce_run(prepared, prepared.engine.name, listen, cancel) as run:
        with in_use(request.cache), scratch(request.cache / "work") as folder:
            _build_all(executor, prepared, folder, run, cancel)
            store = Store(request.cache / "store")
            kernels = prepared.by_kernel(run.results)
            matrix = os.path.relpath(request.matrix, prepared.out)
            run.older_wheels = publish_run(
                kernels, out=prepared.out, matrix=matrix, store=store, work=folder, prune=request.prune
            )
        _prune_cache(request, run, cancel)
    return prepared.record(run.results, interrupted=cancel.is_set(), older=run.older_wheels or ())


class ActiveRun:
    """Collects the results of a run and forwards its events."""

    def __init__(self, planned: PlannedRun, listen: Listener) -> None:
        self._listen = listen
        self._order = {plan.cell.id: place for place, plan in enumerate(planned.plans)}
        self._results: list[BuildResult] = []
        self._first: dict[str, tuple[str, str]] = {}  # file name → hash of the wheel, and its first cell
        self.older_wheels: tuple[str, ...] | None = None  # None until the index is written
        self.phases = Counter[bool]()
        self._warnings: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Forward an event, but each warning once. Count compile phases, reused ones apart."""
        if isinstance(event, Notice) and event.level == "warning":
            if event.text in self._warnings:
                return
            self._warnings.add(event.text)
        if isinstance(event, StepFinished) and event.kind != PhaseKind.PREPROCESS:
            self.phases[event.reused] += 1
        self._listen(event)

    def finish(self, result: BuildResult) -> None:
        """Record the result of a cell. It fails if its wheel is too large, or another one has the same name."""
        if failure := size_failure(result):
            result = replace(result, status=Status.FAILED, wheel=None, failure=failure)
        if wheel := result.wheel:
            sha256, first = self._first.setdefault(wheel.filename, (wheel.sha256, result.cell.id))
            if sha256 != wheel.sha256:
                failure = Failure(
                    stage="store",
                    message=f"its wheel has the name of the wheel of {first}, {wheel.filename}, but other bytes",
                    remedy="keep one of the two in the matrix; a wheel with abi3 or none in its name fits many Pythons",
                )
                result = replace(result, status=Status.FAILED, wheel=None, failure=failure)
        self._results.append(result)
        self(CellFinished(result=result))

    @property
    def results(self) -> tuple[BuildResult, ...]:
        """Return the results so far, in the order of the plans."""
        return tuple(sorted(self._results, key=lambda result: self._order[result.cell.id]))


@contextmanager
def announce_run(planned: PlannedRun, engine: str, listen: Listener, cancel: Flag) -> Iterator[ActiveRun]:
    """Announce the start of a run, and its end even after an error."""
    start, run = time.monotonic(), ActiveRun(planned, listen)
    listen(
        RunStarted(
            kernel=planned.kernel,
            engine=engine,
            plans=planned.plans,
            excluded=planned.excluded,
            folded=planned.folded,
        )
    )
    try:
        yield run
    finally:
        listen(
            RunFinished(
                results=run.results,
                excluded=planned.excluded,
                interrupted=cancel.is_set(),
                seconds=round(time.monotonic() - start, 3),
                compiled=run.phases[False],
                reused=run.phases[True],
                older_wheels=run.older_wheels,
            )
        )


def make_output_folder(out: Path) -> None:
    """Create the output folder of a run.

    :raises StoreError: it is not writable, or a folder in it is a link.
    """
    for name in _OUTPUT_FOLDERS:
        if (out / name).is_symlink():
            raise StoreError(
                f"{out / name} is a link, so the run would write and remove files in another place",
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


def _build_all(executor: Executor, prepared: PreparedSet, folder: Path, run: ActiveRun, cancel: Flag) -> None:
    request = prepared.request
    store = Store(request.cache / "store")
    remote = open_remote_cache(prepared.remote_cache, run)
    stored = {} if request.force else stored_wheels(prepared.plans, request.cache, prepared.engine)
    if remote and not request.force:
        stored |= _take_remote_wheels(remote, stored, executor, prepared, folder, run, cancel)
    cached, to_recheck, to_build = _sort_builds(prepared, stored)
    costs = Costs.in_cache(request.cache)
    build_costs = BuildCosts(costs, (build.plan for build in to_build))

    def listen(event: Event) -> None:
        build_costs(event)
        run(event)

    def finish(result: BuildResult) -> None:
        build_costs(CellFinished(result=result))
        run.finish(result)
        if remote and result.status is Status.BUILT:
            _send_wheel(remote, store, result.plan_digest)

    shared = prepared.remote_cache if remote and remote.is_read else NO_REMOTE_CACHE
    for result in cached:
        finish(result)
    listen(Expectation(seconds=build_costs.known()))
    collector = ResultCollector((*to_build, *to_recheck), store, finish)
    try:
        for group in in_order((*to_build, *to_recheck)):
            if cancel.is_set() or (request.fail_fast and collector.some_failed):
                break
            ready = [build for build in group if not _answer_blocked(build, run, collector)]
            work = make_build_request(
                prepared,
                folder,
                to_build=[build for build in ready if build in to_build],
                to_recheck=[build for build in ready if build in to_recheck],
                remote_cache=shared,
            )
            executor.build(work, listen=listen, on_result=collector.take, cancel=cancel)
    finally:
        costs.save()
        if remote:
            remote.close()
    if cancel.is_set() or (request.fail_fast and collector.some_failed):
        collector.cancel_rest()
    collector.fail_rest(request.executor)


def _take_remote_wheels(
    remote: RemoteCache,
    known: Mapping[str, StoredWheel],
    executor: Executor,
    prepared: PreparedSet,
    folder: Path,
    listen: Listener,
    cancel: Flag,
) -> dict[str, StoredWheel]:
    """Copy wheels from a remote cache to the store, and return those that pass the check, by build digest.

    The check needs no toolchain. Nothing that the remote cache says about a wheel is believed.

    :param known: build digest → wheel in the store.
    """
    store, passed = Store(prepared.request.cache / "store"), dict[str, StoredWheel]()
    missing = {build.plan.build_digest: build for build in prepared.builds if build.plan.build_digest not in known}
    if not missing:
        return passed
    with report_preparation(f"looking for {counted(len(missing), 'wheel')} in the remote cache", listen):
        found = [missing[digest] for digest in fetch_wheels(remote, store, missing, folder, cancel)]

    def take(result: BuildResult) -> None:
        if result.status is Status.FAILED:
            reject_wheel(remote, store, result.plan_digest)
        elif stored := store.find(result.plan_digest):
            passed[result.plan_digest] = stored

    if found:
        work = make_build_request(prepared, folder, to_recheck=found)
        # The run tests wheels later.
        kernels = {name: replace(inputs, test=None) for name, inputs in work.kernels.items()}
        executor.build(replace(work, kernels=kernels), listen=ignore, on_result=take, cancel=cancel)
    return passed


def _send_wheel(remote: RemoteCache, store: Store, build_digest: str) -> None:
    stored = store.find(build_digest)
    if stored and not stored.of_machine:
        send_wheel(remote, build_digest, stored.wheel, stored.path)


def _answer_blocked(build: Build, run: ActiveRun, collector: ResultCollector) -> bool:
    """Report a build as failed if a wheel that it requires has failed. Return True if it did."""
    digests = {each.digest for each in build.plan.requires}
    cause = next((each for each in run.results if each.plan_digest in digests and each.wheel is None), None)
    if cause is None:
        return False
    plan, why = build.plan, f": {cause.failure.message}" if cause.failure else ""
    failure = Failure(stage="requires", message=f"it requires {cause.cell.id}, which has no wheel{why}").escaped()
    collector.take(BuildResult(cell=plan.cell, plan_digest=plan.build_digest, status=Status.FAILED, failure=failure))
    return True


def make_build_request(
    prepared: PreparedSet,
    folder: Path,
    *,
    to_build: Sequence[Build] = (),
    to_recheck: Sequence[Build] = (),
    remote_cache: RemoteCacheSettings = NO_REMOTE_CACHE,
) -> BuildRequest:
    """Return the request for an executor.

    :param folder: a scratch folder for this run only.
    :param to_build: builds to run, or with a wheel to test.
    :param to_recheck: builds with a wheel to check again.
    :param remote_cache: a cache for compiled objects that machines share.
    """
    request = prepared.request
    return BuildRequest(
        to_build=tuple(build.plan for build in to_build),
        to_recheck=tuple(build.plan for build in to_recheck),
        kernels=prepared.inputs,
        engine=prepared.engine.name,
        cache=request.cache,
        folder=folder,
        logs=prepared.out / "logs",
        limits=build_limits(prepared.limits),
        jobs=request.jobs,
        cores_per_cell=request.cores_per_cell,
        memory=request.memory,
        force=request.force,
        reuse=request.reuse,
        fail_fast=request.fail_fast,
        remote_cache=remote_cache,
    )


def build_limits(choice: EngineChoice) -> Limits:
    """Return the limits of one build from the matrix. A memory limit of None means that the machine decides."""
    usual = Limits()
    return Limits(memory=choice.memory, disk=choice.disk or usual.disk, seconds=choice.seconds or usual.seconds)


def _sort_builds(
    prepared: PreparedSet, stored: Mapping[str, StoredWheel]
) -> tuple[list[BuildResult], list[Build], list[Build]]:
    """Sort the builds of a run by the work that they need.

    :param stored: build digest → wheel in the store.
    :return: results of stored wheels that passed the current check; builds with a stored wheel to check again, which
        needs no toolchain; and builds to run, or with a wheel to test.
    """
    request = prepared.request
    cached: list[BuildResult] = []
    to_recheck: list[Build] = []
    to_build: list[Build] = []
    for build in prepared.builds:
        known = stored.get(build.plan.build_digest)
        if known is None or request.test:
            to_build.append(build)
        elif known.checked != checker_digest():
            to_recheck.append(build)
        else:
            cached += (
                BuildResult(
                    cell=plan.cell,
                    plan_digest=plan.build_digest,
                    status=Status.UPSTREAM if plan.repacked else Status.CACHED,
                    wheel=known.wheel,
                    built_in=known.timings,
                )
                for plan in build.plans
            )
    return cached, to_recheck, to_build


def _prune_cache(request: Request, run: ActiveRun, cancel: Flag) -> None:
    """Prune the cache to its limit if it has grown. If other runs are active, the last of them prunes it."""
    grown = any(result.status is not Status.CACHED for result in run.results)
    if request.cache_limit is None or cancel.is_set() or not grown:
        return
    try:
        prune(request.cache, Bounds(size=request.cache_limit))
    except CacheInUseError:
        return
    except StoreError as error:
        run(Notice(level="warning", text=str(error)))


def stored_wheels(plans: Iterable[BuildPlan], cache: Path, engine: Engine) -> dict[str, StoredWheel]:
    """Return build digest → stored wheel, for plans that were built before.

    :param engine: if it has a sandbox, wheels that were built without one are left out.
    """
    store = Store(cache / "store")
    found = {digest: store.find(digest) for digest in dict.fromkeys(plan.build_digest for plan in plans)}
    return {
        digest: stored for digest, stored in found.items() if stored and not (stored.of_machine and engine.isolates)
    }
