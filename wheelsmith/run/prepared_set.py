"""The kernels of a matrix file, planned together and built in one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Self

from wheelsmith.base.errors import MatrixError, Place, SelectionError, SourceError, WheelsmithError
from wheelsmith.base.suggest import did_you_mean
from wheelsmith.base.units import counted
from wheelsmith.engine import Engine
from wheelsmith.matrix.expand import cell_of, expand, matches_glob, select
from wheelsmith.matrix.load import load_matrices
from wheelsmith.matrix.remote_cache import RemoteCacheSettings, is_bucket
from wheelsmith.matrix.types import EngineChoice, Matrix
from wheelsmith.model import BuildPlan, Event, Excluded, Listener, Notice, log_notices
from wheelsmith.model.run_record import KernelRecord
from wheelsmith.plan.lock import Lock, join_locks, lock_path, read_lock
from wheelsmith.plan.planned_run import PlannedRun, check_names
from wheelsmith.plan.recipe.project import ProjectSpec
from wheelsmith.plan.recipe.spec import KernelSpec
from wheelsmith.plan.set_requirements import RequiredKernel, order_kernels
from wheelsmith.run.executors import KernelInputs
from wheelsmith.run.lock import LockedInputs, required_lock
from wheelsmith.run.prepare import (
    PartOfSet,
    Prepared,
    Request,
    choose_machine,
    fetch_named,
    find_prereleases,
    kernel_notices,
    prepare_matrix,
)
from wheelsmith.run.project_source import read_spec
from wheelsmith.run.wheel_sizes import oversized_wheels
from wheelsmith.source.tree import SourceTree
from wheelsmith.store import Store
from wheelsmith.toolchain import Toolchains


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSet(PlannedRun):
    """All cells of all kernels, with the sources and the engine to build them.

    :param prepared: name → the kernel. The only kernel of a file has the name ``""``, and its cells have no kernel.
    """

    request: Request
    engine: Engine
    limits: EngineChoice
    out: Path
    prepared: dict[str, Prepared]

    @classmethod
    def of(cls, prepared: Prepared) -> Self:
        """Return the set of one kernel from a file of its own."""
        return cls(
            **{name: getattr(prepared, name) for name in PlannedRun.__dataclass_fields__},
            request=prepared.request,
            engine=prepared.engine,
            limits=prepared.matrix.engine,
            out=prepared.out,
            prepared={"": prepared},
        )

    @property
    def remote_cache(self) -> RemoteCacheSettings:
        """The cache that machines share. The options of the run override the settings in the matrix file."""
        asked, folder = self.request.remote_cache, self.request.matrix.resolve().parent
        named = next((each.matrix.remote_cache for each in self.prepared.values()), RemoteCacheSettings())
        addresses = (text if is_bucket(text) else str(folder / text) for text in named.addresses)
        return RemoteCacheSettings(
            addresses=asked.addresses or tuple(addresses),
            signers=asked.signers or tuple(str(folder / path) for path in named.signers),
            key=asked.key,
        )

    @property
    def inputs(self) -> dict[str, KernelInputs]:
        """The inputs of the builds, by kernel."""
        return {
            name: KernelInputs(
                source=each.source, builds=each.upstream, test=each.matrix.kernel.test if self.request.test else None
            )
            for name, each in self.prepared.items()
        }


def prepare_set(request: Request, listen: Listener = log_notices) -> PreparedSet:
    """Read a matrix file and plan the selected cells of all selected kernels.

    A kernel of a set that cannot be fetched or planned does not keep the others from being built.

    :param listen: receives notices and the progress of downloads; by default notices go to ``logging``.
    :raises WheelsmithError: the file or the machine cannot be used, or the only kernel.
    """
    matrices = load_matrices(request.matrix)
    lock = required_lock(request.matrix) if request.locked else read_lock(lock_path(request.matrix))
    planned, inputs = plan_set(request, lock, listen, matrices=matrices, strict=request.locked)
    for name, each in planned.prepared.items():
        inputs[name].check(each.source, each.plans, request.matrix, _teller(name, listen), name)
    for name, each in planned.prepared.items():
        for notice in kernel_notices(each):
            _teller(name, listen)(notice)
    for notice in oversized_wheels(planned.plans, planned.out, Store(request.cache / "store")):
        listen(notice)
    for text in _shared_modules(planned.plans):
        listen(Notice(level="warning", text=text))
    return planned


def plan_set(
    request: Request,
    lock: Lock | None,
    listen: Listener,
    *,
    matrices: Sequence[Matrix] = (),
    strict: bool = False,
    refresh: bool = False,
) -> tuple[PreparedSet, dict[str, LockedInputs]]:
    """Plan the selected cells of all selected kernels. Return them with the inputs of each kernel.

    :param lock: the inputs to use, or None.
    :param matrices: the content of the file, if it is not to be read.
    :param strict: see ``LockedInputs``.
    :param refresh: choose the wheels of environments again, even if the cache has a result.
    :raises WheelsmithError: the file or the machine cannot be used, or the only kernel.
    """
    known = {matrix.name or "": matrix for matrix in matrices or load_matrices(request.matrix)}
    selected = _select_kernels(known, request)
    found, nightly = find_prereleases([*selected.values()], lock, listen)
    selected = dict(zip(selected, found, strict=True))
    everything = {name: expand(matrix) for name, matrix in selected.items()}
    chosen = select(everything, arch=request.arch, only=request.only, skip=request.skip)
    machine = choose_machine([*selected.values()], request, chain.from_iterable(chosen.values()), listen)
    toolchains = Toolchains(request.cache, listen)
    inputs = {
        name: LockedInputs(
            kernel=selected[name].kernel,
            lock=lock.of_kernel(name) if lock and name else lock,
            toolchains=toolchains,
            strict=strict,
            refresh=refresh,
            nightly=nightly,
        )
        for name in chosen
    }
    parts = {name: PartOfSet(everything[name], chosen[name], machine) for name in chosen}
    kernels, failures = _plan_kernels(selected, parts, inputs, request, listen)
    if "" in kernels:
        return PreparedSet.of(kernels[""]), inputs
    lost = [
        Excluded(cell=replace(cell_of(each), kernel=name), reason=f"not planned: {failures[name]}")
        for name in failures
        for each in chosen[name]
    ]
    return _join(request, next(iter(selected.values())), kernels, failures, lost), inputs


def _plan_kernels(
    matrices: Mapping[str, Matrix],
    parts: Mapping[str, PartOfSet],
    inputs: Mapping[str, LockedInputs],
    request: Request,
    listen: Listener,
) -> tuple[dict[str, Prepared], dict[str, str]]:
    """Fetch and plan kernels. Return those with a plan, in their order, and name → why another one has none.

    :param parts: the cells of each kernel.
    """
    matrices, parts = {**matrices}, {**parts}
    kernels: dict[str, Prepared] = {}
    failures: dict[str, str] = {}
    sources: dict[str, SourceTree] = {}
    specs: dict[str, tuple[Matrix, KernelSpec | ProjectSpec]] = {}
    for name in parts:
        with _recorded(matrix := matrices[name], failures, listen):
            source = sources[name] = fetch_named(matrix, request, inputs[name], _teller(name, listen))
            spec = read_spec(source, matrix, request.matrix.name)
            if isinstance(spec, KernelSpec):
                matrices[name], parts[name] = _without_project_settings(matrix, parts[name])
            specs[name] = matrices[name], spec
    for name, required in order_kernels(specs).items():
        with _recorded(matrices[name], failures, listen):
            kernels[name] = prepare_matrix(
                matrices[name],
                request,
                inputs[name],
                _teller(name, listen),
                source=sources[name],
                part=parts[name],
                required=[_required(each, kernels.get(each), specs[each]) for each in required],
            )
    return {name: kernels[name] for name in matrices if name in kernels}, failures


def _without_project_settings(matrix: Matrix, part: PartOfSet) -> tuple[Matrix, PartOfSet]:
    """Return a kernel in kernel-builder layout, and its cells, without what the file has for projects.

    One wheel serves every Python, so a cell is selected if it is for any of the file's Pythons.
    """
    plain = matrix.without_project_settings()
    if not matrix.python:
        return plain, part
    everything = expand(plain)
    chosen = {replace(cell_of(each), python=None).id for each in part.selected}
    return plain, PartOfSet(everything, tuple(each for each in everything if cell_of(each).id in chosen), part.machine)


def _shared_modules(plans: Iterable[BuildPlan]) -> Iterator[str]:
    """Yield a sentence for each import package that several kernels install, since each replaces the other's files."""
    kernels: dict[str, dict[str | None, None]] = {}
    for plan in plans:
        if plan.wheel.module:
            kernels.setdefault(plan.wheel.module, {})[plan.cell.kernel] = None
    for module, names in kernels.items():
        if len(names) > 1:
            yield f"{' and '.join(map(str, names))} have the import package {module}: give one another module"


