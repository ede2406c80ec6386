"""Prepare a run: read the matrix, fetch the kernel and plan every selected cell."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from wheelsmith.base.errors import MatrixError, NoEnvironmentError, Place, SettingError, SourceError
from wheelsmith.base.files import default_cache
from wheelsmith.base.offline import VENDOR_REMEDY, is_offline, vendored_folder
from wheelsmith.base.units import parse_size
from wheelsmith.engine import (
    Engine,
    Local,
    choose,
    with_installed_toolkit,
    with_installed_toolset,
    with_python_digest,
)
from wheelsmith.matrix.expand import cell_of, expand, project_settings, select, unused_rules
from wheelsmith.matrix.load import load_matrix
from wheelsmith.matrix.remote_cache import RemoteCacheSettings
from wheelsmith.matrix.types import CudaCompatibility, KernelRef, Matrix
from wheelsmith.model import BuildHost, BuildPlan, Cell, Excluded, Listener, LockedWheel, Notice, log_notices
from wheelsmith.model.build_host import IMAGES_OPTION
from wheelsmith.plan.cuda_minor_compat import older_minors, plan_by_oldest_minor, with_toolkit
from wheelsmith.plan.feasibility import NotBuildableError, pinned_toolset
from wheelsmith.plan.kernel import WheelNames, left_out_capabilities, plan_kernel
from wheelsmith.plan.lock import EnvironmentRequest, Lock, lock_path, read_lock
from wheelsmith.plan.planned_run import PlannedRun, check_names, fold
from wheelsmith.plan.project import Resolve, plan_project
from wheelsmith.plan.recipe.project import ProjectSpec
from wheelsmith.plan.recipe.project_hints import hint_for
from wheelsmith.plan.recipe.recipe import KernelSource
from wheelsmith.plan.recipe.remedies import missing_sources, plan_remedies, read_project_code
from wheelsmith.plan.recipe.spec import KernelSpec
from wheelsmith.plan.set_requirements import RequiredKernel, with_required, without_required
from wheelsmith.run.header_cost import header_cost
from wheelsmith.run.lock import LockedInputs, required_lock
from wheelsmith.run.project_source import kernel_source, read_spec
from wheelsmith.run.upstream import check_builds, read_upstream
from wheelsmith.source import fetch_source, is_cached
from wheelsmith.source.folder import Outputs
from wheelsmith.source.tree import SourceTree
from wheelsmith.source.vendored import read_vendored
from wheelsmith.store import in_use
from wheelsmith.toolchain import Toolchains


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of a run. Most have the name and the meaning of an option of ``wheelsmith build-matrix``.

    :param kernels: names or globs of kernels in a file with several; empty for all of them.
    :param cache: the folder for toolchains and finished wheels, shared by all of a user's projects.
    :param cache_limit: maximum size of the cache after the run, in bytes; None for no limit.
    :param jobs: number of cores; None for all.
    :param cores_per_cell: number of these cores for a cell that is built in one piece; None for an equal share.
    :param memory: bytes; None for four fifths of the free memory.
    :param out: overrides the matrix's output folder.
    :param reuse: use compiled objects from the cache, and add new ones to it.
    :param executor: ``local`` builds on this machine, ``dask://HOST:PORT`` on the workers of a Dask cluster.
    :param remote_cache: a cache that machines share; what it leaves empty comes from the matrix.
    """

    matrix: Path
    kernels: tuple[str, ...] = ()
    cache: Path = field(default_factory=default_cache)
    cache_limit: int | None = None
    arch: str | None = None
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
    remote_cache: RemoteCacheSettings = field(default_factory=RemoteCacheSettings)
    prune: bool = False
    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(PlannedRun):
    """A planned run, with the source and the engine to build it.

    :param request: the options of the run.
    :param spec: the source's metadata, with the names from the matrix; None for ready builds.
    :param upstream: the builds of upstream that are taken; None if the matrix does not ask for them.
    :param out: the output folder.
    """

    request: Request
    matrix: Matrix
    source: SourceTree
    upstream: SourceTree | None = None
    spec: KernelSpec | ProjectSpec | None
    engine: Engine
    out: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildMachine:
    """The engine that builds the cells of a run, and the machine that it runs on.

    :param build_host: returns the facts of an image, or of this machine for None.
    """

    engine: Engine
    build_host: Callable[[str | None], BuildHost]


