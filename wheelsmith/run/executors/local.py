"""Build on this machine. The tasks of all builds share its cores and memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Event, Thread

from wheelsmith.base.beneath import remove_tree
from wheelsmith.engine import available_cores, available_memory, engine_for_own_programs, engines
from wheelsmith.model import BuildPlan, BuildResult, Listener, Load, PrefixId
from wheelsmith.pipeline import BuildContext, CellBuild, ToolchainPrefetcher
from wheelsmith.pipeline.tasks import Resources, Task
from wheelsmith.run.executors.protocol import BuildRequest
from wheelsmith.run.remote_cache import open_remote_cache
from wheelsmith.run.schedule import Capacity, run_builds
from wheelsmith.store import Costs, Objects, RemoteCache, Store
from wheelsmith.toolchain import Toolchains


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A build that arrives while others are running.

    :param part: compile only every ``count``-th step from step ``number`` on, and make no wheel. The cache keeps the
        objects. None for a whole build.
    """

    plan: BuildPlan
    part: tuple[int, int] | None = None


class LocalExecutor:
    """Runs builds in threads of this process. Each thread waits for one sandbox at a time."""

    def build(
        self,
        work: BuildRequest,
        *,
        listen: Listener,
        on_result: Callable[[BuildResult], None],
        cancel: Event,
    ) -> None:
        """Build, test or check every plan."""
        self.build_arriving(work, lambda: None, listen=listen, on_result=on_result, on_part=_ignore, cancel=cancel)

    def build_arriving(
        self,
        work: BuildRequest,
        arriving: Callable[[], Sequence[Arrival] | None],
        *,
        listen: Listener,
        on_result: Callable[[BuildResult], None],
        on_part: Callable[[BuildPlan, tuple[int, int]], None],
        cancel: Event,
    ) -> None:
        """Build the plans of a request and those that arrive later.

        :param arriving: returns what has arrived since, without waiting; None if nothing more will.
        :param on_part: called in another thread when the steps of a part have ended, and other machines can take the
            objects from the remote cache.
        """

        def loaded(held: Resources) -> None:
            listen(Load(cores=held.cores, all_cores=machine.cores, memory=held.memory, all_memory=machine.memory))

        def finished(build: CellBuild, result: BuildResult) -> None:
            # Each cell may leave up to engine.disk bytes, which together could fill the disk.
            remove_tree(work.folder / build.name)
            if build.part is None:
                on_result(result)
            else:
                Thread(target=end_part, args=(build.plan, build.part), daemon=True).start()

        def end_part(plan: BuildPlan, part: tuple[int, int]) -> None:
            if remote:
                remote.await_writes()
            on_part(plan, part)

        def arrive() -> tuple[list[CellBuild], tuple[Task, ...]] | None:
            new = arriving()
            return None if new is None else starter.start(new)

        remote = open_remote_cache(work.remote_cache, listen) if work.reuse else None
        context = make_context(work, listen, cancel, remote)
        machine = Capacity(cores=context.all_cores, memory=context.memory)
        starter = _Starter(context)
        plans = _heaviest_first((*work.to_build, *work.to_recheck))
        rechecked = {plan.cell.id for plan in work.to_recheck}  # they need no toolchain
        builds, fetches = starter.start([Arrival(plan=plan) for plan in plans], rechecked)
        try:
            run_builds(
                builds,
                fetches,
                machine=machine,
                on_load=loaded,
                on_result=finished,
                fail_fast=work.fail_fast,
                cancel=cancel,
                arriving=arrive,
            )
        finally:
            context.costs.save()
            if remote:
                remote.close()


class _Starter:
    """Makes builds, and the tasks that prepare their toolchains once for all of them."""

    def __init__(self, context: BuildContext) -> None:
        self._context = context
        self._fetched: set[PrefixId] = set()

    def start(
        self, arrivals: Sequence[Arrival], without_toolchains: Collection[str] = ()
    ) -> tuple[list[CellBuild], tuple[Task, ...]]:
        """Return builds, and the tasks that they need. A build starts as soon as its own toolchains are ready.

        :param without_toolchains: IDs of cells that need none.
        """
        needs = {each.plan.cell.id: each.plan.prefixes for each in arrivals}
        needs |= dict.fromkeys(without_toolchains, ())
        new = dict.fromkeys(each for prefixes in needs.values() for each in prefixes if each not in self._fetched)
        self._fetched |= new.keys()
        builds = [
            CellBuild(each.plan, self._context, tuple(map(_fetch_name, needs[each.plan.cell.id])), each.part)
            for each in arrivals
        ]
        return builds, tuple(map(self._fetch_task, new))

    def _fetch_task(self, prefix: PrefixId) -> Task:
        def run(memory: int) -> tuple[Task, ...]:
            del memory
            self._context.toolchains.prefetch(prefix)
            return ()

        return Task(name=_fetch_name(prefix), group="", run=run, demand=Resources(cores=0))


def _ignore(plan: BuildPlan, part: tuple[int, int]) -> None:
    del plan, part


def make_context(
    work: BuildRequest, listen: Listener, cancel: Event | None = None, remote: RemoteCache | None = None
) -> BuildContext:
    """Return the context that cells are built with on this machine.

    :param cancel: stops the preparation of toolchains once it is set.
    :param remote: a cache for compiled objects that machines share.
    """
    engine, all_cores = engines(work.cache)[work.engine], work.jobs or available_cores()
    cores = work.cores_per_cell or max(1, all_cores // max(1, len(work.to_build) + len(work.to_recheck)))
    # docker rejects a limit above the number of available cores.
    cpus = float(min(cores, available_cores()))
    memory = work.memory or available_memory() * 4 // 5
    return BuildContext(
        sources={name: inputs.source for name, inputs in work.kernels.items()},
        builds={name: inputs.builds for name, inputs in work.kernels.items() if inputs.builds},
        engine=engine,
        own_engine=engine_for_own_programs(engine),
        toolchains=ToolchainPrefetcher(Toolchains(work.cache, listen, cancel, remote)),
        store=Store(work.cache / "store"),
        objects=Objects(work.cache / "objects", remote),
        costs=Costs.in_cache(work.cache),
        limits=replace(work.limits, memory=work.limits.memory or memory, cpus=cpus),
        memory=memory,
        cores=cores,
        all_cores=all_cores,
        folder=work.folder,
        logs=work.logs,
        listen=listen,
        tests={name: inputs.test for name, inputs in work.kernels.items()},
        force=work.force,
        reuse=work.reuse,
    )


def _heaviest_first(plans: Iterable[BuildPlan]) -> list[BuildPlan]:
    """Sort plans by the amount to compile, largest first, so that no large build starts last."""

    def weight(plan: BuildPlan) -> int:
        return sum(1 + len(step.gpu_archs) for step in plan.recipe.steps)

    return sorted(plans, key=weight, reverse=True)


def _fetch_name(prefix: PrefixId) -> str:
    return f"fetch:{prefix.name}"
