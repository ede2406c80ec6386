"""The cells of one kernel, planned; one that answers for others is planned once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from wheelsmith.engine import Engine, with_python_digest
from wheelsmith.matrix import CudaCompatibility, Matrix, project_settings
from wheelsmith.model import BuildHost, BuildPlan, Cell, Excluded
from wheelsmith.model.build_host import USE_IMAGES
from wheelsmith.plan import Resolve, older_minors, plan_by_oldest_minor, plan_kernel, plan_project, with_toolkit
from wheelsmith.plan.recipe import KernelSource, KernelSpec, ProjectSpec


def older_cells(matrix: Matrix, answers: Iterable[Cell | Excluded]) -> dict[str, tuple[Cell, ...]]:
    """Return by a cell's id which may answer for it: those of older minors of its CUDA, where the matrix has it so."""
    if matrix.cuda_compatibility is not CudaCompatibility.OLDEST_MINOR:
        return {}
    return older_minors(answer for answer in answers if isinstance(answer, Cell))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Plans cells of one kernel; asks the engine for each image's compilers once.

    :param resolve: finds the wheels of build environments.
    :param older: cell id → the cells that may answer for it.
    :param not_folded: is filled while planning, see ``Prepared``.
    """

    matrix: Matrix
    spec: KernelSpec | ProjectSpec
    source: KernelSource
    engine: Engine
    resolve: Resolve
    older: dict[str, tuple[Cell, ...]]
    not_folded: dict[str, str] = field(default_factory=dict)
    build_hosts: dict[str | None, BuildHost] = field(default_factory=dict)
    planned: dict[str, BuildPlan | Excluded] = field(default_factory=dict)

    def plan(self, answer: Cell | Excluded) -> BuildPlan | Excluded:
        """Return the plan of a cell, or why it has none; what the matrix excludes stays excluded."""
        if isinstance(answer, Excluded):
            return answer
        older = self.older.get(answer.id, ())
        made, why_not = plan_by_oldest_minor(answer, older, self._by_itself, self._as_if)
        if why_not:
            self.not_folded[answer.id] = why_not
        return made

    def _by_itself(self, cell: Cell) -> BuildPlan | Excluded:
        if cell.id not in self.planned:
            self.planned[cell.id] = self._make(cell)
        return self.planned[cell.id]

    def _as_if(self, cell: Cell) -> BuildPlan | Excluded:
        return self._make(cell, lambda host: with_toolkit(host, cell))

    def _make(self, cell: Cell, offered: Callable[[BuildHost], BuildHost] = lambda host: host) -> BuildPlan | Excluded:
        image = cell.settings.image
        if image and not self.engine.has_images:
            reason = f"it must be built in image {image}, and engine {self.engine.name} has no images"
            return Excluded(cell=cell, reason=f"{reason}: use {USE_IMAGES}")
        named = {"distribution": self.matrix.kernel.distribution, "version": self.matrix.version}
        source, declared = self.source, self.matrix.kernel.declare
        build_host = offered(self._build_host(image or self.matrix.engine.image))
        if isinstance(self.spec, KernelSpec):
            return plan_kernel(cell, spec=self.spec, source=source, build_host=build_host, declared=declared, **named)
        return plan_project(
            cell,
            spec=self.spec,
            source=source,
            build_host=with_python_digest(build_host, cell.python),
            resolve=self.resolve,
            declared=declared,
            settings=project_settings(self.matrix, cell),
            **named,
        )

    def _build_host(self, image: str | None) -> BuildHost:
        if image not in self.build_hosts:
            self.build_hosts[image] = self.engine.build_host(image)
        return self.build_hosts[image]