class PartOfSet(NamedTuple):
    """The answers for the cells of a matrix, those of selected cells, and what builds these."""

    everything: tuple[Cell | Excluded, ...]
    selected: tuple[Cell | Excluded, ...]
    machine: BuildMachine


def cache_limit() -> int | None:
    """Return the cache limit from WHEELSMITH_CACHE_SIZE in bytes, or None if it is not set.

    :raises SettingError: it is not a size.
    """
    named = os.environ.get("WHEELSMITH_CACHE_SIZE")
    try:
        return parse_size(named) if named else None
    except ValueError as error:
        remedy = "WHEELSMITH_CACHE_SIZE=40GiB, or unset it for no limit"
        raise SettingError(str(error), where=Place(file="WHEELSMITH_CACHE_SIZE"), remedy=remedy) from None


def prepare(request: Request, listen: Listener = log_notices) -> Prepared:
    """Read the matrix, fetch the kernel's source and plan every selected cell.

    :param listen: receives notices and the progress of downloads; by default notices go to ``logging``.
    :raises WheelsmithError: the matrix, the source or the machine cannot be used.
    """
    read = load_matrix(request.matrix)
    lock = required_lock(request.matrix) if request.locked else read_lock(lock_path(request.matrix))
    (matrix,), nightly = find_prereleases([read], lock, listen)
    inputs = LockedInputs(
        kernel=matrix.kernel,
        lock=lock,
        nightly=nightly,
        toolchains=Toolchains(request.cache, listen),
        strict=request.locked,
    )
    prepared = prepare_matrix(matrix, request, inputs, listen)
    inputs.check(prepared.source, prepared.plans, request.matrix, listen)
    for notice in kernel_notices(prepared):
        listen(notice)
    return prepared


def kernel_notices(prepared: Prepared) -> Iterator[Notice]:
    """Yield what users should know about a planned kernel."""
    yield from header_cost(prepared.source, prepared.builds)
    if isinstance(prepared.spec, KernelSpec):
        for text in left_out_capabilities(prepared.spec, (plan.cell for plan in prepared.plans)):
            yield Notice(level="info", text=text)


def fetch_kernel(kernel: KernelRef, request: Request, out: Path, listen: Listener, name: str = "") -> SourceTree:
    """Fetch and return a kernel's source.

    :param out: the output folder, which is not part of the source.
    :param name: the name of the kernel in a file with several.
    :raises SourceError: it is not available, or must not be used.
    """
    base, offline = request.matrix.resolve().parent, is_offline() and not kernel.path
    vendored = vendored_folder() if offline else None
    if vendored and (known := read_vendored(vendored, kernel, name)):
        return known
    try:
        # Keep other processes from pruning the source while it is fetched into the cache.
        with in_use(request.cache) if is_cached(kernel, base) else nullcontext():
            outputs = Outputs(out=out, cache=request.cache, matrix=request.matrix)
            return fetch_source(kernel, base=base, outputs=outputs, listen=listen)
    except SourceError as error:
        if offline:
            raise SourceError(error.message, remedy=VENDOR_REMEDY) from error
        raise


def find_prereleases(
    matrices: Sequence[Matrix], lock: Lock | None, listen: Listener
) -> tuple[tuple[Matrix, ...], str | None]:
    """Do what ``with_prereleases`` does, if a matrix names a pre-release."""
    if not any(matrix.places for matrix in matrices):
        return tuple(matrices), None
    # Without a network client, a plan starts sooner.
    from wheelsmith.run.torch_prereleases import with_prereleases

    return with_prereleases(matrices, lock.nightly if lock else None, listen)


