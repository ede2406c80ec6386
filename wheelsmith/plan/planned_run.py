"""The plan of a run: every cell planned or excluded, with shared wheels grouped into one build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter

from wheelsmith.base.errors import MatrixError
from wheelsmith.model import BuildPlan, BuildResult, Cell, Excluded, Folded, Status
from wheelsmith.model.run_record import CellRecord, KernelRecord, PlannedCell, RunRecord

_MAX_REASON = 2000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One build and the plans that it serves. The first plan is run."""

    plans: tuple[BuildPlan, ...]

    @property
    def plan(self) -> BuildPlan:
        """The plan that is run."""
        return self.plans[0]

    def answers(self, result: BuildResult) -> tuple[BuildResult, ...]:
        """Return a result for every plan from the result of the one that was run."""
        folded = Status.FOLDED if result.wheel else result.status
        return (
            result,
            *(replace(result, cell=plan.cell, status=folded, timings=()) for plan in self.plans[1:]),
        )


def fold(plans: Sequence[BuildPlan]) -> tuple[Build, ...]:
    """Group plans that produce the same wheel, in the order of their first cells.

    Within a group, a plan of a cell with the wheel's own CUDA is run, if there is one.
    """
    groups: dict[str, list[BuildPlan]] = {}
    for plan in plans:
        groups.setdefault(plan.build_digest, []).append(plan)
    return tuple(Build(plans=tuple(sorted(group, key=_has_other_cuda))) for group in groups.values())


def in_order(builds: Sequence[Build]) -> Iterator[tuple[Build, ...]]:
    """Yield groups of builds. A group requires only wheels of the groups before it."""
    known = {build.plan.build_digest: build for build in builds}
    sorter = TopologicalSorter(
        {digest: known.keys() & {each.digest for each in build.plan.requires} for digest, build in known.items()}
    )
    sorter.prepare()
    while ready := sorter.get_ready():
        yield tuple(build for digest, build in known.items() if digest in ready)
        sorter.done(*ready)


def check_names(builds: Iterable[Build]) -> None:
    """Check that no two builds with the same compilers, which may decide the platform in a name, share a name.

    :raises MatrixError: two do.
    """
    first: dict[object, BuildPlan] = {}
    for plan in (build.plan for build in builds):
        known = first.setdefault((plan.wheel.stem, plan.wheel.platform, plan.toolset), plan)
        if known is not plan:
            raise MatrixError(
                f"{known.cell.id} and {plan.cell.id} would have different wheels of one name, {plan.wheel.stem}",
                remedy="give both the same settings in matrix.yaml, or exclude one of them"
                if known.cell.kernel == plan.cell.kernel
                else "give one of the kernels another name: distribution and module",
            )


def folded(builds: Iterable[Build]) -> dict[str, Folded]:
    """Return for each cell with a shared wheel, by ID, the cell that builds it."""
    return {
        plan.cell.id: Folded(cell=build.plan.cell.id, reason=_reason(plan, build.plan))
        for build in builds
        for plan in build.plans[1:]
    }


def _has_other_cuda(plan: BuildPlan) -> bool:
    return plan.wheel.toolkit not in {None, plan.cell.toolkit}


