"""A repo's builds thought through: read, named and planned, with an answer for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import SourceError
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.base.units import counted, show_size
from wheelsmith.engine import Engine, choose
from wheelsmith.matrix import Matrix
from wheelsmith.model import Listener, Notice, SourceId, log_notices
from wheelsmith.model.build_host import AUTO
from wheelsmith.plan.repack import (
    BuildFolder,
    FolderPlans,
    HubVariant,
    NoWheelError,
    VariantAnswer,
    WheelNames,
    cells_of,
    plan_folders,
    read_variant_name,
)
from wheelsmith.run.prepare import Prepared
from wheelsmith.run.repack.folders import names_of, read_folder_of
from wheelsmith.run.repack.request import RepackRequest
from wheelsmith.source import BuildTrees, SourceTree, read_build_folder, read_hub_builds

_OUT = "dist"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRepack:
    """What will be made of a repo's builds, and an answer for every variant that was asked for."""

    prepared: Prepared
    variants: tuple[VariantAnswer, ...]


def prepare_repack(request: RepackRequest, listen: Listener = log_notices) -> PreparedRepack:
    """Read the builds of a repo, and plan a wheel of each that wheels can be made of.

    :param listen: hears of what is worth knowing meanwhile.
    :raises WheelsmithError: the repo or the machine is not fit for it, or nobody says what the wheels are called.
    """
    kernel = request.kernel
    builds = read_hub_builds(kernel.hub, str(kernel.revision)) if kernel.hub else read_build_folder(Path(request.repo))
    known, answers = _by_name(request.select(builds.names))
    run, trusted = request.run, kernel.hub is None
    engine = choose(run.engine or AUTO, images=frozenset({None}), trusted=trusted, cache=run.cache).engine
    if size := sum(builds.sizes.get(name, 0) for name in known):
        said = f"{counted(len(known), 'variant')} of {kernel.hub} to fetch: {show_size(size)}"
        listen(Notice(level="info", text=said))
    # A folder is hashed as a whole: wheels that an earlier run made of it stay as long as it holds what they do.
    trees = builds.fetch(known if kernel.hub else _by_name(builds.names)[0])
    folders: list[BuildFolder] = []
    for name, variant in known.items():
        try:
            folders.append(read_folder_of(variant, _usable(trees[name]), request))
        except SourceError as error:
            answers.append(VariantAnswer(variant=name, reason=str(error), refused=True))
    names = names_of(folders, request, listen) if folders else None
    image = engine.build_host(None).image if engine.has_images else None
    planned = plan_folders(folders, names, image) if names else FolderPlans()
    return PreparedRepack(
        prepared=_prepared(request, builds, trees, engine, names, planned),
        variants=tuple(sorted((*answers, *planned.answers), key=lambda answer: answer.variant)),
    )


def _by_name(names: Iterable[str]) -> tuple[dict[str, HubVariant], list[VariantAnswer]]:
    """Return what wheels can be made of, and why not of the rest."""
    known: dict[str, HubVariant] = {}
    answers = []
    for name in names:
        try:
            variant = read_variant_name(name)
            cells_of(variant)
        except NoWheelError as reason:
            answers.append(VariantAnswer(variant=name, reason=str(reason)))
        else:
            known[name] = variant
    return known, answers


def _usable(tree: SourceTree | SourceError) -> SourceTree:
    if isinstance(tree, SourceError):
        raise tree
    return tree


def _prepared(
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
    serving = _by_name(builds.names)[0].values()
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
        source=_together(builds, [tree for tree in read.values() if tree.id.tree in used]),
        trees=tuple(sorted({tree.id.tree for tree in read.values()})),
        commit=builds.commit,
        variants=matrix.output.variants,
        matrix_sha256=None,
        engine=engine,
        plans=planned.plans,
        excluded=(),
        not_folded={},
        out=(request.run.out or Path(_OUT)).absolute(),
    )


def _together(builds: BuildTrees, trees: Sequence[SourceTree]) -> SourceTree:
    """Return all the files that wheels are made of; those of the repo itself are in each tree."""
    files = {file.path: file for tree in trees for file in tree.files}
    tree = canonical_digest(sorted(tree.id.tree for tree in trees))
    source = SourceId(origin=builds.origin, revision=builds.revision, commit=builds.commit, tree=tree)
    return SourceTree(id=source, files=tuple(files[path] for path in sorted(files)))