def prepare_matrix(
    matrix: Matrix,
    request: Request,
    inputs: LockedInputs,
    listen: Listener,
    source: SourceTree | None = None,
    part: PartOfSet | None = None,
    required: Sequence[RequiredKernel] = (),
) -> Prepared:
    """Plan every selected cell of a matrix from ``find_prereleases``, as ``prepare`` does.

    :param inputs: the kernel to fetch, and the wheels of build environments.
    :param source: the kernel's source, if it was fetched before.
    :param part: what was decided for a whole set, if the matrix is part of one.
    :param required: the kernels of the same file that it requires.
    """
    if request.test and not matrix.kernel.test:
        raise MatrixError("the matrix has no test", where=Place(file=request.matrix.name), remedy="add kernel.test")
    for rule in unused_rules(matrix):
        listen(Notice(level="warning", text=f"{rule.place}: this rule selects no combination"))
    everything, selected, machine = part or _set_of_one(matrix, request, listen)
    source = source or fetch_named(matrix, request, inputs, listen)
    spec = read_spec(source, matrix, request.matrix.name)
    for text in _missing_settings(spec, matrix):
        listen(Notice(level="info", text=text))
    plan = partial(_plan_cells, selected, everything, matrix, spec, source, machine, required)
    if isinstance(spec, ProjectSpec):
        inputs.resolve_all(_environment_requests(plan))
    planned, not_folded = plan(resolve=inputs.resolve)
    ours = [answer for answer, chosen in zip(planned, selected, strict=True) if isinstance(chosen, Cell)]
    taken, upstream, not_upstream = _prefer_upstream(ours, matrix, spec, source, request, machine, listen)
    planned = [taken.get(answer.cell.id, answer) for answer in planned]
    plans = tuple(answer for answer in planned if isinstance(answer, BuildPlan))
    check_names(fold(plans))
    if isinstance(spec, ProjectSpec):
        _tell_remedies(source, plans, listen)
    place = source.id.place or spec.name or matrix.kernel.distribution or "project"
    return Prepared(
        request=request,
        matrix=matrix,
        source=source,
        spec=spec,
        engine=machine.engine,
        out=output_folder(matrix, request),
        kernel=f"{place} @{(source.id.commit or source.id.tree)[:7]}",
        distribution=matrix.kernel.distribution or spec.name,
        version=matrix.version or (str(spec.version) if spec.version is not None else None),
        cells=tuple(sorted(cell_of(answer).id for answer in everything)),
        offered=tuple(sorted(cell.id for cell in everything if isinstance(cell, Cell) and cell.settings.advertise)),
        upstream=upstream,
        trees=(source.id.tree, *sorted({plan.source.tree for plan in plans if plan.repacked})),
        commit=source.id.commit,
        plans=plans,
        excluded=tuple(answer for answer in planned if isinstance(answer, Excluded)),
        not_folded=not_folded,
        not_upstream=not_upstream,
        variants=matrix.output.variants,
        matrix_sha256=matrix.sha256,
    )


def _set_of_one(matrix: Matrix, request: Request, listen: Listener) -> PartOfSet:
    everything = expand(matrix)
    selected = select({"": everything}, arch=request.arch, only=request.only, skip=request.skip)[""]
    return PartOfSet(everything, selected, choose_machine([matrix], request, selected, listen))


def fetch_named(matrix: Matrix, request: Request, inputs: LockedInputs, listen: Listener) -> SourceTree:
    """Fetch the source of a matrix, at its locked commit if it has one. It has the revision that the matrix names."""
    fetched = fetch_kernel(inputs.kernel_to_fetch, request, output_folder(matrix, request), listen, matrix.name or "")
    return replace(fetched, id=replace(fetched.id, revision=matrix.kernel.revision or fetched.id.revision))


def output_folder(matrix: Matrix, request: Request) -> Path:
    """Return the output folder of a run."""
    return (request.out or request.matrix.resolve().parent / matrix.output.path).absolute()


def _tell_remedies(source: SourceTree, plans: Sequence[BuildPlan], listen: Listener) -> None:
    """Tell what the code of a project is known to need."""
    code = read_project_code(source.paths, source.read_bytes)
    for text in plan_remedies(code, plans):
        listen(Notice(level="info", text=text))
    if plans and (remedy := missing_sources(code)):
        listen(Notice(level="warning", text=remedy))


