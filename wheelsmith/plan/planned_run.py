"""What a run is to build."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wheelsmith.model import BuildPlan, BuildResult, Excluded, Folded
from wheelsmith.model.run_record import CellRecord, PlannedCell, RunRecord
from wheelsmith.plan.fold import Build, fold, folded


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
