"""Build what was prepared, and put it into an index: every cell gets an answer."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

from packaging.version import Version

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import CacheInUse, StoreError
from wheelsmith.engine import Limits, engine_for_own_programs, granted_cores, granted_memory
from wheelsmith.index.publish import RUNS, Answered, publish_run
from wheelsmith.model import (
    BuildPlan,
    BuildResult,
    CellFinished,
    Event,
    Excluded,
    Expectation,
    Listener,
    Load,
    Notice,
    PrefixId,
    RunFinished,
    RunStarted,
    Status,
    StepFinished,
    ignore,
)
from wheelsmith.pipeline import BuildContext, CellBuild, Prefetched
from wheelsmith.pipeline.tasks import Demand, Task
from wheelsmith.plan.fold import Build
from wheelsmith.plan.recipe import PhaseKind
from wheelsmith.run.prepare import Prepared, Request
from wheelsmith.run.schedule import BuildCosts, Machine, run_builds
from wheelsmith.run.scratch import scratch
from wheelsmith.run.stored import stored_wheels
from wheelsmith.store import Bounds, Costs, Objects, Store, StoredWheel, in_use, prune
from wheelsmith.toolchain import Toolchains
from wheelsmith.wheel import check_edition

# What a run writes to in its output folder, which may have come with a stranger's kernel.
_OWN_FOLDERS = ("logs", "wheels", "index", "index/_state", f"index/{RUNS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run."""

    results: tuple[BuildResult, ...]
    excluded: tuple[Excluded, ...]
    interrupted: bool


def build(prepared: Prepared, request: Request, listen: Listener = ignore, cancel: Flag | None = None) -> Outcome:
    """Build what the store does not have, then publish every wheel of the run to its index.

    A cell that fails is a result, not an error.

    :param listen: hears of everything that happens.
    :param cancel: a ``threading.Event``; once it is set, nothing more is begun and what runs is ended.
    :raises WheelsmithError: the output folder, the cache or the machine is not fit for it.
    """
    start = time.monotonic()
    cancel = cancel or Flag()
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
            _build_all(prepared, request, folder, tally, results, cancel)
            order = {plan.cell.id: place for place, plan in enumerate(prepared.plans)}
            results.sort(key=lambda result: order[result.cell.id])
            _tell_index(prepared, results, Store(request.cache / "store"), folder)
        _keep_small(request, results, listen, cancel)
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
    return Outcome(results=tuple(results), excluded=prepared.excluded, interrupted=cancel.is_set())


def _tell_index(prepared: Prepared, results: Sequence[BuildResult], store: Store, folder: Path) -> None:
    """Put what a run came to into its own index; where nobody says what the project is called, it has no page."""
    if not prepared.distribution or not prepared.version:
        return
    answered = Answered(
        distribution=prepared.distribution,
        version=Version(prepared.version),
        tree=prepared.source.id.tree,
        cells=prepared.cells,
        plans=prepared.plans,
        results=tuple(results),
        excluded=prepared.excluded,
        variants=prepared.matrix.output.variants,
    )
    publish_run(answered, out=prepared.out, store=store, work=folder)


class _Tally:
    """Counts the phases of compiling by whether they had been made before, and passes events on."""

    def __init__(self, listen: Listener) -> None:
        self._listen = listen
        self.counts: Counter[bool] = Counter()

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepFinished) and event.kind != PhaseKind.PREPROCESS:
            self.counts[event.reused] += 1
        self._listen(event)


def make_context(prepared: Prepared, request: Request, folder: Path, listen: Listener) -> BuildContext:
    """Return what cells of this run are built with."""
    choice = prepared.matrix.engine
    builds = len(prepared.builds)
    cores = request.cores_per_cell or max(1, _cores(request) // max(1, builds))
    # No engine gives more cores than there are, and docker refuses to be asked.
    cpus = float(min(cores, granted_cores()))
    memory = request.memory or granted_memory() * 4 // 5
    asked = {"memory": choice.memory or memory, "disk": choice.disk, "seconds": choice.seconds, "cpus": cpus}
    return BuildContext(
        source=prepared.source,
        engine=prepared.engine,
        own_engine=engine_for_own_programs(prepared.engine),
        toolchains=Prefetched(Toolchains(request.cache, listen)),
        store=Store(request.cache / "store"),
        objects=Objects(request.cache / "objects"),
        costs=Costs(request.cache / "costs.sqlite"),
        limits=Limits(**{name: value for name, value in asked.items() if value is not None}),  # type: ignore[arg-type]  # each has its field's type
        memory=memory,
        cores=cores,
        folder=folder,
        logs=prepared.out / "logs",
        listen=listen,
        test=prepared.matrix.kernel.test if request.test else None,
        force=request.force,
        reuse=request.reuse,
    )


def _cores(request: Request) -> int:
    return request.jobs or granted_cores()


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
            remedy="mend its permissions, or choose another place with --out",
        ) from error