def _prefer_upstream(
    ours: Sequence[BuildPlan | Excluded],
    matrix: Matrix,
    spec: KernelSpec | ProjectSpec,
    source: SourceTree,
    request: Request,
    machine: BuildMachine,
    listen: Listener,
) -> tuple[dict[str, BuildPlan], SourceTree | None, dict[str, str]]:
    """Find the cells that a build of upstream serves, if the matrix prefers those builds.

    :param ours: the answer for each cell if it is compiled; without the cells that the matrix excludes.
    :return: cell ID → the plan of its build, the files of the builds, and cell ID → why no build serves the cell.
    """
    kernel, engine = matrix.kernel, machine.engine
    if kernel.builds is None or not isinstance(spec, KernelSpec):
        return {}, None, {}
    builds = read_upstream(kernel, request.matrix.resolve().parent, spec, source, ours, listen)
    names = WheelNames(
        distribution=kernel.distribution or spec.name,
        version=matrix.version or str(spec.version),
        module=spec.module,
        repo=kernel.hub or spec.repo_id,
    )
    image = machine.build_host(matrix.engine.image).image if engine.has_images else None
    taken = builds.take(ours, names, image, partial(check_builds, request, engine.name))
    reasons = {answer.cell.id: builds.why_not(answer) for answer in ours if answer.cell.id not in taken}
    return taken, builds.tree, reasons


def _missing_settings(spec: KernelSpec | ProjectSpec, matrix: Matrix) -> Iterator[str]:
    """Yield the settings that a known project needs and that the matrix sets for no cell."""
    hint = hint_for(matrix.kernel.distribution or spec.name) if isinstance(spec, ProjectSpec) else None
    if hint is None:
        return
    given = (matrix.project, *(rule.project for rule in matrix.rules))
    known = {name for settings in given for name in settings.env}
    if missing := {name: text for name, text in hint.env.items() if name not in known}:
        yield f"{hint.name} is known to need env: {json.dumps(missing)}; {hint.why}"
    if hint.needs_before_build and not any(settings.before_build for settings in given):
        yield f"{hint.name} is known to need before-build: {json.dumps(hint.before_build)}; {hint.before_build_why}"


def choose_machine(
    matrices: Sequence[Matrix], request: Request, answers: Iterable[Cell | Excluded], listen: Listener
) -> BuildMachine:
    """Choose the engine that builds the cells of some matrices, which have the same settings for engines.

    :raises WheelsmithError: no engine can build them.
    """
    common = matrices[0].engine
    images = frozenset(cell.settings.image or common.image for cell in answers if isinstance(cell, Cell))
    choice = choose(
        request.engine or common.name,
        images=images,
        trusted=all(matrix.kernel.path is not None for matrix in matrices),
        cache=request.cache,
    )
    unconfined = choice.engine.name == Local.name
    # If builds are isolated and no image is requested, the choice of the engine does not matter.
    for refusal in choice.passed_over if unconfined or any(images) else ():
        listen(Notice(level="info", text=f"not used: {refusal.message}"))
    if unconfined and "torch" in {
        each.cxx_standard for matrix in matrices for each in (matrix.project, *(rule.project for rule in matrix.rules))
    }:
        raise MatrixError(
            "cxx-standard: torch needs a sandbox, which engine local does not have",
            where=Place(file=request.matrix.name),
            remedy="choose another engine, or change the standard with before-build",
        )
    if unconfined:
        listen(Notice(level="warning", text=f"engine local: isolation is {choice.engine.isolation}"))
    return BuildMachine(engine=choice.engine, build_host=cache(choice.engine.build_host))


def _environment_requests(plan: Callable[..., object]) -> list[EnvironmentRequest]:
    """Return the environments that a plan needs, so that they can be resolved at the same time.

    :param plan: plans all cells with the given ``resolve``.
    """
    requests: list[EnvironmentRequest] = []

    def note(requirements: tuple[str, ...], python: str, arch: str, rather: tuple[str, ...]) -> tuple[LockedWheel, ...]:
        requests.append(EnvironmentRequest(requirements=requirements, rather=rather, python=python, arch=arch))
        raise NoEnvironmentError("it is not resolved yet")

    plan(resolve=note)
    return requests


