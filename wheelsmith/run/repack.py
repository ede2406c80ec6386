"""Prepare wheels from the builds in a Hub repo, with a reason for each build that cannot become a wheel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MatrixError, Place, SelectionError, SourceError
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.base.units import counted, listed, show_size
from wheelsmith.engine import Engine, choose
from wheelsmith.matrix.expand import matches_glob
from wheelsmith.matrix.load import check_kernel
from wheelsmith.matrix.types import KernelRef, Matrix
from wheelsmith.matrix.values import public_version
from wheelsmith.model import Listener, Notice, SourceId, log_notices
from wheelsmith.model.build_host import AUTO
from wheelsmith.plan.kernel import WheelNames
from wheelsmith.plan.pypi_names import find_name_conflict, unique_name
from wheelsmith.plan.recipe.recipe import KernelSource
from wheelsmith.plan.recipe.static_setup_metadata import may_import
from wheelsmith.plan.repack.folders import (
    METADATA,
    BuildFacts,
    BuildFolder,
    built_package,
    check_digests,
    read_build_facts,
)
from wheelsmith.plan.repack.plans import FolderPlans, VariantResult, plan_folders
from wheelsmith.plan.repack.variants import HubVariant, NoWheelError, cells_of, read_variant_name
from wheelsmith.run.prepare import Prepared, Request
from wheelsmith.run.project_source import name_notices
from wheelsmith.source.builds import BuildTrees, read_build_folder, read_hub_builds
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
    builds = read_hub_builds(kernel.hub, str(kernel.revision)) if kernel.hub else read_build_folder(Path(request.repo))
    usable, answers = _usable_variants(request.select(builds.names))
    run, trusted = request.run, kernel.hub is None
    engine = choose(run.engine or AUTO, images=frozenset({None}), trusted=trusted, cache=run.cache).engine
    if size := sum(builds.sizes.get(name, 0) for name in usable):
        text = f"{counted(len(usable), 'variant')} of {kernel.hub} to fetch: {show_size(size)}"
        listen(Notice(level="info", text=text))
    # Read all variants of a local folder, because the index keeps earlier wheels only if their source is still there.
    trees = builds.fetch(usable if kernel.hub else _usable_variants(builds.names)[0])
    folders: list[BuildFolder] = []
    for name, variant in usable.items():
        try:
            if isinstance(tree := trees[name], SourceError):
                raise tree
            folders.append(_read_folder(variant, tree, request))
        except SourceError as error:
            answers.append(VariantResult(variant=name, reason=str(error), refused=True))
    names = _wheel_names(folders, request, listen) if folders else None
    image = engine.build_host(None).image if engine.has_images else None
    planned = plan_folders(folders, names, image) if names else FolderPlans()
    prepared = _make_prepared(request, builds, trees, engine, names, planned)
    return prepared, tuple(sorted((*answers, *planned.results), key=lambda answer: answer.variant))


def _usable_variants(names: Iterable[str]) -> tuple[dict[str, HubVariant], list[VariantResult]]:
    """Return the variants that can become wheels, and answers with reasons for the others."""
    usable: dict[str, HubVariant] = {}
    answers = []
    for name in names:
        try:
            variant = read_variant_name(name)
            cells_of(variant)
        except NoWheelError as reason:
            answers.append(VariantResult(variant=name, reason=str(reason)))
        else:
            usable[name] = variant
    return usable, answers


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
    serving = _usable_variants(builds.names)[0].values()
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
        source=_merge_trees(builds, [tree for tree in read.values() if tree.id.tree in used]),
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


def _merge_trees(builds: BuildTrees, trees: Sequence[SourceTree]) -> SourceTree:
    """Return one tree with the files of all wheels. Every tree contains the repo's own files."""
    files = {file.path: file for tree in trees for file in tree.files}
    tree = canonical_digest(sorted(tree.id.tree for tree in trees))
    source = SourceId(origin=builds.origin, revision=builds.revision, commit=builds.commit, tree=tree)
    return SourceTree(id=source, files=tuple(files[path] for path in sorted(files)))


def _read_folder(variant: HubVariant, tree: SourceTree, request: RepackRequest) -> BuildFolder:
    """Read the files and the metadata of a build folder.

    :raises SourceError: its files do not match its metadata, or cannot be imported.
    """
    root = f"build/{variant.name}/"
    hashes = {file.path.removeprefix(root): file.sha256 for file in tree.files if file.path.startswith(root)}

    def read(path: str) -> bytes:
        return tree.read_bytes(root + path)

    facts = read_build_facts(read(METADATA)) if METADATA in hashes else BuildFacts()
    package = built_package(sorted(hashes), name=facts.name, fallback=request.short_name, read=read)
    check_digests(facts, hashes, package.files.values())
    if facts.backend is not None and facts.backend not in variant.backends:
        raise SourceError(f"{METADATA} has another backend: {facts.backend}")
    if request.module not in {None, package.module}:
        for path in package.files.values():
            if path.endswith(".py") and may_import(read(path), package.module):
                raise SourceError(f"it cannot be renamed to {request.module}: {path} imports {package.module} by name")
    return BuildFolder(
        variant=variant,
        facts=facts,
        package=package,
        source=KernelSource(id=tree.id, paths=tree.paths, readme=_readme(tree)),
        hashes=hashes,
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


def _readme(tree: SourceTree) -> str | None:
    with suppress(SourceError):
        return tree.read_text(tree.readme) if tree.readme else None
    return None
