"""Read the build folders that become wheels, for ``repack`` and for ``builds: prefer`` in a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from wheelsmith.base.errors import SourceError
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.model import SourceId
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
from wheelsmith.plan.repack.plans import VariantResult
from wheelsmith.plan.repack.variants import HubVariant, NoWheelError, cells_of, read_variant_name
from wheelsmith.source.tree import SourceTree


def usable_variants(names: Iterable[str]) -> tuple[dict[str, HubVariant], list[VariantResult]]:
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


def merge_trees(trees: Sequence[SourceTree], source: SourceId) -> SourceTree:
    """Return one tree with the files of several build folders. Every tree contains the repo's own files.

    :param source: where they are from; its digest is ignored.
    """
    files = {file.path: file for tree in trees for file in tree.files}
    digest = canonical_digest(sorted(tree.id.tree for tree in trees))
    return SourceTree(id=replace(source, tree=digest), files=tuple(files[path] for path in sorted(files)))


def read_folder(variant: HubVariant, tree: SourceTree, *, fallback: str, module: str | None) -> BuildFolder:
    """Read the files and the metadata of a build folder.

    :param fallback: the kernel's name if no file in the folder contains it.
    :param module: the import name of the wheel; None for the kernel's own.
    :raises SourceError: its files do not match its metadata, or cannot be imported.
    """
    root = f"build/{variant.name}/"
    hashes = {file.path.removeprefix(root): file.sha256 for file in tree.files if file.path.startswith(root)}

    def read(path: str) -> bytes:
        return tree.read_bytes(root + path)

    facts = read_build_facts(read(METADATA)) if METADATA in hashes else BuildFacts()
    package = built_package(sorted(hashes), name=facts.name, fallback=fallback, read=read)
    check_digests(facts, hashes, package.files.values())
    if facts.backend is not None and facts.backend not in variant.backends:
        raise SourceError(f"{METADATA} has another backend: {facts.backend}")
    if module not in {None, package.module}:
        for path in package.files.values():
            if path.endswith(".py") and may_import(read(path), package.module):
                raise SourceError(f"it cannot be renamed to {module}: {path} imports {package.module} by name")
    return BuildFolder(
        variant=variant,
        facts=facts,
        package=package,
        source=KernelSource(id=tree.id, paths=tree.paths, readme=_readme(tree)),
        hashes=hashes,
    )


def _readme(tree: SourceTree) -> str | None:
    with suppress(SourceError):
        return tree.read_text(tree.readme) if tree.readme else None
    return None