def _plan_cells(
    selected: Iterable[Cell | Excluded],
    everything: Iterable[Cell | Excluded],
    matrix: Matrix,
    spec: KernelSpec | ProjectSpec,
    source: SourceTree,
    machine: BuildMachine,
    required: Sequence[RequiredKernel],
    *,
    resolve: Resolve,
) -> tuple[list[BuildPlan | Excluded], dict[str, str]]:
    """Plan cells. Cells that the matrix excludes stay excluded.

    :param resolve: chooses the wheels of build environments.
    :return: the plans, and cell ID → why no wheel of an older CUDA minor release serves the cell.
    """
    older: dict[str, tuple[Cell, ...]] = {}
    if matrix.cuda_compatibility is CudaCompatibility.OLDEST_MINOR:
        older = older_minors(answer for answer in everything if isinstance(answer, Cell))
    made_from = kernel_source(source, spec)
    by_itself: dict[str, BuildPlan | Excluded] = {}
    not_folded: dict[str, str] = {}

    def plan(cell: Cell, adapt: Callable[[BuildHost, Cell], BuildHost] = lambda host, _: host) -> BuildPlan | Excluded:
        image = cell.settings.image
        if image and not machine.engine.has_images:
            reason = f"it must be built in image {image}, but engine {machine.engine.name} has no images"
            return Excluded(cell=cell, reason=f"{reason}: use {IMAGES_OPTION}")
        host = adapt(machine.build_host(image or matrix.engine.image), cell)
        return _plan_cell(cell, matrix, spec, made_from, host, resolve, required)

    def plan_once(cell: Cell) -> BuildPlan | Excluded:
        if cell.id not in by_itself:
            by_itself[cell.id] = plan(cell)
        return by_itself[cell.id]

    planned: list[BuildPlan | Excluded] = []
    for answer in selected:
        if isinstance(answer, Excluded):
            planned.append(answer)
            continue
        as_if = partial(plan, adapt=with_toolkit)
        made, why_not = plan_by_oldest_minor(answer, older.get(answer.id, ()), plan_once, as_if)
        planned.append(made)
        if why_not:
            not_folded[answer.id] = why_not
    return planned, not_folded


def with_needed_compilers(build_host: BuildHost, cell: Cell) -> BuildHost:
    """Add the compilers and the GPU toolkit of this machine that a cell needs, if there are any."""
    if cell.toolkit:
        build_host = with_installed_toolkit(build_host, cell.platform)
    return build_host if pinned_toolset(cell, build_host) else with_installed_toolset(build_host, cell.arch)


def _plan_cell(
    cell: Cell,
    matrix: Matrix,
    spec: KernelSpec | ProjectSpec,
    source: KernelSource,
    build_host: BuildHost,
    resolve: Resolve,
    required: Sequence[RequiredKernel],
) -> BuildPlan | Excluded:
    try:
        wheels = tuple(dict.fromkeys(wheel for each in required for wheel in each.wheels_for(cell)))
        spec = with_required(spec, required)
        settings = without_required(project_settings(matrix, cell), required)
    except NotBuildableError as impossible:
        return Excluded(cell=cell, reason=str(impossible))
    build_host = with_needed_compilers(build_host, cell)
    named = {"distribution": matrix.kernel.distribution, "version": matrix.version}
    declared = matrix.kernel.declare
    if isinstance(spec, KernelSpec):
        made = plan_kernel(cell, spec=spec, source=source, build_host=build_host, declared=declared, **named)
    else:
        made = plan_project(
            cell,
            spec=spec,
            source=source,
            build_host=with_python_digest(build_host, cell.python),
            resolve=resolve,
            declared=declared,
            settings=settings,
            **named,
        )
    return replace(made, requires=wheels) if isinstance(made, BuildPlan) and wheels else made
