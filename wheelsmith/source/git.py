"""Read a kernel or project from a git repository or one of its folders, including submodules."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from filelock import FileLock

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import SourceError
from wheelsmith.base.files import mark_used
from wheelsmith.base.git_address import (
    GitAddress,
    check_revision,
    check_subfolder,
    parse_git_address,
    parse_submodule_address,
)
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.matrix.types import KernelRef
from wheelsmith.model import Listener, SourceId
from wheelsmith.plan.recipe.project import PROJECT_FILES
from wheelsmith.source.cached import find_cached, make_cached
from wheelsmith.source.git_repository import GitError, Repository
from wheelsmith.source.names import is_never_source
from wheelsmith.source.tree import FoundFile, SourceTree, check_path, walk

# A kernel or project has one of these files at its top.
_PROJECT_MARKERS = ("build.toml", *PROJECT_FILES)
_NAMES_SHOWN = 5
_MAX_SUBMODULES = 100


def read_git(kernel: KernelRef, *, base: Path, cache: Path, listen: Listener) -> SourceTree:
    """Return the files of a repository or one of its folders, at the current commit of the revision.

    :param base: the folder for relative paths.
    :param cache: the cache for fetched repositories.
    :param listen: receives the progress of downloads.
    :raises SourceError: the source cannot be fetched or is refused.
    """
    address, kernel = parse_address(kernel, base)
    place = address.text if address.is_local else address.shown
    folder = cache / "git" / sha256(place.encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        mark_used(folder)
        reader = _Reader(kernel=kernel, address=address, folder=folder, cache=cache, listen=listen)
        try:
            return reader.read(place)
        except GitError:
            # The repository in the cache may be damaged, so fetch it again.
            remove_tree(folder)
            folder.mkdir()
        try:
            return reader.read(place)
        except GitError as error:
            remedy = "for details, run git fsck in a clone"
            raise SourceError(f"{address.shown} cannot be read: {error}", remedy=remedy) from None


def parse_address(kernel: KernelRef, base: Path) -> tuple[GitAddress, KernelRef]:
    """Return the address of the repository, and the kernel with a checked revision and subfolder.

    The address of a local folder becomes absolute.
    """
    try:
        revision = check_revision(kernel.revision or "")
        folder = check_subfolder(kernel.subdirectory) if kernel.subdirectory else None
        address = parse_git_address(kernel.git or "")
    except ValueError as error:
        raise SourceError(str(error)) from None
    if address.is_local and "://" not in address.text:
        path = (base / address.text).absolute()
        if not path.exists():
            raise SourceError(f"there is no git repository {path}", remedy="fix kernel.git in matrix.yaml")
        address = replace(address, text=str(path))
    return address, replace(kernel, revision=revision, subdirectory=folder)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads the source of one kernel.

    :param folder: the kernel's repositories in the cache. This process holds their lock.
    :param modules: the paths of all submodules that were found.
    """

    kernel: KernelRef
    address: GitAddress
    folder: Path
    cache: Path
    listen: Listener
    modules: set[str] = field(default_factory=set)

    def read(self, place: str) -> SourceTree:
        """Return the source.

        :param place: the address without credentials, which is part of the key in the cache.
        :raises SourceError: the source cannot be fetched or is refused.
        :raises GitError: a repository in the cache is damaged.
        """
        kernel, revision = self.kernel, str(self.kernel.revision)
        below = f"#subdirectory={kernel.subdirectory}" if kernel.subdirectory else ""

        def named(commit: str) -> tuple[str, Path, SourceId]:
            key = canonical_digest(["git 2", place, commit, kernel.subdirectory, kernel.submodules])
            origin = f"git:{self.address.shown}{below}"
            return key, self.cache, SourceId(origin=origin, revision=revision, commit=commit, tree="")

        if found := find_cached(*named(revision)):
            return found  # the revision is a commit in the cache
        repository = Repository(address=self.address, folder=self.folder / "repository.git", listen=self.listen)
        commit = repository.fetch(revision)
        return make_cached(*named(commit), lambda scratch: self._files(repository, commit, scratch / "checkout"))

    def _files(self, repository: Repository, commit: str, top: Path) -> Iterator[FoundFile]:
        """Check out a commit with its submodules, and return the files of the source."""
        self.modules.clear()
        top.mkdir()
        todo = [("", repository, commit)]
        while todo:
            todo += self._check_out(*todo.pop(), top)
        if missing := next((path for path in self.kernel.submodules or () if path not in self.modules), None):
            there = f"it has {', '.join(sorted(self.modules)[:_NAMES_SHOWN])}" if self.modules else "it has none"
            raise SourceError(f"the repository has no submodule {missing}", remedy=f"fix kernel.submodules: {there}")
        root = top / (self.kernel.subdirectory or "")
        if not any(os.path.lexists(root / name) for name in _PROJECT_MARKERS):
            raise self._no_project_error(top)
        # In kernel-builder layout, this folder contains the published builds.
        built = ["build"] if os.path.lexists(root / "build.toml") else []
        return walk(root, lambda path, entry: not is_never_source(path, entry, built=built), within=top)

    def _check_out(
        self, prefix: str, repository: Repository, commit: str, top: Path
    ) -> list[tuple[str, Repository, str]]:
        """Check out one repository. Return the (prefix, repository, commit) of its wanted submodules."""
        folder = top / prefix
        # The parent repository may have a link at this path.
        if folder.resolve() != top.resolve() / prefix:
            raise SourceError(f"submodule {prefix} is below a link")
        commits = repository.check_out(commit, folder)
        self.modules |= {f"{prefix}{path}" for path in commits}
        if len(self.modules) > _MAX_SUBMODULES:
            raise SourceError(f"the repository has more than {_MAX_SUBMODULES} submodules", remedy=self._source_key())
        wanted = {path: commit for path, commit in commits.items() if self._is_wanted(f"{prefix}{path}")}
        addresses = repository.submodules(commit) if wanted else {}
        return [
            (f"{prefix}{path}/", *self._fetch_commit(f"{prefix}{path}", repository, addresses.get(path), commit))
            for path, commit in wanted.items()
            if addresses.get(path) != ""
        ]

    def _fetch_commit(self, path: str, parent: Repository, address: str | None, commit: str) -> tuple[Repository, str]:
        """Fetch a submodule. Return its repository and its commit."""
        check_path(path)
        try:
            place = parse_submodule_address(parent.address, address or "")
            folder = self.folder / f"{sha256(place.shown.encode()).hexdigest()[:32]}.git"
            repository = Repository(address=place, folder=folder, listen=self.listen)
            return repository, repository.fetch(commit)
        except (SourceError, ValueError) as error:
            own = f"{error.remedy}; or " if isinstance(error, SourceError) and error.remedy else ""
            why = error if address else ".gitmodules has no address for it"
            raise SourceError(f"submodule {path}: {why}", remedy=own + self._source_key()) from None

    def _is_wanted(self, submodule: str) -> bool:
        """Return True if a submodule is needed.

        The matrix names the submodules. If it names none, those that overlap the source's folder are needed.
        """

        def touches(other: str) -> bool:
            return f"{submodule}/".startswith(f"{other}/") or f"{other}/".startswith(f"{submodule}/")

        if self.kernel.submodules is not None:
            return any(map(touches, self.kernel.submodules))
        return self.kernel.subdirectory is None or touches(self.kernel.subdirectory)

    def _source_key(self) -> str:
        """Return the remedy that explains how to fetch fewer submodules."""
        some = ", ".join(sorted(self.modules)[:_NAMES_SHOWN])
        needed = f"list the needed submodules under kernel: submodules: [{some}], or submodules: false"
        return f"{needed}; with wheelsmith init, use --submodules"

    def _no_project_error(self, top: Path) -> SourceError:
        """Return the error for a folder without kernel. Its remedy suggests folders with one."""
        folders = (Path(folder).relative_to(top) for folder, _, files in os.walk(top) if {*_PROJECT_MARKERS} & {*files})
        shown = ", ".join(map(str, sorted(folders, key=lambda path: (len(path.parts), path))[:_NAMES_SHOWN]))
        below = self.kernel.subdirectory
        return SourceError(
            f"there is no {' and no '.join(_PROJECT_MARKERS)} in "
            + (f"{below} in the repository" if below else "the top of the repository"),
            remedy=f"name the folder of the kernel under kernel: subdirectory, such as {shown}" if shown else None,
        )
