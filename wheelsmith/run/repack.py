"""Prepare wheels from the builds in a Hub repo, with a reason for each build that cannot become a wheel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MatrixError, Place, SelectionError, SourceError
from wheelsmith.base.units import counted, listed, show_size
from wheelsmith.engine import Engine, choose
from wheelsmith.matrix.expand import matches_glob
from wheelsmith.matrix.load import check_kernel
from wheelsmith.matrix.types import KernelRef, Matrix
from wheelsmith.matrix.values import public_version
from wheelsmith.model import Listener, Notice, log_notices
from wheelsmith.model.build_host import AUTO
from wheelsmith.plan.kernel import WheelNames
from wheelsmith.plan.pypi_names import find_name_conflict, unique_name
from wheelsmith.plan.repack.folders import (
    METADATA,
    BuildFacts,
    BuildFolder,
)
from wheelsmith.plan.repack.plans import FolderPlans, VariantResult, plan_folders
from wheelsmith.plan.repack.variants import cells_of
from wheelsmith.run.build_folders import merge_trees, read_folder, usable_variants
from wheelsmith.run.prepare import Prepared, Request
from wheelsmith.run.project_source import name_notices
from wheelsmith.source.builds import BuildTrees, read_builds
from wheelsmith.source.tree import SourceTree

_HUB = "hub:"
_DEFAULT_REVISION = "main"
_DEFAULT_OUT = "dist"
_MAX_LISTED = 30  # variants that an error lists


@dataclass(frozen=True, slots=True, kw_only=True)
class RepackRequest:
    """The repo to repack, and the names of its wheels.

    :param repo: ``hub:org/name``, optionally with ``@revision``, or a folder that contains ``build/``.
    :param run: the options of the run; its matrix is ignored, and its globs select variants.
    :param distribution: the project's name; None for the kernel's name.
    :param module: the import name; None for the kernel's own.
    :param version: None for the version in the builds' metadata.
    """

    repo: str
    run: Request
    distribution: str | None = None
    module: str | None = None
    version: str | None = None

    @property
    def kernel(self) -> KernelRef:
        """Return the repo as a kernel.

        :raises MatrixMistakesError: a name is invalid.
        :raises MatrixError: the version is invalid.
        """
        place: dict[str, str | None] = {"path": self.repo}
        if self.repo.startswith(_HUB):
            hub, _, revision = self.repo.removeprefix(_HUB).partition("@")
            place = {"hub": hub, "revision": revision or _DEFAULT_REVISION}
        try:
            if self.version is not None:
                public_version(self.version)
        except ValueError as error:
            raise MatrixError(str(error), where=Place(file="version")) from None
        return check_kernel(place | {"distribution": self.distribution, "module": self.module})

    @property
    def short_name(self) -> str:
        """Return the last part of the repo's name."""
        return str(self.kernel.hub or self.kernel.path).rstrip("/").rpartition("/")[2]

    def select(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the selected variants.

        :raises SelectionError: a glob matches no variant, or none is left.
        """
        remedy = f"choose from: {', '.join(names[:_MAX_LISTED])}"
        for pattern in (*self.run.only, *self.run.skip):
            if not any(matches_glob(pattern, name) for name in names):
                raise SelectionError(f"{pattern!r} matches no variant", remedy=remedy)
        wanted = {name for name in names if any(matches_glob(glob, name) for glob in self.run.only or ("*",))}
        kept = tuple(name for name in names if name in wanted and not any(matches_glob(g, name) for g in self.run.skip))
        if not kept:
            raise SelectionError("the selection leaves no variant", remedy=remedy)
        return kept


def prepare_repack(
    request: RepackRequest, listen: Listener = log_notices
) -> tuple[Prepared, tuple[VariantResult, ...]]:
    """Read the builds of a repo, and plan a wheel for each usable one.

    :param listen: receives notices and the progress of downloads; by default notices go to ``logging``.
    :return: the planned run, and an answer for every variant.
    :raises WheelsmithError: the repo or the machine cannot be used, or the wheels have no name.
    """
    kernel = request.kernel
    builds = read_builds(kernel, Path(request.repo), kernel.revision)
    if not builds.names:
        remedy = "name a folder with build/<variant>/ in it, or a Hub repo as hub:org/name; or wheelsmith build-matrix"
        raise SourceError(f"{request.repo} has no build folder", remedy=remedy)
    usable, answers = usable_variants(request.select(builds.names))
    run, trusted = request.run, kernel.hub is None
    engine = choose(run.engine or AUTO, images=frozenset({None}), trusted=trusted, cache=run.cache).engine
    if size := sum(builds.sizes.get(name, 0) for name in usable):
        text = f"{counted(len(usable), 'variant')} of {kernel.hub} to fetch: {show_size(size)}"
        listen(Notice(level="info", text=text))
    # Read all variants of a local folder, because the index keeps earlier wheels only if their source is still there.
    trees = builds.fetch(usable if kernel.hub else usable_variants(builds.names)[0])
    folders: list[BuildFolder] = []
    for name, variant in usable.items():
        try:
            if isinstance(tree := trees[name], SourceError):
                raise tree
            folders.append(read_folder(variant, tree, fallback=request.short_name, module=request.module))
        except SourceError as error:
            answers.append(VariantResult(variant=name, reason=str(error), refused=True))
    names = _wheel_names(folders, request, listen) if folders else None
    image = engine.build_host(None).image if engine.has_images else None
    planned = plan_folders(folders, names, image) if names else FolderPlans()
    prepared = _make_prepared(request, builds, trees, engine, names, planned)
    return prepared, tuple(sorted((*answers, *planned.results), key=lambda answer: answer.variant))


def _make_prepared(
    request: RepackRequest,
    builds: BuildTrees,
    trees: Mapping[str, SourceTree | SourceError],
    engine: Engine,
    names: WheelNames | None,
    planned: FolderPlans,
) -> Prepared:
    read = {name: tree for name, tree in trees.items() if isinstance(tree, SourceTree)}
    used = {plan.source.tree for plan in planned.plans}
    kernel = request.kernel
    serving = usable_variants(builds.names)[0].values()
    cells = tuple(sorted({cell.id for variant in serving for cell in cells_of(variant)}))
    matrix = Matrix(kernel=kernel, version=request.version, releases=(), computes=(), arch=())
    return Prepared(
        request=request.run,
        matrix=matrix,
        kernel=f"{kernel.hub} @{builds.commit[:7]}" if builds.commit else request.short_name,
        distribution=names.distribution if names else None,
        version=names.version if names else None,
        cells=cells,
        offered=cells,
        source=merge_trees([tree for tree in read.values() if tree.id.tree in used], builds.source),
        spec=None,
        trees=tuple(sorted({tree.id.tree for tree in read.values()})),
        commit=builds.commit,
        variants=matrix.output.variants,
        matrix_sha256=None,
        engine=engine,
        plans=planned.plans,
        excluded=(),
        not_folded={},
        out=(request.run.out or Path(_DEFAULT_OUT)).absolute(),
    )


def _wheel_names(folders: Sequence[BuildFolder], request: RepackRequest, listen: Listener) -> WheelNames:
    """Return the name and version of the wheels. All builds of a repo are of one kernel at one version.

    :param listen: receives a warning about missing metadata.
    :raises MatrixError: the builds have no name or version or different ones, or the name belongs to another project.
    """
    modules = sorted({folder.package.module for folder in folders})
    if len(modules) > 1:
        raise MatrixError(
            f"its builds are of several kernels: {listed(modules)}", remedy="choose the builds of one: --only GLOB"
        )
    version = str(Version(request.version)) if request.version else _common_version(folders)
    name, hub = modules[0].replace("_", "-"), request.kernel.hub
    own = unique_name(hub or f"{name}-kernel")
    if why := find_name_conflict(name, distribution=request.distribution, module=request.module or modules[0]):
        options = [] if request.distribution else [f"--distribution {own}"]
        options.append(f"--module {own.replace('-', '_')}")
        raise MatrixError(why, remedy=f"choose other names: {' '.join(options)}")
    distribution = request.distribution or name
    try:
        canonicalize_name(distribution, validate=True)
    except InvalidName:
        raise MatrixError(f"{name!r} is not a project's name", remedy="choose one: --distribution NAME") from None
    for notice in name_notices(name, f"--distribution {own}") if request.distribution is None else ():
        listen(notice)
    if without_metadata := [folder.variant.name for folder in folders if folder.facts == BuildFacts()]:
        summary = f"{counted(len(without_metadata), 'variant')} without {METADATA}, such as {without_metadata[0]}"
        text = f"{summary}: their licences and their requirements, except the framework, are unknown"
        listen(Notice(level="warning", text=text))
    return WheelNames(distribution=distribution, version=version, module=request.module or modules[0], repo=hub)


def _common_version(folders: Sequence[BuildFolder]) -> str:
    versions = sorted({folder.facts.version for folder in folders if folder.facts.version is not None})
    if len(versions) == 1:
        return str(versions[0])
    why = f"different versions: {listed(list(map(str, versions)))}" if versions else f"no version in any {METADATA}"
    raise MatrixError(f"its builds have {why}", remedy="choose the wheels' version: --version 1")
