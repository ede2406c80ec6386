"""A request thought through: the matrix read, the kernel fetched, every selected cell planned."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from wheelsmith.base.errors import MatrixError, Place, SettingError, SourceError
from wheelsmith.base.offline import VENDOR, is_offline, vendored_folder
from wheelsmith.base.units import parse_size
from wheelsmith.engine import Engine, Local, choose
from wheelsmith.matrix import KernelRef, Matrix, cell_of, expand, idle_rules, load_matrix, select
from wheelsmith.model import BuildPlan, Cell, Excluded, Listener, Notice, log_notices
from wheelsmith.plan import Resolve
from wheelsmith.plan.lock import Lock
from wheelsmith.plan.planned_run import PlannedRun
from wheelsmith.plan.recipe import KernelSpec, ProjectSpec
from wheelsmith.plan.recipe.project_hints import hint_for
from wheelsmith.run.lock import (
    EnvironmentResolver,
    as_asked,
    keep_to_lock,
    lock_of,
    locked_kernel,
    locked_now,
    warn_of_differences,
)
from wheelsmith.run.planner import Planner, older_cells
from wheelsmith.run.project_metadata import kernel_source, read_spec
from wheelsmith.source import Outputs, SourceTree, fetch_source, is_cached, read_vendored
from wheelsmith.store import in_use
from wheelsmith.toolchain import Toolchains


def default_cache() -> Path:
    """Return the user's cache folder: WHEELSMITH_CACHE, or where the platform keeps caches."""
    if named := os.environ.get("WHEELSMITH_CACHE"):
        return Path(named).absolute()
    from platformdirs import user_cache_path

    return user_cache_path("wheelsmith")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for: on the command line, or by a pipeline.

    :param matrix: the matrix.yaml.
    :param cache: the folder for toolchains and finished wheels, shared by all of a user's projects.
    :param cache_limit: bytes that it may take of the disk once the run is over; None is no limit.
    :param engine: overrides the matrix's choice.
    :param jobs: cores that the run may keep busy; None takes all.
    :param cores_per_cell: of them, for a cell that is built in one piece; None shares them out.
    :param memory: bytes that the run may use; None takes four fifths of what is free.
    :param only: globs of the cells to take; none takes all.
    :param skip: globs of the cells to leave out.
    :param out: overrides the matrix's output folder.
    :param force: build also what the store has.
    :param fail_fast: stop at the first failure.
    :param reuse: take compiled pieces that were made before, and keep those that are made.
    :param test: run the kernel's test command on every wheel, also on those of the store.
    :param executor: by what builds are made; ``local`` is this machine.
    :param locked: refuse what is not as wheelsmith.lock has it, or is not to be had any more.
    """

    matrix: Path
    cache: Path = field(default_factory=default_cache)
    cache_limit: int | None = None
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    engine: str | None = None
    jobs: int | None = None
    cores_per_cell: int | None = None
    memory: int | None = None
    out: Path | None = None
    force: bool = False
    reuse: bool = True
    fail_fast: bool = False
    test: bool = False
    executor: str = "local"
    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(PlannedRun):
    """A planned run, and what this machine builds it with.

    :param request: what was asked for.
    :param out: the output folder.
    :param lock: what it was planned with; None where nothing is locked, as of repacked builds.
    """

    request: Request
    matrix: Matrix
    source: SourceTree
    engine: Engine
    out: Path
    lock: Lock | None = None


def cache_limit() -> int | None:
    """Return the bytes that WHEELSMITH_CACHE_SIZE allows the cache, if it does.

    :raises SettingError: it is no size.
    """
    named = os.environ.get("WHEELSMITH_CACHE_SIZE")
    try:
        return parse_size(named) if named else None
    except ValueError as error:
        remedy = "WHEELSMITH_CACHE_SIZE=40GiB, or unset it for no limit"
        raise SettingError(str(error), where=Place(file="WHEELSMITH_CACHE_SIZE"), remedy=remedy) from None


def prepare(request: Request, listen: Listener = log_notices) -> Prepared:
    """Read the matrix, fetch the kernel's source and plan every selected cell.

    :param listen: hears of what is worth knowing meanwhile.
    :raises WheelsmithError: the matrix, the source or the machine is not fit for it.
    """
    matrix = load_matrix(request.matrix)
    lock = lock_of(request.matrix, must_be=request.locked)
    prepared = prepare_matrix(matrix, request, listen, lock=lock)
    if lock and prepared.lock:
        if request.locked:
            keep_to_lock(lock, prepared.lock, request.matrix)
        else:
            warn_of_differences(lock, prepared.lock, request.matrix, listen)
    return prepared


def prepare_to_lock(request: Request, lock: Lock | None, listen: Listener, *, anew: bool) -> Prepared:
    """Plan a whole matrix by what is to stay of its lock.

    :param lock: None where nothing is.
    :param anew: ask pip for environments that are not in it, though it answered before.
    """
    toolchains = Toolchains(request.cache, listen)
    ask = toolchains.lock_anew if anew else toolchains.lock
    return prepare_matrix(load_matrix(request.matrix), request, listen, lock=lock, ask=ask)


def fetch_kernel(kernel: KernelRef, request: Request, out: Path, listen: Listener) -> SourceTree:
    """Return a kernel's source as it is now.

    :param out: the output folder, which is no source.
    :raises SourceError: it cannot be had, or must not be used.
    """
    if not kernel.path and is_offline():
        return _vendored(kernel) or _cached(kernel, request, out, listen)
    return _fetch(kernel, request, out, listen)


def _cached(kernel: KernelRef, request: Request, out: Path, listen: Listener) -> SourceTree:
    try:
        return _fetch(kernel, request, out, listen)
    except SourceError as error:
        raise SourceError(error.message, remedy=VENDOR) from error


def _fetch(kernel: KernelRef, request: Request, out: Path, listen: Listener) -> SourceTree:
    base = request.matrix.resolve().parent
    # What is fetched or unpacked into the cache is not pruned meanwhile.
    with in_use(request.cache) if is_cached(kernel, base) else nullcontext():
        return fetch_source(kernel, base=base, outputs=Outputs(out=out, cache=request.cache), listen=listen)


def _vendored(kernel: KernelRef) -> SourceTree | None:
    folder = vendored_folder()
    return read_vendored(folder, kernel) if folder else None


def prepare_matrix(
    matrix: Matrix,
    request: Request,
    listen: Listener,
    source: SourceTree | None = None,
    lock: Lock | None = None,
    ask: Resolve | None = None,
) -> Prepared:
    """Plan every selected cell of a matrix that was read, as ``prepare`` does.

    :param source: what was fetched of it before; None fetches it.
    :param lock: says which commit and which environments; None asks for them.
    :param ask: chooses the wheels of environments that are not locked; None takes what was chosen before, if anything.
    """
    if request.test and not matrix.kernel.test:
        raise MatrixError("the matrix names no test", where=Place(file=request.matrix.name), remedy="add kernel.test")
    for rule in idle_rules(matrix):
        listen(Notice(level="warning", text=f"{rule.place}: this rule selects no cell"))
    everything = expand(matrix)
    answers = select(everything, only=request.only, skip=request.skip)
    out = (request.out or request.matrix.resolve().parent / matrix.output.path).absolute()
    source = source or _source(matrix, request, out, lock, listen)
    spec = read_spec(source, matrix, request.matrix.name)
    for text in _untold(spec, matrix):
        listen(Notice(level="info", text=text))
    engine = _engine(matrix, request, answers, listen)
    resolver = EnvironmentResolver(lock=lock, ask=ask or Toolchains(request.cache, listen).lock)
    planner = Planner(
        matrix=matrix,
        spec=spec,
        source=kernel_source(source, spec),
        engine=engine,
        resolve=resolver,
        older=older_cells(matrix, everything),
    )
    planned = tuple(planner.plan(answer) for answer in answers)
    plans = tuple(answer for answer in planned if isinstance(answer, BuildPlan))
    return Prepared(
        request=request,
        matrix=matrix,
        kernel=_label(spec, source, matrix.kernel.distribution),
        distribution=matrix.kernel.distribution or spec.name,
        version=matrix.version or (str(spec.version) if spec.version is not None else None),
        cells=tuple(sorted(cell_of(answer).id for answer in everything)),
        offered=tuple(sorted(cell.id for cell in everything if isinstance(cell, Cell) and cell.settings.advertise)),
        source=source,
        trees=(source.id.tree,),
        commit=source.id.commit,
        variants=matrix.output.variants,
        matrix_sha256=matrix.sha256,
        engine=engine,
        plans=plans,
        excluded=tuple(answer for answer in planned if isinstance(answer, Excluded)),
        not_folded=planner.not_folded,
        out=out,
        lock=locked_now(matrix.kernel, source, plans, resolver.answers),
    )


def _source(matrix: Matrix, request: Request, out: Path, lock: Lock | None, listen: Listener) -> SourceTree:
    # Nobody is asked what is locked, unless it is to be seen whether that still holds.
    kernel = matrix.kernel if request.locked else locked_kernel(matrix.kernel, lock)
    return as_asked(fetch_kernel(kernel, request, out, listen), matrix.kernel)


def _untold(spec: KernelSpec | ProjectSpec, matrix: Matrix) -> Iterator[str]:
    """Say what a project that is known wants to be told, and the matrix does not tell any cell."""
    hint = hint_for(matrix.kernel.distribution or spec.name) if isinstance(spec, ProjectSpec) else None
    if hint is None:
        return
    given = (matrix.project, *(rule.project for rule in matrix.rules))
    told = {name for words in given for name in words.env}
    if missing := {name: text for name, text in hint.env.items() if name not in told}:
        yield f"{hint.name} is known to want env: {json.dumps(missing)}; {hint.why}"
    if hint.needs_before_build and not any(words.before_build for words in given):
        yield f"{hint.name} is known to want before-build: {json.dumps(hint.before_build)}; {hint.before_build_why}"


def _engine(matrix: Matrix, request: Request, answers: Iterable[Cell | Excluded], listen: Listener) -> Engine:
    images = frozenset(cell.settings.image or matrix.engine.image for cell in answers if isinstance(cell, Cell))
    choice = choose(
        request.engine or matrix.engine.name,
        images=images,
        trusted=matrix.kernel.path is not None,
        cache=request.cache,
    )
    unconfined = choice.engine.name == Local.name
    # Where the build is confined and no image was asked for, any engine will do.
    for refusal in choice.passed_over if unconfined or any(images) else ():
        listen(Notice(level="info", text=f"not used: {refusal.message}"))
    if unconfined:
        listen(Notice(level="warning", text=f"engine local: isolation is {choice.engine.probe().isolation}"))
    return choice.engine


def _label(spec: KernelSpec | ProjectSpec, source: SourceTree, distribution: str | None) -> str:
    place = source.id.place or spec.name or distribution or "project"
    return f"{place} @{(source.id.commit or source.id.tree)[:7]}"
