"""What a Hub repo, or a folder like one, already has built: ``build/<variant>/``, each a checked tree of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wheelsmith.base.errors import SourceError
from wheelsmith.base.sanitize import visible
from wheelsmith.plan.recipe.recipe import is_licence
from wheelsmith.source.tree import FoundFile, SourceTree, make_tree, walk

BUILD = "build"
_MOST_VARIANTS = 1000
_README = "README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTrees:
    """The build folders of a repo.

    :param origin: ``hub:org/name`` or ``path``.
    :param revision: what was asked for; None for a folder.
    :param commit: what that named; None for a folder.
    :param names: every build folder, sorted.
    :param sizes: bytes that each would take to fetch; nothing of a folder.
    :param fetch: gives the files of some of them, or why they cannot be used.
    """

    origin: str
    revision: str | None
    commit: str | None
    names: tuple[str, ...]
    sizes: Mapping[str, int]
    fetch: Callable[[Iterable[str]], Mapping[str, SourceTree | SourceError]]


def read_build_folder(root: Path) -> BuildTrees:
    """Return the build folders of a folder; links in them are followed only within it.

    :raises SourceError: there is no such folder, or it has none of them.
    """
    folder = root / BUILD
    if folder.is_symlink():
        raise SourceError(f"{folder} is a link; wheelsmith follows none")
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.is_file(follow_symlinks=False))
    except OSError as error:
        raise SourceError(
            f"{folder} cannot be read: {error.strerror}",
            remedy="name a folder with build/<variant>/ in it, or a Hub repo as hub:org/name",
        ) from None
    check_count(len(names), str(root))
    real = root.resolve()
    along = tuple(_along(real))

    def fetch(chosen: Iterable[str]) -> dict[str, SourceTree | SourceError]:
        return {name: tree_or_error(partial(_local, real, name, along)) for name in chosen}

    return BuildTrees(origin="path", revision=None, commit=None, names=tuple(names), sizes={}, fetch=fetch)


def comes_along(path: str) -> bool:
    """Say whether a file of the repo's own goes into wheels: what it says of its licence, and to people."""
    return path == _README or is_licence(path)


def check_count(count: int, where: str) -> None:
    """Refuse more build folders than any kernel has.

    :raises SourceError: there are more, or none.
    """
    if count > _MOST_VARIANTS:
        raise SourceError(f"{where} has more than {_MOST_VARIANTS} build folders")
    if not count:
        raise SourceError(f"{where} has no build folder", remedy="build it: wheelsmith build-matrix")


def tree_or_error(read: Callable[[], SourceTree]) -> SourceTree | SourceError:
    """Return a tree, or why it cannot be used."""
    try:
        return read()
    except SourceError as error:
        return error


def _local(root: Path, name: str, along: tuple[FoundFile, ...]) -> SourceTree:
    top = root / BUILD / name
    if top.is_symlink() or not top.is_dir():
        raise SourceError(f"{BUILD}/{visible(name)} is no folder")
    return make_tree((*_files(root, name), *along), origin="path")


def _files(root: Path, name: str) -> Iterator[FoundFile]:
    for file in walk(root / BUILD / name, within=root):
        yield FoundFile(path=f"{BUILD}/{name}/{file.path}", real=file.real)


def _along(root: Path) -> Iterator[FoundFile]:
    def is_along(path: str, entry: os.DirEntry[str]) -> bool:
        return comes_along(path) and Path(entry.path).is_file()

    for file in walk(root, is_along):
        yield FoundFile(path=file.path, real=file.real)
