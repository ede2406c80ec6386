"""The files of a kernel or project that lies in a git repository."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache as remembered
from pathlib import Path

from wheelsmith.base.errors import SourceError
from wheelsmith.base.git_address import GitAddress, check_revision, check_subfolder, git_address
from wheelsmith.matrix import KernelRef
from wheelsmith.model import Listener
from wheelsmith.plan.lock import is_of_a_lock
from wheelsmith.plan.recipe import PROJECT_FILES
from wheelsmith.source.git.repository import DamagedError, Repository
from wheelsmith.source.git.submodules import ContentsReader, Placed, parents, repository_of
from wheelsmith.source.links import LONGEST_LINK, MOST_LINKS, LinkResolver
from wheelsmith.source.tree import MOST_BYTES, MOST_FILES, FoundFile, SourceTree, check_path, make_tree

# Where projects and kernels start; what is deeper is theirs.
_STARTS = ("build.toml", *PROJECT_FILES)
_MOST_TOLD = 5
# A matrix beside the kernel says what to build of it, and what the Hub's own builder published is no source.
_MATRIX, _PUBLISHED, _LAYOUT = "matrix.yaml", "build/", "build.toml"


def read_git(kernel: KernelRef, *, base: Path, cache: Path, listen: Listener) -> SourceTree:
    """Return a repository's files, or those of a folder in it, at the commit that the revision names now.

    :param base: the folder that a relative path starts from.
    :param cache: keeps what was fetched.
    :param listen: hears of a download.
    :raises SourceError: it cannot be had, or holds what must not be used.
    """
    address, kernel = _checked(kernel)
    repository = repository_of(_absolute(address, base), cache, listen)
    try:
        return _read(kernel, repository, cache)
    except DamagedError as damaged:
        with damaged.repository.held():
            damaged.repository.forget()
    try:
        return _read(kernel, repository, cache)
    except DamagedError as damaged:
        raise SourceError(
            f"{damaged.repository.address.shown} cannot be read: {damaged.said}",
            remedy="git fsck in a clone of it tells more",
        ) from None


def _checked(kernel: KernelRef) -> tuple[GitAddress, KernelRef]:
    """Return where the repository is, and the kernel as it may be asked for, whoever named it."""
    try:
        revision = check_revision(kernel.revision or "")
        folder = check_subfolder(kernel.subdirectory) if kernel.subdirectory else None
        return git_address(kernel.git or ""), replace(kernel, revision=revision, subdirectory=folder)
    except ValueError as error:
        raise SourceError(str(error)) from None


def _absolute(address: GitAddress, base: Path) -> GitAddress:
    if not address.is_local or "://" in address.text:
        return address
    path = (base / address.text).absolute()
    if not path.exists():
        raise SourceError(f"there is no git repository {path}", remedy="fix kernel.git in matrix.yaml")
    return replace(address, text=str(path))


def _read(kernel: KernelRef, repository: Repository, cache: Path) -> SourceTree:
    revision = str(kernel.revision)
    with repository.held():
        commit = repository.commit_of(revision)
    contents = ContentsReader(cache=cache, wanted=lambda path: _is_wanted(path, kernel))
    contents.read(repository, commit)
    _check_submodules(kernel.submodules or (), contents.modules)
    origin = f"git:{repository.address.shown}" + (f"#subdirectory={kernel.subdirectory}" if kernel.subdirectory else "")
    files = _files(contents.found, kernel.subdirectory)
    return make_tree(files, origin=origin, revision=revision, commit=commit)


def _is_wanted(submodule: str, kernel: KernelRef) -> bool:
    """Say whether a submodule is fetched: it is named, or none is, and it has part of the source."""

    def touches(path: str, other: str) -> bool:
        return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")

    if kernel.submodules is not None:
        return any(touches(submodule, named) for named in kernel.submodules)
    return kernel.subdirectory is None or touches(submodule, kernel.subdirectory)


def _check_submodules(named: Iterable[str], found: set[str]) -> None:
    if missing := next((path for path in named if path not in found), None):
        there = f"it has {', '.join(sorted(found)[:_MOST_TOLD])}" if found else "it has none"
        raise SourceError(f"the repository has no submodule {missing}", remedy=f"fix kernel.submodules: {there}")


def _files(found: dict[str, Placed], subdirectory: str | None) -> Iterator[FoundFile]:
    """Yield the files of the source, each laid out in the cache."""
    prefix = f"{subdirectory}/" if subdirectory else ""
    chosen = {path.removeprefix(prefix): path for path in found if path.startswith(prefix)}
    _check_start(chosen, found, subdirectory)
    published = _PUBLISHED if _LAYOUT in chosen else None
    kept = {
        path: whole
        for path, whole in chosen.items()
        if path != _MATRIX and not is_of_a_lock(path) and not (published and path.startswith(published))
    }
    contents = _contents(kept, found)
    if sum(found[whole].entry.size for whole in contents.values()) > MOST_BYTES:
        raise _too_much()
    _lay_out(found[whole] for whole in set(contents.values()))
    for path, whole in contents.items():
        placed = found[whole]
        real = placed.repository.blob(placed.entry.name)
        yield FoundFile(path=path, real=real, executable=placed.entry.is_executable)


def _too_much() -> SourceError:
    return SourceError(
        f"the repository is no kernel's source: more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB",
        remedy="name the folder of the kernel as subdirectory, or fewer submodules, under kernel",
    )


def _check_start(chosen: Iterable[str], found: Iterable[str], subdirectory: str | None) -> None:
    """Refuse a folder in which nothing starts, and name those in which something does."""
    if any(name in chosen for name in _STARTS):
        return
    starts = sorted({path.rpartition("/")[0] for path in found if path.rpartition("/")[2] in _STARTS} - {""})
    where = f"{subdirectory} in the repository" if subdirectory else "the top of the repository"
    told = ", ".join(sorted(starts, key=lambda path: (path.count("/"), path))[:_MOST_TOLD])
    raise SourceError(
        f"there is no {' and no '.join(_STARTS)} in {where}",
        remedy=f"name the folder of the kernel under kernel: subdirectory, such as {told}" if told else None,
    )


def _contents(kept: dict[str, str], found: dict[str, Placed]) -> dict[str, str]:
    """Return where the content of each file is; a link becomes what it leads to, a folder with all that is in it.

    :param kept: path in the source → path in the repository.
    """
    resolver = _resolver(found) if any(found[whole].entry.is_link for whole in kept.values()) else None
    everything = sorted(found) if resolver else []
    # Folders of links that many links lead to give the same ones again.
    end_of = remembered(resolver.end_of) if resolver else str
    contents: dict[str, str] = {}
    todo = list(kept.items())
    while todo:
        if len(todo) + len(contents) > MOST_FILES:
            raise _too_much()
        path, whole = todo.pop()
        if resolver is None or not found[whole].entry.is_link:
            contents[path] = whole
            continue
        end = end_of(whole)
        if end not in resolver.folders:
            contents[path] = end
            continue
        first, last = bisect_left(everything, f"{end}/"), bisect_left(everything, f"{end}0")  # 0 comes after /
        for below in everything[first:last]:
            # Links within one another come to an end where a path is too long.
            check_path(path + below.removeprefix(end))
            todo.append((path + below.removeprefix(end), below))
    return contents


def _resolver(found: dict[str, Placed]) -> LinkResolver:
    links = {path: placed for path, placed in found.items() if placed.entry.is_link}
    if len(links) > MOST_LINKS or any(placed.entry.size > LONGEST_LINK for placed in links.values()):
        raise SourceError(f"the repository has more than {MOST_LINKS} links, or longer ones than {LONGEST_LINK} bytes")
    _lay_out(links.values())
    return LinkResolver(
        links={path: _text(placed) for path, placed in links.items()},
        files=frozenset(found),
        folders=frozenset(parent for path in found for parent in parents(path)),
    )


def _text(link: Placed) -> str:
    return link.repository.blob(link.entry.name).read_bytes().decode("utf-8", "surrogateescape")


def _lay_out(items: Iterable[Placed]) -> None:
    by_repository: dict[Path, list[Placed]] = {}
    for item in items:
        by_repository.setdefault(item.repository.root, []).append(item)
    for placed in by_repository.values():
        repository = placed[0].repository
        with repository.held():
            repository.lay_out(item.entry.name for item in placed)
