"""One run: from matrix.yaml to an index, with an answer for every cell."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event as Flag

from wheelsmith.engine import Engine, Limits, choose
from wheelsmith.events import CellFinished, Listener, RunFinished, RunStarted
from wheelsmith.facts import torch_releases
from wheelsmith.index import FolderIndex, IndexedWheel
from wheelsmith.matrix import Matrix, expand, load_matrix, select
from wheelsmith.model import (
    BuildPlan,
    BuildResult,
    Cell,
    Excluded,
    IndexEntry,
    Status,
    StepKind,
    Toolset,
)
from wheelsmith.pipeline import Workshop, build_cell
from wheelsmith.plan import make_plan
from wheelsmith.recipe import KernelSource, KernelSpec, parse_build_toml
from wheelsmith.schedule import run_builds
from wheelsmith.source import SourceTree, fetch_source
from wheelsmith.store import Store
from wheelsmith.toolchain import Toolchains

# What one compiler process needs at its worst, in bytes: measured on torch 2.11 with torch/all.h.
_STEP_MEMORY = {StepKind.NVCC: 2_700 * 2**20, StepKind.CXX: 1_400 * 2**20}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks for.

    :param engine: overrides the matrix's choice.
    :param jobs: cells at once; None takes one per core.
    :param cores_per_cell: compile steps at once within a cell; None shares the cores out.
    :param out: overrides the matrix's output folder.
    :param force: build also what the store has.
    """

    matrix: Path
    cache: Path
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    engine: str | None = None
    jobs: int | None = None
    cores_per_cell: int | None = None
    out: Path | None = None
    force: bool = False
    fail_fast: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request thought through: what will be built, where, and what will not and why."""

    matrix: Matrix
    kernel: str
    source: SourceTree
    engine: Engine
    plans: tuple[BuildPlan, ...]
    excluded: tuple[Excluded, ...]
    out: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run."""

    results: tuple[BuildResult, ...]
    excluded: tuple[Excluded, ...]
    entries: tuple[IndexEntry, ...]
    interrupted: bool


def prepare(request: Request, listen: Listener) -> Prepared:
    """Read the matrix, fetch the kernel's source and plan every selected cell.

    :raises WheelsmithError: the matrix, the source or the machine is not fit for it.
    """
    matrix = load_matrix(request.matrix)
    answers = select(expand(matrix), only=request.only, skip=request.skip)
    source = fetch_source(matrix.kernel, base=request.matrix.resolve().parent, listen=listen)
    spec = parse_build_toml(source.read_text("build.toml"), file="build.toml")
    engine = choose(request.engine or matrix.engine.name)
    planned = tuple(_planner(matrix, spec, source, engine)(answer) for answer in answers)
    return Prepared(
        matrix=matrix,
        kernel=_label(spec, source),
        source=source,
        engine=engine,
        plans=tuple(answer for answer in planned if isinstance(answer, BuildPlan)),
        excluded=tuple(answer for answer in planned if isinstance(answer, Excluded)),
        out=request.out or request.matrix.resolve().parent / matrix.output.path,
    )


def build(prepared: Prepared, request: Request, listen: Listener, cancel: Flag) -> Outcome:
    """Build what is not yet in the store, then publish every wheel of the run to its index."""
    start = time.monotonic()
    listen(
        RunStarted(
            kernel=prepared.kernel,
            engine=prepared.engine.name,
            plans=prepared.plans,
            excluded=prepared.excluded,
        )
    )
    results: tuple[BuildResult, ...] = ()
    try:
        with _scratch(request.cache / "work") as folder:
            results = _build_all(prepared, request, folder, listen, cancel)
        entries = _publish(prepared, results, Store(request.cache / "store"))
    finally:
        interrupted = cancel.is_set()
        listen(
            RunFinished(
                results=results,
                excluded=prepared.excluded,
                interrupted=interrupted,
                seconds=round(time.monotonic() - start, 3),
            )
        )
    return Outcome(results=results, excluded=prepared.excluded, entries=entries, interrupted=interrupted)