def _reason(plan: BuildPlan, first: BuildPlan) -> str:
    if plan.wheel.release is None:
        return "nothing is compiled"
    reasons = [] if plan.cell.kernel == first.cell.kernel else ["the same source and settings"]
    if plan.cell.release != first.cell.release:
        reasons.append(f"{plan.wheel.framework}'s stable ABI from {plan.wheel.stable_abi} on")
    if plan.cell.toolkit != first.cell.toolkit:
        reasons.append("CUDA minor-version compatibility")
    return " and ".join(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """All selected cells of a matrix, planned or excluded.

    :param kernel: the display name of the source, with its commit.
    :param distribution: the project's name; None if neither the matrix nor the source has one.
    :param version: the version without a local part; None if neither has one.
    :param cells: IDs of all cells of the matrix, selected or not.
    :param offered: IDs of the cells that should have a wheel on the index's pages.
    :param trees: digests of the source trees.
    :param commit: the commit of the source's repository; None for a folder.
    :param not_folded: cell ID → the reason why it does not share a wheel, if the matrix requests CUDA minor
        compatibility.
    :param not_upstream: cell ID → the reason why it is compiled, if the matrix prefers upstream's builds.
    :param variants: the index offers wheel variants.
    :param matrix_sha256: the digest of the matrix file; None if there is none.
    :param kernels: for several kernels, name → the kernel. The names of its cells begin with its own.
    :param failures: name of a kernel → why it was not planned.
    """

    kernel: str
    distribution: str | None
    version: str | None
    cells: tuple[str, ...]
    offered: tuple[str, ...]
    trees: tuple[str, ...]
    commit: str | None
    plans: tuple[BuildPlan, ...]
    excluded: tuple[Excluded, ...]
    not_folded: dict[str, str]
    variants: bool
    matrix_sha256: str | None
    kernels: dict[str, KernelRecord] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    not_upstream: dict[str, str] = field(default_factory=dict)

    def by_kernel(self, results: Iterable[BuildResult]) -> Iterator[tuple[PlannedRun, tuple[BuildResult, ...]]]:
        """Yield the run of each kernel with its results, as if its matrix were a file of its own."""
        if not self.kernels:
            yield self, tuple(results)
        of_kernel: dict[str | None, list[BuildResult]] = {}
        for result in results:
            of_kernel.setdefault(result.cell.kernel, []).append(replace(result, cell=_plain(result.cell)))
        for name in self.kernels:
            yield self._run_of(name), tuple(of_kernel.get(name, ()))

    def _run_of(self, name: str) -> PlannedRun:
        kernel, prefix = self.kernels[name], f"{name}/"
        return PlannedRun(
            kernel=kernel.kernel,
            distribution=kernel.distribution,
            version=kernel.version,
            cells=_without_prefix(self.cells, prefix),
            offered=_without_prefix(self.offered, prefix),
            trees=kernel.trees,
            commit=kernel.commit,
            plans=tuple(plan.of_cell(_plain(plan.cell)) for plan in self.plans if plan.cell.kernel == name),
            excluded=tuple(replace(item, cell=_plain(item.cell)) for item in self.excluded if item.cell.kernel == name),
            not_folded={
                cell.removeprefix(prefix): why for cell, why in self.not_folded.items() if cell.startswith(prefix)
            },
            variants=self.variants,
            matrix_sha256=self.matrix_sha256,
        )

    @property
    def builds(self) -> tuple[Build, ...]:
        """The builds, each with the plans that it serves."""
        return fold(self.plans)

    @property
    def folded(self) -> dict[str, Folded]:
        """Cell ID → the cell that builds its shared wheel."""
        return folded(self.builds)

    def record(self, results: Iterable[BuildResult], *, interrupted: bool, older: Iterable[str] = ()) -> RunRecord:
        """Return the record of a run with these results."""
        found = {result.cell.id: result for result in results}
        shared = self.folded
        cells: dict[str, CellRecord] = {}
        for plan in self.plans:
            name = plan.cell.id
            planned = PlannedCell.of(plan, shared.get(name), self.not_folded.get(name), self.not_upstream.get(name))
            cells[name] = CellRecord(cell=plan.cell, planned=planned, result=found.get(name))
        for item in self.excluded:
            cells[item.cell.id] = CellRecord(cell=item.cell, reason=item.reason[:_MAX_REASON], waits=item.waits)
        return RunRecord(
            kernel=self.kernel,
            interrupted=interrupted,
            cells=cells,
            distribution=self.distribution,
            kernel_version=self.version,
            matrix_sha256=self.matrix_sha256,
            kernels=self.kernels,
            failures=self.failures,
            older_wheels=tuple(older),
        )


def _plain(cell: Cell) -> Cell:
    return replace(cell, kernel=None)


def _without_prefix(cells: Iterable[str], prefix: str) -> tuple[str, ...]:
    return tuple(cell.removeprefix(prefix) for cell in cells if cell.startswith(prefix))