def _build_all(
    prepared: Prepared,
    request: Request,
    folder: Path,
    listen: Listener,
    results: list[BuildResult],
    cancel: Flag,
) -> None:
    def answered(result: BuildResult) -> None:
        results.append(result)
        listen(CellFinished(result=result))

    def heard(event: Event) -> None:
        spent(event)
        listen(event)

    def loaded(held: Demand) -> None:
        listen(Load(cores=held.cores, all_cores=whole.cores, memory=held.memory, all_memory=whole.memory))

    work = _work_to_do(prepared, request)
    for result in work.proven:
        answered(result)
    context = make_context(prepared, request, folder, heard)
    builds = (*work.made, *work.kept)
    folded = {build.plan.cell.id: build for build in builds}
    spent = BuildCosts(context.costs, (build.plan for build in work.made))
    listen(Expectation(seconds=spent.known()))
    whole = Machine(cores=_cores(request), memory=context.memory)

    def finished(result: BuildResult) -> None:
        # One cell may leave as much as engine.disk, and all together more than any disk.
        remove_tree(folder / result.cell.id)
        spent(CellFinished(result=result))
        for answer in folded[result.cell.id].answers(result):
            answered(answer)

    needs = {build.plan.cell.id: _fetched(build.plan) for build in work.made}
    try:
        run_builds(
            [CellBuild(plan, context, needs.get(plan.cell.id, ())) for plan in _heaviest_first(builds)],
            _fetches(work.made, context),
            machine=whole,
            on_load=loaded,
            on_result=finished,
            fail_fast=request.fail_fast,
            cancel=cancel,
        )
    finally:
        context.costs.save()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What a run has to do.

    :param proven: what is in the store and passed this very check.
    :param kept: what is in the store, to be checked again, which needs no toolchain.
    :param made: what is built, or tested, with its toolchains.
    """

    proven: tuple[BuildResult, ...]
    kept: tuple[Build, ...]
    made: tuple[Build, ...]


def _work_to_do(prepared: Prepared, request: Request) -> _Work:
    stored = {} if request.force else stored_wheels(prepared.plans, request.cache)
    proven = {digest for digest, wheel in stored.items() if wheel.checked == check_edition() and not request.test}
    builds = tuple(build for build in prepared.builds if build.plan.build_digest not in proven)
    kept = tuple(build for build in builds if build.plan.build_digest in stored and not request.test)
    results = (_cached(plan, stored[plan.build_digest]) for plan in prepared.plans if plan.build_digest in proven)
    known = {build.plan.cell.id for build in kept}
    made = tuple(build for build in builds if build.plan.cell.id not in known)
    return _Work(proven=tuple(results), kept=kept, made=made)


def _heaviest_first(builds: Iterable[Build]) -> list[BuildPlan]:
    """Sort the plans with the most to compile first, so that none of them is left for the end."""

    def weight(plan: BuildPlan) -> int:
        return sum(1 + len(step.gpu_archs) for step in plan.recipe.steps)

    return sorted((build.plan for build in builds), key=weight, reverse=True)


def _prefixes(plan: BuildPlan) -> tuple[PrefixId, ...]:
    return tuple(
        prefix for prefix in (plan.headers, plan.toolkit, *plan.libraries) if prefix and prefix.kind != "image-cuda"
    )


def _fetched(plan: BuildPlan) -> tuple[str, ...]:
    return tuple(_fetch_name(prefix) for prefix in _prefixes(plan))


def _fetch_name(prefix: PrefixId) -> str:
    return f"fetch:{prefix.kind}-{prefix.version}-{prefix.arch}-{prefix.digest[:16]}"


def _fetches(builds: tuple[Build, ...], context: BuildContext) -> tuple[Task, ...]:
    """Return the tasks that make toolchains, while whatever has its own is compiled already."""
    prefixes = dict.fromkeys(prefix for plan in _heaviest_first(builds) for prefix in _prefixes(plan))

    def fetch(prefix: PrefixId) -> Task:
        def run(memory: int) -> tuple[Task, ...]:
            del memory
            context.toolchains.prefetch(prefix)
            return ()

        return Task(name=_fetch_name(prefix), group="", run=run, demand=Demand(cores=0))

    return tuple(fetch(prefix) for prefix in prefixes)


def _cached(plan: BuildPlan, stored: StoredWheel) -> BuildResult:
    return BuildResult(
        cell=plan.cell,
        plan_digest=plan.build_digest,
        status=Status.CACHED,
        wheel=stored.wheel,
        built_in=stored.timings,
    )


def _keep_small(request: Request, results: list[BuildResult], listen: Listener, cancel: Flag) -> None:
    """Prune the cache to its limit when something came into it; with other runs going on, the last one does it."""
    grown = any(result.status is not Status.CACHED for result in results)
    if request.cache_limit is None or cancel.is_set() or not grown:
        return
    try:
        prune(request.cache, Bounds(size=request.cache_limit))
    except CacheInUse:
        return
    except StoreError as error:
        listen(Notice(level="warning", text=str(error)))