def _planner(
    matrix: Matrix, spec: KernelSpec, source: SourceTree, engine: Engine
) -> Callable[[Cell | Excluded], BuildPlan | Excluded]:
    kernel = KernelSource(id=source.id, paths=source.paths, readme=source.readme)
    toolsets: dict[str, Toolset | None] = {}

    def plan(answer: Cell | Excluded) -> BuildPlan | Excluded:
        if isinstance(answer, Excluded):
            return answer
        if answer.arch not in toolsets:
            toolsets[answer.arch] = engine.toolset(answer.arch)
        return make_plan(
            answer,
            spec=spec,
            source=kernel,
            distribution=matrix.kernel.distribution,
            version=matrix.version,
            toolset=toolsets[answer.arch],
        )

    return plan


def _label(spec: KernelSpec, source: SourceTree) -> str:
    origin = source.id.origin.removeprefix("hub:") if source.id.commit else spec.name
    return f"{origin} @{(source.id.commit or source.id.tree)[:7]}"


def _build_all(
    prepared: Prepared, request: Request, folder: Path, listen: Listener, cancel: Flag
) -> tuple[BuildResult, ...]:
    store = Store(request.cache / "store")
    kept = {} if request.force else _kept(prepared.plans, store)
    for result in kept.values():
        listen(CellFinished(result=result))
    missing = tuple(plan for plan in prepared.plans if plan.cell.id not in kept)
    builds = len({plan.build_digest for plan in missing})
    cores = os.cpu_count() or 1
    jobs = min(request.jobs or cores, max(builds, 1))
    workshop = Workshop(
        source=prepared.source,
        engine=prepared.engine,
        toolchains=Toolchains(request.cache, listen),
        store=store,
        limits=_limits(prepared.matrix),
        jobs=request.cores_per_cell or max(1, cores // jobs),
        folder=folder,
        logs=prepared.out / "logs",
        listen=listen,
    )
    made = run_builds(
        missing,
        lambda plan, flag: build_cell(plan, workshop, flag),
        jobs=jobs,
        cost=lambda plan: _peak_memory(plan, workshop.jobs),
        listen=listen,
        fail_fast=request.fail_fast,
        cancel=cancel,
    )
    answered = {result.cell.id: result for result in (*kept.values(), *made)}
    return tuple(answered[plan.cell.id] for plan in prepared.plans if plan.cell.id in answered)


def _kept(plans: tuple[BuildPlan, ...], store: Store) -> dict[str, BuildResult]:
    found = {}
    for plan in plans:
        if stored := store.find(plan.build_digest):
            found[plan.cell.id] = BuildResult(
                cell=plan.cell, plan_digest=plan.build_digest, status=Status.CACHED, wheel=stored.wheel
            )
    return found


def _limits(matrix: Matrix) -> Limits:
    return matrix.engine.limits


def _peak_memory(plan: BuildPlan, jobs: int) -> int:
    needs = sorted((_STEP_MEMORY.get(step.kind, 0) for step in plan.recipe.steps), reverse=True)
    return sum(needs[:jobs])


def _publish(prepared: Prepared, results: tuple[BuildResult, ...], store: Store) -> tuple[IndexEntry, ...]:
    """Put every wheel of the run into the index at once, and beside it for people who want files."""
    wheels: dict[str, list[Cell]] = {}
    for result in results:
        if result.wheel:
            wheels.setdefault(result.plan_digest, []).append(result.cell)
    if not wheels:
        return ()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = [(store.find(digest), tuple(cells)) for digest, cells in wheels.items()]
    return FolderIndex(prepared.out / "index").add(
        tuple(
            IndexedWheel(path=stored.path, cells=cells, advertise=cells[0].settings.advertise)
            for stored, cells in found
            if stored
        ),
        upload_time=now,
    )


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """Give a folder that goes away at the end; folders that dead runs left go away now."""
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.iterdir():
        _remove_if_dead(left)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_if_dead(folder: Path) -> None:
    try:
        with (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return  # alive, or being made at this moment
