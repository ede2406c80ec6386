"""Take the builds that a kernel's repo already has, so that only the other combinations are compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING

from wheelsmith.base.errors import SourceError
from wheelsmith.base.offline import is_offline
from wheelsmith.base.units import counted, show_size
from wheelsmith.matrix.types import KernelRef
from wheelsmith.model import BuildPlan, BuildResult, Cell, Excluded, ImageId, Listener, Notice, ignore
from wheelsmith.plan.kernel import WheelNames
from wheelsmith.plan.planned_run import fold
from wheelsmith.plan.recipe.spec import KernelSpec
from wheelsmith.plan.repack.folders import METADATA, BuildFolder
from wheelsmith.plan.repack.plans import plan_folders
from wheelsmith.plan.repack.variants import HubVariant, cells_of
from wheelsmith.run.build_folders import merge_trees, read_folder, usable_variants
from wheelsmith.run.executors import BuildRequest, KernelInputs, open_executor
from wheelsmith.run.scratch import scratch
from wheelsmith.source.builds import read_builds
from wheelsmith.source.tree import SourceTree
from wheelsmith.store import in_use

if TYPE_CHECKING:
    from wheelsmith.run.prepare import Request

_Check = Callable[[Sequence[BuildPlan], SourceTree], dict[str, str]]


@dataclass(kw_only=True)
class UpstreamBuilds:
    """The build folders of a kernel's repo or folder that may serve cells of a matrix.

    :param source: the kernel's source.
    :param variants: name of a build folder → its parsed name.
    :param trees: name → its files.
    :param folders: name → its content, as long as it may be used.
    :param refused: name → why it is not used.
    """

    source: SourceTree
    variants: dict[str, HubVariant]
    trees: dict[str, SourceTree] = field(default_factory=dict)
    folders: dict[str, BuildFolder] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def take(
        self, answers: Sequence[BuildPlan | Excluded], names: WheelNames, image: ImageId | None, check: _Check
    ) -> dict[str, BuildPlan]:
        """Return cell ID → the plan that packs a build for the cell. Builds that cannot be used are refused.

        :param answers: the answer for each cell if it is compiled.
        :param image: the image that packs wheels, for engines with images.
        :param check: packs and checks builds from a tree, and returns digest of a build's files → its failure.
        """
        served: dict[str, list[BuildPlan | Excluded]] = {}
        for answer in answers:
            served.setdefault(_cell_of_wheel(answer).id, []).append(answer)
        while True:
            planned = plan_folders(self.folders.values(), names, image)
            self.refused |= {each.variant: str(each.reason) for each in planned.results if each.refused}
            pairs = ((plan, answer) for plan in planned.plans for answer in served.get(plan.cell.id, ()))
            plans = {answer.cell.id: _adapt(plan, answer) for plan, answer in pairs}
            wrong = _find_clashes(plans, answers) or check(list(plans.values()), self.tree)
            if not wrong:
                return plans
            for name in [name for name in self.folders if self.trees[name].id.tree in wrong]:
                self.refused[name] = wrong[self.trees[name].id.tree]
                del self.folders[name]

    def why_not(self, answer: BuildPlan | Excluded) -> str:
        """Return why no build is used for a cell."""
        cell = _cell_of_wheel(answer).id
        serving = (name for name in self.refused if cell in {each.id for each in cells_of(self.variants[name])})
        reasons = [f"{name} is refused: {self.refused[name]}" for name in serving]
        return "; ".join(reasons) or "it has no build for this combination"

    @property
    def tree(self) -> SourceTree:
        """Return one tree with the files of all builds that may be used."""
        return merge_trees([self.trees[name] for name in self.folders], self.source.id)


def read_upstream(
    kernel: KernelRef,
    base: Path,
    spec: KernelSpec,
    source: SourceTree,
    answers: Sequence[BuildPlan | Excluded],
    listen: Listener,
) -> UpstreamBuilds:
    """Fetch the build folders that may serve cells, from the commit of the source.

    :param base: the folder for relative paths.
    :param answers: the answer for each cell if it is compiled.
    :raises SourceError: they cannot be listed or fetched.
    """
    if kernel.hub and is_offline():
        why = f"the builds of {kernel.hub} cannot be fetched offline"
        raise SourceError(why, remedy="remove builds: prefer from the kernel")
    listed = read_builds(kernel, base / (kernel.path or ""), source.id.commit)
    cells = {_cell_of_wheel(answer).id for answer in answers}
    usable = usable_variants(listed.names)[0]
    found = UpstreamBuilds(
        source=source,
        variants={name: each for name, each in usable.items() if any(cell.id in cells for cell in cells_of(each))},
    )
    if size := sum(listed.sizes.get(name, 0) for name in found.variants):
        text = f"{counted(len(found.variants), 'build')} of {kernel.hub} to fetch: {show_size(size)}"
        listen(Notice(level="info", text=text))
    for name, fetched in listed.fetch(found.variants).items():
        try:
            if isinstance(fetched, SourceError):
                raise fetched
            tree = replace(fetched, id=replace(fetched.id, revision=source.id.revision))
            folder = read_folder(found.variants[name], tree, fallback=spec.package, module=spec.module)
            _require_same_kernel(folder, spec)
        except SourceError as error:
            found.refused[name] = str(error)
        else:
            found.trees[name], found.folders[name] = tree, folder
    return found


def _require_same_kernel(folder: BuildFolder, spec: KernelSpec) -> None:
    """Reject a build of another kernel or version than build.toml names.

    :raises SourceError: it is one.
    """
    if folder.package.module != spec.package:
        raise SourceError(f"its package is {folder.package.module}, but build.toml names {spec.package}")
    if None not in {folder.facts.version, spec.version} and folder.facts.version != spec.version:
        raise SourceError(f"{METADATA} has version {folder.facts.version}, but build.toml has {spec.version}")


def _cell_of_wheel(answer: BuildPlan | Excluded) -> Cell:
    """Return the cell that the wheel of a cell is named after: with ``oldest-minor``, one of an older CUDA."""
    if isinstance(answer, BuildPlan) and answer.cell.toolkit and answer.wheel.toolkit:
        return replace(answer.cell, toolkit=answer.wheel.toolkit)
    return answer.cell


def _adapt(plan: BuildPlan, answer: BuildPlan | Excluded) -> BuildPlan:
    """Return the plan of a build with the cell, the platform tag and the GPU architectures of a compiled wheel."""
    cell = answer.cell
    if plan.wheel.platform == "any":
        return plan.of_cell(cell)
    toolset = answer.toolset if isinstance(answer, BuildPlan) else None
    policy = toolset.policy if toolset else f"manylinux_{cell.settings.manylinux}"
    gpu_archs = cell.settings.gpu_archs if cell.toolkit else None
    if gpu_archs and isinstance(answer, BuildPlan):
        gpu_archs = answer.wheel.gpu_archs
    return replace(plan, cell=cell, wheel=replace(plan.wheel, gpu_archs=gpu_archs or ()), policy=policy)


def _find_clashes(plans: Mapping[str, BuildPlan], answers: Sequence[BuildPlan | Excluded]) -> dict[str, str]:
    """Return digest of a build's files → the cell that needs another wheel of the same name."""
    compiled = (each for each in answers if isinstance(each, BuildPlan) and each.cell.id not in plans)
    stems = {plan.wheel.stem: plan.cell.id for plan in compiled}
    clashing = (plan for plan in plans.values() if plan.wheel.stem in stems)
    return {
        plan.source.tree: f"{stems[plan.wheel.stem]}, which it does not serve, needs a wheel of the same name"
        for plan in clashing
    }


def check_builds(request: Request, engine: str, plans: Sequence[BuildPlan], tree: SourceTree) -> dict[str, str]:
    """Pack and check builds, unless the store has their checked wheels. Return digest of a build's files → failure.

    :param engine: the name of the engine.
    :param tree: the files of the builds.
    """
    results: list[BuildResult] = []
    builds = {build.plan.build_digest: build.plan for build in fold(plans)}
    with in_use(request.cache), scratch(request.cache / "work") as folder:
        work = BuildRequest(
            to_build=tuple(builds.values()),
            kernels={"": KernelInputs(source=tree)},
            engine=engine,
            cache=request.cache,
            folder=folder,
            logs=folder / "logs",
            jobs=request.jobs,
            memory=request.memory,
            force=request.force,
        )
        open_executor(request.executor).build(work, listen=ignore, on_result=results.append, cancel=Flag())
    return {builds[result.plan_digest].source.tree: result.failure.message for result in results if result.failure}