@contextmanager
def _recorded(matrix: Matrix, failures: dict[str, str], listen: Listener) -> Iterator[None]:
    """Give an error of a kernel its place. Record that of one of several kernels, so that the others are built."""
    try:
        yield
    except WheelsmithError as error:
        if error.where is None and matrix.place and isinstance(error, MatrixError | SourceError):
            error.where = Place(file=matrix.place)
        if not matrix.name:
            raise
        failures[matrix.name] = str(error)
        remedy = f" ({error.remedy})" if error.remedy else ""
        _teller(matrix.name, listen)(Notice(level="warning", text=f"it is not built: {error}{remedy}"))


def _required(name: str, prepared: Prepared | None, known: tuple[Matrix, KernelSpec | ProjectSpec]) -> RequiredKernel:
    """Return a kernel that another one requires. It has no wheels if it could not be planned."""
    matrix, spec = known
    repo = spec.repo_id if isinstance(spec, KernelSpec) else None
    return RequiredKernel(
        name=name,
        distribution=matrix.kernel.distribution or str(spec.name),
        version=matrix.version or str(spec.version),
        repos=frozenset(each for each in (matrix.kernel.hub, repo) if each),
        plans=prepared.plans if prepared else (),
    )


def new_lock(planned: PreparedSet, inputs: Mapping[str, LockedInputs]) -> Lock:
    """Return the lock of a planned set. Its wheels have no addresses yet."""
    locks = {name: inputs[name].new_lock(each.source, each.plans) for name, each in planned.prepared.items()}
    return locks[""] if "" in locks else join_locks(locks)


