"""What a run is to build: every cell planned or excluded, and cells that would give the same wheel as one build."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from wheelsmith.model import BuildPlan, BuildResult, Excluded, Folded, Status
from wheelsmith.model.run_record import CellRecord, PlannedCell, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One build and the plans that it answers; the first of them is the one that is run."""

    plans: tuple[BuildPlan, ...]

    @property
    def plan(self) -> BuildPlan:
        """Return the plan that is run."""
        return self.plans[0]

    def answers(self, result: BuildResult) -> tuple[BuildResult, ...]:
        """Return a result for every plan, from the one that was run."""
        folded = Status.FOLDED if result.wheel else result.status
        return (
            result,
            *(replace(result, cell=plan.cell, status=folded, timings=()) for plan in self.plans[1:]),
        )


def fold(plans: Sequence[BuildPlan]) -> tuple[Build, ...]:
    """Group plans by what they build, in the order of their first cells.

    The plan that is run is that of a cell whose own CUDA makes the wheel, where there is one.
    """
    groups: dict[str, list[BuildPlan]] = {}
    for plan in plans:
        groups.setdefault(plan.build_digest, []).append(plan)
    return tuple(Build(plans=tuple(sorted(group, key=_made_by_another_cuda))) for group in groups.values())


def folded(builds: Iterable[Build]) -> dict[str, Folded]:
    """Return by its id every cell that another cell's wheel answers."""
    return {
        plan.cell.id: Folded(cell=build.plan.cell.id, reason=_reason(plan, build.plan))
        for build in builds
        for plan in build.plans[1:]
    }


def _made_by_another_cuda(plan: BuildPlan) -> bool:
    return plan.wheel.toolkit not in {None, plan.cell.toolkit}


def _reason(plan: BuildPlan, first: BuildPlan) -> str:
    if plan.wheel.release is None:
        return "nothing is compiled"
    reasons = []
    if plan.cell.release != first.cell.release:
        reasons.append(f"torch's stable ABI from {plan.wheel.stable_abi} on")
    if plan.cell.toolkit != first.cell.toolkit:
        reasons.append("CUDA minor-version compatibility")
    return " and ".join(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """Every cell of a matrix that was asked for, planned or excluded.

    :param kernel: the source for people, with its commit.
    :param distribution: the project's name; None where neither the matrix nor its source tells it.
    :param version: without a local part; None where neither tells it.
    :param cells: ids of all cells of the matrix, selected or not.
    :param offered: ids of those that are to have a wheel on the index's pages.
    :param trees: digests of the sources that wheels are made from.
    :param commit: of the repository that they are in; None for a folder.
    :param not_folded: cell id → why no older minor of its CUDA answers for it, where the matrix asks for that.
    :param variants: whether the index offers wheel variants too.
    :param matrix_sha256: of the matrix file; None where there is none.
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

    @property
    def builds(self) -> tuple[Build, ...]:
        """Return the builds: a plan with the cells that it serves."""
        return fold(self.plans)

    @property
    def folded(self) -> dict[str, Folded]:
        """Return cell id → the cell whose wheel it shares."""
        return folded(self.builds)

    def record(self, results: Iterable[BuildResult], *, interrupted: bool) -> RunRecord:
        """Return the record of a run that came to these results."""
        found = {result.cell.id: result for result in results}
        shared = self.folded
        cells: dict[str, CellRecord] = {}
        for plan in self.plans:
            name = plan.cell.id
            planned = PlannedCell.of(plan, shared.get(name), self.not_folded.get(name))
            cells[name] = CellRecord(cell=plan.cell, planned=planned, result=found.get(name))
        for item in self.excluded:
            cells[item.cell.id] = CellRecord(cell=item.cell, reason=item.reason)
        return RunRecord(
            kernel=self.kernel,
            interrupted=interrupted,
            cells=cells,
            distribution=self.distribution,
            kernel_version=self.version,
            matrix_sha256=self.matrix_sha256,
        )
