"""Build on this machine. The tasks of all builds share its cores and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Event

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

        def loaded(held: Resources) -> None:
            listen(Load(cores=held.cores, all_cores=machine.cores, memory=held.memory, all_memory=machine.memory))

        def finished(result: BuildResult) -> None:
            # Each cell may leave up to engine.disk bytes, which together could fill the disk.
            remove_tree(work.folder / result.cell.id)
            on_result(result)

        remote = open_remote_cache(work.remote_cache, listen) if work.reuse else None
        context = make_context(work, listen, cancel, remote)
        machine = Capacity(cores=context.all_cores, memory=context.memory)
        needs = {plan.cell.id: tuple(map(_fetch_name, plan.prefixes)) for plan in work.to_build}
        plans = _heaviest_first((*work.to_build, *work.to_recheck))
        steps = slice(work.part.number, None, work.part.count) if work.part else None
        try:
            run_builds(
                [CellBuild(plan, context, needs.get(plan.cell.id, ()), steps) for plan in plans],
                _fetch_tasks(work.to_build, context),
                machine=machine,
                on_load=loaded,
                on_result=finished,
                fail_fast=work.fail_fast,
                cancel=cancel,
            )
        finally:
            context.costs.save()
            if remote:
                remote.close()


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


def _fetch_tasks(plans: Iterable[BuildPlan], context: BuildContext) -> tuple[Task, ...]:
    """Return the tasks that prepare toolchains. A build starts as soon as its own toolchains are ready."""
    prefixes = dict.fromkeys(prefix for plan in _heaviest_first(plans) for prefix in plan.prefixes)

    def fetch(prefix: PrefixId) -> Task:
        def run(memory: int) -> tuple[Task, ...]:
            del memory
            context.toolchains.prefetch(prefix)
            return ()

        return Task(name=_fetch_name(prefix), group="", run=run, demand=Resources(cores=0))

    return tuple(fetch(prefix) for prefix in prefixes)
