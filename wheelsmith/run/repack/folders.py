"""Build folders, read as somebody else's word and held against what they say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MatrixError, SourceError
from wheelsmith.base.units import counted, listed
from wheelsmith.model import Listener, Notice
from wheelsmith.plan.pypi_names import own_name, why_not_own
from wheelsmith.plan.recipe import KernelSource, may_import
from wheelsmith.plan.repack import (
    METADATA,
    BuildFacts,
    BuildFolder,
    HubVariant,
    WheelNames,
    built_package,
    check_digests,
    read_build_facts,
)
from wheelsmith.run.repack.request import RepackRequest
from wheelsmith.source import SourceTree


def read_folder_of(variant: HubVariant, tree: SourceTree, request: RepackRequest) -> BuildFolder:
    """Read what a build folder holds and says.

    :raises SourceError: its files are not what it says, or nothing that can be imported.
    """
    root = f"build/{variant.name}/"
    hashes = {file.path.removeprefix(root): file.sha256 for file in tree.files if file.path.startswith(root)}

    def read(path: str) -> bytes:
        return tree.read_bytes(root + path)

    facts = read_build_facts(read(METADATA)) if METADATA in hashes else BuildFacts()
    package = built_package(sorted(hashes), name=facts.name, fallback=request.short_name, read=read)
    check_digests(facts, hashes, package.files.values())
    if facts.backend is not None and facts.backend not in variant.backends:
        raise SourceError(f"{METADATA} says that it is for {facts.backend}")
    if request.module not in {None, package.module}:
        for path in package.files.values():
            if path.endswith(".py") and may_import(read(path), package.module):
                raise SourceError(f"it cannot be called {request.module}: {path} imports {package.module} by that name")
    return BuildFolder(
        variant=variant,
        facts=facts,
        package=package,
        source=KernelSource(id=tree.id, paths=tree.paths, readme=_readme(tree)),
        hashes=hashes,
    )


def names_of(folders: Sequence[BuildFolder], request: RepackRequest, listen: Listener) -> WheelNames:
    """Return what the wheels are called: by one name and one version, for a repo is one kernel at one version.

    :param listen: hears of what nobody says.
    :raises MatrixError: the builds do not say it, or do not agree, or the name is another project's.
    """
    modules = sorted({folder.package.module for folder in folders})
    if len(modules) > 1:
        raise MatrixError(
            f"its builds are of {listed(modules)}: one kernel at a time", remedy="choose some: --only GLOB"
        )
    version = str(Version(request.version)) if request.version else _version(folders)
    name, hub = modules[0].replace("_", "-"), request.kernel.hub
    if why := why_not_own(name, distribution=request.distribution, module=request.module or modules[0]):
        own = own_name(hub or f"{name}-kernel")
        options = [] if request.distribution else [f"--distribution {own}"]
        options.append(f"--module {own.replace('-', '_')}")
        raise MatrixError(why, remedy=f"give it names of its own: {' '.join(options)}")
    distribution = request.distribution or name
    try:
        canonicalize_name(distribution, validate=True)
    except InvalidName:
        raise MatrixError(f"{name!r} is no project's name", remedy="name its project: --distribution NAME") from None
    if silent := [folder.variant.name for folder in folders if folder.facts == BuildFacts()]:
        said = f"{counted(len(silent), 'variant')} without {METADATA}, such as {silent[0]}"
        text = f"{said}: nobody says its licence, nor what it needs beside its framework"
        listen(Notice(level="warning", text=text))
    return WheelNames(distribution=distribution, version=version, module=request.module or modules[0], repo=hub)


def _version(folders: Sequence[BuildFolder]) -> str:
    said = sorted({folder.facts.version for folder in folders if folder.facts.version is not None})
    if len(said) == 1:
        return str(said[0])
    why = f"are of versions {listed(list(map(str, said)))}" if said else f"name no version: no {METADATA} has one"
    raise MatrixError(f"its builds {why}", remedy="name the wheels' own: --version 1")


def _readme(tree: SourceTree) -> str | None:
    with suppress(SourceError):
        return tree.read_text(tree.readme) if tree.readme else None
    return None