def _select_kernels(matrices: dict[str, Matrix], request: Request) -> dict[str, Matrix]:
    """Return the kernels whose name matches a pattern; all of them if there is no pattern.

    :raises SelectionError: a pattern matches no kernel.
    """
    if "" in matrices and request.kernels:
        raise SelectionError(f"{request.matrix} has one kernel without a name", remedy="remove --kernel")
    for pattern in request.kernels:
        if not any(matches_glob(pattern, name) for name in matrices):
            raise SelectionError(f"{pattern!r} matches no kernel", remedy=did_you_mean(pattern, matrices))
    patterns = request.kernels or ("*",)
    return {name: each for name, each in matrices.items() if any(matches_glob(p, name) for p in patterns)}


def _join(
    request: Request, common: Matrix, kernels: dict[str, Prepared], failures: dict[str, str], lost: Sequence[Excluded]
) -> PreparedSet:
    """Return the set of some kernels.

    :param common: a matrix with the settings that all kernels share.
    :param lost: the cells of kernels without a plan.
    """
    parts = kernels.items()
    first = next(iter(kernels.values()), None)
    if first is None:
        name, reason = next(iter(failures.items()))
        raise MatrixError(f"no kernel can be built; {name}: {reason}")
    planned = PreparedSet(
        request=request,
        engine=first.engine,
        limits=common.engine,
        out=first.out,
        prepared=kernels,
        kernels={
            name: KernelRecord(
                kernel=each.kernel,
                distribution=each.distribution,
                version=each.version,
                trees=each.trees,
                commit=each.commit,
            )
            for name, each in parts
        },
        failures=failures,
        kernel=counted(len(kernels) + len(failures), "kernel"),
        distribution=None,
        version=None,
        cells=tuple(sorted(f"{name}/{cell}" for name, each in parts for cell in each.cells)),
        offered=tuple(sorted(f"{name}/{cell}" for name, each in parts for cell in each.offered)),
        trees=tuple(sorted({tree for each in kernels.values() for tree in each.trees})),
        commit=None,
        plans=tuple(_named_plan(plan, name) for name, each in parts for plan in each.plans),
        excluded=(*(_named_item(item, name) for name, each in parts for item in each.excluded), *lost),
        not_folded={f"{name}/{cell}": why for name, each in parts for cell, why in each.not_folded.items()},
        not_upstream={f"{name}/{cell}": why for name, each in parts for cell, why in each.not_upstream.items()},
        variants=common.output.variants,
        matrix_sha256=common.sha256,
    )
    check_names(planned.builds)
    return planned


def _named_plan(plan: BuildPlan, kernel: str) -> BuildPlan:
    return plan.of_cell(replace(plan.cell, kernel=kernel))


def _named_item(item: Excluded, kernel: str) -> Excluded:
    return replace(item, cell=replace(item.cell, kernel=kernel))


def _teller(kernel: str, listen: Listener) -> Listener:
    """Return a listener that begins each notice with the name of a kernel, if it has one."""

    def tell(event: Event) -> None:
        listen(replace(event, text=f"{kernel}: {event.text}") if isinstance(event, Notice) else event)

    return tell if kernel else listen
