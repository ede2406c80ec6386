"""The record of a run, which is stored in ``results.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from wheelsmith import __version__
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import Record, read_json
from wheelsmith.model.build_host import ImageId
from wheelsmith.model.cell import EXCLUDED, TORCH, WAITING, Cell, Excluded
from wheelsmith.model.plan import SCHEMA_VERSION, BuildPlan, Folded, SourceId
from wheelsmith.model.result import BuildResult, Status

RESULTS = "results.json"
_MAX_SIZE = 256 << 20  # bytes of results.json


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell(Record):
    """The part of a cell's plan that the record contains.

    :param folded: the cell that it shares a wheel with.
    :param not_folded: why no wheel of an older CUDA minor release serves it.
    :param version: the wheel's version, with the local version.
    :param not_upstream: why it is compiled, if the matrix prefers upstream's builds.
    :param compiler: the host compiler, or ``upstream``.
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
    not_upstream: str | None = None

    @classmethod
    def of(
        cls, plan: BuildPlan, folded: Folded | None, not_folded: str | None, not_upstream: str | None = None
    ) -> Self:
        """Return the recorded part of a plan."""
        wheel = plan.wheel
        return cls(
            folded=folded,
            not_folded=not_folded,
            version=wheel.version,
            requires_torch=(wheel.stable_abi or wheel.release) if plan.cell.framework == TORCH else None,
            gpu_archs=wheel.gpu_archs,
            source=plan.source,
            image=plan.image,
            compiler=plan.compiler,
            toolkit=plan.toolkit.version if plan.toolkit else None,
            not_upstream=not_upstream,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord(Record):
    """One cell of a run.

    :param reason: why the cell is excluded or waits; None for a cell that has a plan.
    :param waits: see ``Excluded``.
    :param planned: None for an excluded cell.
    :param result: None for a cell that is excluded or that the run did not reach.
    """

    cell: Cell
    reason: str | None = None
    waits: bool = False
    planned: PlannedCell | None = None
    result: BuildResult | None = None

    @property
    def status(self) -> Status:
        """Return the outcome of a planned cell."""
        return self.result.status if self.result else Status.CANCELLED

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the result and the plan in one object."""
        if self.planned is None:
            status = WAITING if self.waits else EXCLUDED
            return {"cell": self.cell.to_json(), "status": status, "reason": self.reason}
        result = self.result.to_json() if self.result else {"cell": self.cell.to_json(), "status": Status.CANCELLED}
        planned = self.planned.to_json()
        if self.planned.not_upstream is None:
            del planned["not_upstream"]
        return {**result, **planned}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read the output of ``to_json``.

        :raises ValueError: a field is missing, unknown or of another type.
        """
        if not isinstance(data, dict) or "cell" not in data:
            raise ValueError("expected a cell of a run")
        cell = Cell.from_json(data["cell"])
        if (status := data.get("status")) in {EXCLUDED, WAITING}:
            return cls(cell=cell, reason=str(data.get("reason")), waits=status == WAITING)
        of_plan = {each.name for each in fields(PlannedCell)}
        planned = PlannedCell.from_json({name: value for name, value in data.items() if name in of_plan})
        rest = {name: value for name, value in data.items() if name not in of_plan}
        result = BuildResult.from_json(rest) if "plan_digest" in rest else None
        if result and (result.wheel is None) is not (result.status in {Status.FAILED, Status.CANCELLED}):
            raise ValueError(f"a cell is {result.status} but has {'a' if result.wheel else 'no'} wheel")
        if result and result.status is Status.FAILED and result.failure is None:
            raise ValueError("a cell failed without a reason")
        return cls(cell=cell, planned=planned, result=result)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardName(Record):
    """The part of a matrix that a run built.

    :param plan: the digest of the plan that all jobs share.
    :param number: the shard's number, starting at 1.
    :param costs: cell ID → seconds of one core that its build took in this or an earlier run, as far as they are known.
    """

    plan: str
    number: int
    costs: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without costs if there are none."""
        data = Record.to_json(self)  # slots replace the class, so super() does not work
        return data if self.costs else {name: value for name, value in data.items() if name != "costs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord(Record):
    """One kernel of a run of several.

    :param kernel: the source's display name, with its commit.
    :param trees: digests of its source trees.
    :param commit: the commit of its repository; None for a folder.
    """

    kernel: str
    distribution: str | None
    version: str | None
    trees: tuple[str, ...]
    commit: str | None


@dataclass(frozen=True, kw_only=True)  # slots would replace the class, and super() needs the original one
class RunRecord(Record):
    """A run and the result of each of its cells.

    :param kernel: the source's display name, with its commit.
    :param cells: cell ID → a selected cell.
    :param distribution: the project's name, if it is known.
    :param kernel_version: the version without a local version.
    :param started_on: None if several jobs built.
    :param shard: None for a run that built its entire matrix.
    :param variants: for a repacked repository, name of a build folder → its result.
    :param kernels: for a run of several kernels, the name of a kernel → its source and project.
    :param failures: name of a kernel → why it was not planned.
    :param older_wheels: file names of the wheels of an older source that the output folder still has.
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
    kernels: dict[str, KernelRecord] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    older_wheels: tuple[str, ...] = ()

    @property
    def planned(self) -> tuple[CellRecord, ...]:
        """Return the cells that are not excluded."""
        return tuple(cell for cell in self.cells.values() if cell.planned)

    @property
    def excluded(self) -> tuple[Excluded, ...]:
        """Return the cells that are not built, with their reasons."""
        cells = (cell for cell in self.cells.values() if cell.reason is not None)
        return tuple(Excluded(cell=cell.cell, reason=str(cell.reason), waits=cell.waits) for cell in cells)

    @property
    def results(self) -> tuple[BuildResult, ...]:
        """Return the results of the cells that have one."""
        return tuple(cell.result for cell in self.cells.values() if cell.result)

    @property
    def is_complete(self) -> bool:
        """Return True if every planned cell has a wheel, and every kernel has a plan."""
        return not self.failures and all(cell.result and cell.result.wheel for cell in self.planned)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data, without the fields that only some runs have if they are empty."""
        data, optional = super().to_json(), {"shard", "variants", "older_wheels", "kernels", "failures"}
        return {name: value for name, value in data.items() if value not in (None, [], {}) or name not in optional}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read the output of ``to_json``, and ignore fields that other versions add.

        :raises ValueError: a field is missing or of another type.
        """
        known = {each.name for each in fields(cls)}
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
        return cls.from_json(read_json(read_bounded(folder / RESULTS, _MAX_SIZE)))
