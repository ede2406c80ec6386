"""The record of a run: what ``results.json`` holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from wheelsmith import __version__
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import Record, read_json
from wheelsmith.model.build_host import ImageId
from wheelsmith.model.cell import TORCH, Cell, Excluded
from wheelsmith.model.plan import SCHEMA_VERSION, BuildPlan, Folded, SourceId
from wheelsmith.model.result import BuildResult, Status

RESULTS = "results.json"
_LARGEST = 256 << 20  # bytes of results.json
_EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell(Record):
    """What the record tells of a cell's plan.

    :param folded: the cell whose wheel it shares.
    :param not_folded: why no older minor of its CUDA answers for it.
    :param version: of the wheel, with its local part.
    """

    folded: Folded | None
    not_folded: str | None
    version: str
    requires_torch: str | None
    gpu_archs: tuple[str, ...]
    source: SourceId
    image: ImageId | None
    compiler: str | None
    toolkit: str | None

    @classmethod
    def of(cls, plan: BuildPlan, folded: Folded | None, not_folded: str | None) -> Self:
        """Return what the record tells of a plan."""
        wheel = plan.wheel
        return cls(
            folded=folded,
            not_folded=not_folded,
            version=wheel.version,
            requires_torch=(wheel.stable_abi or wheel.release) if plan.cell.framework == TORCH else None,
            gpu_archs=wheel.gpu_archs,
            source=plan.source,
            image=plan.image,
            compiler=plan.toolset.version if plan.toolset else None,
            toolkit=plan.toolkit.version if plan.toolkit else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord(Record):
    """One cell of a run.

    :param reason: why the cell is excluded; None for a cell that has a plan.
    :param planned: None for an excluded cell.
    :param result: None for a cell that is excluded, or that the run did not reach.
    """

    cell: Cell
    reason: str | None = None
    planned: PlannedCell | None = None
    result: BuildResult | None = None

    @property
    def status(self) -> Status:
        """Return how a planned cell ended."""
        return self.result.status if self.result else Status.CANCELLED

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the result and of the plan in one table."""
        if self.planned is None:
            return {"cell": self.cell.to_json(), "status": _EXCLUDED, "reason": self.reason}
        result = self.result.to_json() if self.result else {"cell": self.cell.to_json(), "status": Status.CANCELLED}
        return {**result, **self.planned.to_json()}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read what ``to_json`` wrote.

        :raises ValueError: a field is missing, unknown or of another type.
        """
        if not isinstance(data, dict) or "cell" not in data:
            raise ValueError("expected a cell of a run")
        cell = Cell.from_json(data["cell"])
        if data.get("status") == _EXCLUDED:
            return cls(cell=cell, reason=str(data.get("reason")))
        of_plan = {field.name for field in fields(PlannedCell)}
        planned = PlannedCell.from_json({name: value for name, value in data.items() if name in of_plan})
        rest = {name: value for name, value in data.items() if name not in of_plan}
        result = BuildResult.from_json(rest) if "plan_digest" in rest else None
        if result and (result.wheel is None) is not (result.status in {Status.FAILED, Status.CANCELLED}):
            raise ValueError(f"a cell is {result.status}, and has {'a' if result.wheel else 'no'} wheel")
        if result and result.status is Status.FAILED and result.failure is None:
            raise ValueError("a cell failed, and nothing says why")
        return cls(cell=cell, planned=planned, result=result)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardName(Record):
    """Which part of a matrix a run built.

    :param plan: the digest of the plan that all jobs share.
    :param number: from 1.
    """

    plan: str
    number: int


@dataclass(frozen=True, kw_only=True)  # a class with slots is made twice, and super() needs the first
class RunRecord(Record):
    """A run and what became of each of its cells.

    :param kernel: the source for people, with its commit.
    :param wheelsmith: the version that ran.
    :param cells: cell id → every cell that was asked for.
    :param distribution: the project's name; None where neither the matrix nor the source tells it.
    :param kernel_version: without a local part.
    :param matrix_sha256: of the matrix file; None where there was none.
    :param started_on: None where several jobs built.
    :param shard: None for a run that built all of its matrix.
    :param variants: of a repacked repository: name of a build folder → what became of it.
    """

    schema_version: int = SCHEMA_VERSION
    wheelsmith: str = __version__
    kernel: str
    interrupted: bool
    cells: dict[str, CellRecord]
    distribution: str | None
    kernel_version: str | None
    matrix_sha256: str | None
    started_on: str | None = None
    finished_on: str | None = None
    shard: ShardName | None = None
    variants: dict[str, dict[str, str | None]] | None = None

    @property
    def planned(self) -> tuple[CellRecord, ...]:
        """Return the cells that are not excluded."""
        return tuple(cell for cell in self.cells.values() if cell.planned)

    @property
    def excluded(self) -> tuple[Excluded, ...]:
        """Return the cells that are not built, and why."""
        cells = (cell for cell in self.cells.values() if cell.reason is not None)
        return tuple(Excluded(cell=cell.cell, reason=str(cell.reason)) for cell in cells)

    @property
    def results(self) -> tuple[BuildResult, ...]:
        """Return the results of the cells that have one."""
        return tuple(cell.result for cell in self.cells.values() if cell.result)

    @property
    def is_complete(self) -> bool:
        """Return True if every planned cell has a wheel."""
        return all(cell.result and cell.result.wheel for cell in self.planned)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; ``shard`` and ``variants`` are left out of runs that have none."""
        data = super().to_json()
        return {name: value for name, value in data.items() if value is not None or name not in {"shard", "variants"}}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read what ``to_json`` wrote; what other versions add is left out.

        :raises ValueError: a field is missing or of another type.
        """
        known = {field.name for field in fields(cls)}
        if isinstance(data, Mapping):
            data = {name: value for name, value in data.items() if name in known}
        return super().from_json(data)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read ``results.json`` of an output folder.

        :raises FileNotFoundError: there is none.
        :raises OSError: it cannot be read.
        :raises ValueError: it is not the record of a run.
        """
        return cls.from_json(read_json(read_bounded(folder / RESULTS, _LARGEST)))
