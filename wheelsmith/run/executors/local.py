"""Build on this machine: the pieces of all builds share its cores, never more than its memory holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Event

from wheelsmith.base.beneath import remove_tree
from wheelsmith.engine import engine_for_own_programs, engines, granted_cores, granted_memory
from wheelsmith.model import BuildPlan, BuildResult, Listener, Load, PrefixId
from wheelsmith.pipeline import BuildContext, CellBuild, Prefetched
from wheelsmith.pipeline.tasks import Demand, Task
from wheelsmith.run.executors.protocol import Terms, Work
from wheelsmith.run.schedule import Machine, run_builds
from wheelsmith.store import Costs, Objects, Store
from wheelsmith.toolchain import Toolchains


class LocalExecutor:
    """Makes builds in threads of this process, each of which waits for one sandbox at a time."""

    def build(
        self,
        work: Work,
        *,
        listen: Listener,
        on_result: Callable[[BuildResult], None],
        cancel: Event,
    ) -> None:
        """Build, test or check every plan."""

        def loaded(held: Demand) -> None:
            listen(Load(cores=held.cores, all_cores=whole.cores, memory=held.memory, all_memory=whole.memory))

        def finished(result: BuildResult) -> None:
            # One cell may leave as much as engine.disk, and all together more than any disk.
            remove_tree(work.folder / result.cell.id)
            on_result(result)

        context = make_context(work, listen)
        whole = Machine(cores=_cores(work.terms), memory=context.memory)
        needs = {plan.cell.id: _fetched(plan) for plan in work.made}
        plans = _heaviest_first((*work.made, *work.kept))
        try:
            run_builds(
                [CellBuild(plan, context, needs.get(plan.cell.id, ())) for plan in plans],
                _fetches(work.made, context),
                machine=whole,
                on_load=loaded,
                on_result=finished,
                fail_fast=work.fail_fast,
                cancel=cancel,
            )
        finally:
            context.costs.save()


def make_context(work: Work, listen: Listener) -> BuildContext:
    """Return what cells are built with on this machine."""
    terms, engine = work.terms, engines(work.cache)[work.engine]
    cores = terms.cores_per_cell or max(1, _cores(terms) // max(1, terms.builds))
    # No engine gives more cores than there are, and docker refuses to be asked.
    cpus = float(min(cores, granted_cores()))
    memory = terms.memory or granted_memory() * 4 // 5
    return BuildContext(
        source=work.source,
        engine=engine,
        own_engine=engine_for_own_programs(engine),
        toolchains=Prefetched(Toolchains(work.cache, listen)),
        store=Store(work.cache / "store"),
        objects=Objects(work.cache / "objects"),
        costs=Costs(work.cache / "costs.sqlite"),
        limits=replace(terms.limits, memory=terms.limits.memory or memory, cpus=cpus),
        memory=memory,
        cores=cores,
        folder=work.folder,
        logs=work.logs,
        listen=listen,
        test=terms.test,
        force=terms.force,
        reuse=terms.reuse,
    )


def _cores(terms: Terms) -> int:
    return terms.jobs or granted_cores()


def _heaviest_first(plans: Iterable[BuildPlan]) -> list[BuildPlan]:
    """Sort the plans with the most to compile first, so that none of them is left for the end."""

    def weight(plan: BuildPlan) -> int:
        return sum(1 + len(step.gpu_archs) for step in plan.recipe.steps)

    return sorted(plans, key=weight, reverse=True)


def _prefixes(plan: BuildPlan) -> tuple[PrefixId, ...]:
    return tuple(
        prefix for prefix in (plan.headers, plan.toolkit, *plan.libraries) if prefix and prefix.kind != "image-cuda"
    )


def _fetched(plan: BuildPlan) -> tuple[str, ...]:
    return tuple(_fetch_name(prefix) for prefix in _prefixes(plan))


def _fetch_name(prefix: PrefixId) -> str:
    return f"fetch:{prefix.kind}-{prefix.version}-{prefix.arch}-{prefix.digest[:16]}"


def _fetches(plans: Iterable[BuildPlan], context: BuildContext) -> tuple[Task, ...]:
    """Return the tasks that make toolchains, while whatever has its own is compiled already."""
    prefixes = dict.fromkeys(prefix for plan in _heaviest_first(plans) for prefix in _prefixes(plan))

    def fetch(prefix: PrefixId) -> Task:
        def run(memory: int) -> tuple[Task, ...]:
            del memory
            context.toolchains.prefetch(prefix)
            return ()

        return Task(name=_fetch_name(prefix), group="", run=run, demand=Demand(cores=0))

    return tuple(fetch(prefix) for prefix in prefixes)
