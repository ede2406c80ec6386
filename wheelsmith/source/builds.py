"""Read the published builds of a Hub repo or a local folder: each ``build/<variant>/`` becomes a checked tree."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wheelsmith.base.errors import SourceError
from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import show_binary_size
from wheelsmith.matrix.types import KernelRef
from wheelsmith.model import SourceId
from wheelsmith.plan.recipe.recipe import is_licence
from wheelsmith.source.hub import check_files, explain_hub_errors, find_commit, list_files, repo_folder
from wheelsmith.source.tree import FoundFile, SourceTree, make_tree, resolve_link, walk

if TYPE_CHECKING:
    from huggingface_hub.hf_api import HfApi, RepoFile

_MAX_DOWNLOAD = 32 << 30  # bytes
_VARIANT_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]*")
BUILD = "build"
_MAX_VARIANTS = 1000
_README = "README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTrees:
    """The build folders of a Hub repo or a local folder.

    :param origin: ``hub:org/name`` or ``path``.
    :param revision: the requested revision; None for a local folder.
    :param commit: the commit of the revision; None for a local folder.
    :param names: the names of all build folders, sorted.
    :param sizes: name → bytes to download; empty for a local folder.
    :param fetch: takes names; returns for each its tree, or the error if it is refused.
    """

    origin: str
    revision: str | None
    commit: str | None
    names: tuple[str, ...]
    sizes: Mapping[str, int]
    fetch: Callable[[Iterable[str]], Mapping[str, SourceTree | SourceError]]

    @property
    def source(self) -> SourceId:
        """Return the identity of the repo or folder, without a digest of its files."""
        return SourceId(origin=self.origin, revision=self.revision, commit=self.commit, tree="")


def read_builds(kernel: KernelRef, root: Path, revision: str | None) -> BuildTrees:
    """Return the build folders of a kernel's Hub repo or local folder; there may be none.

    :param root: the local folder.
    :param revision: the revision of the Hub repo.
    :raises SourceError: they cannot be listed.
    """
    return read_hub_builds(kernel.hub, str(revision)) if kernel.hub else read_build_folder(root)


def read_build_folder(root: Path) -> BuildTrees:
    """Return the build folders in a local folder. Links must stay inside of the folder.

    :raises SourceError: the folder with the builds cannot be read.
    """
    folder = root / BUILD
    if folder.is_symlink():
        raise SourceError(f"{folder} is a link, which wheelsmith does not follow")
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.is_file(follow_symlinks=False))
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise SourceError(f"{folder} cannot be read: {error.strerror}") from None
    check_count(len(names), str(root))
    real = root.resolve()
    along = tuple(_shared_files(real)) if names else ()

    def fetch(chosen: Iterable[str]) -> dict[str, SourceTree | SourceError]:
        return {name: catch_source_error(partial(_read_variant, real, name, along)) for name in chosen}

    return BuildTrees(origin="path", revision=None, commit=None, names=tuple(names), sizes={}, fetch=fetch)


def is_shared_file(path: str) -> bool:
    """Return True if a file at the top of the repo goes into every wheel: the README and licences."""
    return path == _README or is_licence(path)


def check_count(count: int, where: str) -> None:
    """Check the number of build folders.

    :raises SourceError: there are too many.
    """
    if count > _MAX_VARIANTS:
        raise SourceError(f"{where} has more than {_MAX_VARIANTS} build folders")


def catch_source_error(read: Callable[[], SourceTree]) -> SourceTree | SourceError:
    """Return a tree, or the error if it is refused."""
    try:
        return read()
    except SourceError as error:
        return error


def _read_variant(root: Path, name: str, along: tuple[FoundFile, ...]) -> SourceTree:
    top = root / BUILD / name
    if top.is_symlink() or not top.is_dir():
        raise SourceError(f"{BUILD}/{visible(name)} is not a folder")
    return make_tree((*_files(root, name), *along), origin="path")


def _files(root: Path, name: str) -> Iterator[FoundFile]:
    for file in walk(root / BUILD / name, within=root):
        yield FoundFile(path=f"{BUILD}/{name}/{file.path}", real=file.real)


def _shared_files(root: Path) -> Iterator[FoundFile]:
    def is_along(path: str, entry: os.DirEntry[str]) -> bool:
        return is_shared_file(path) and Path(entry.path).is_file()

    for file in walk(root, is_along):
        yield FoundFile(path=file.path, real=file.real)


# --- Hub repos: list the files, then fetch the selected builds within limits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repo:
    """A Hub repo at a commit.

    :param kind: the repo type of the Hub.
    :param builds: build folder → its files.
    :param along: files that go into every wheel.
    """

    api: HfApi
    name: str
    kind: str
    revision: str
    commit: str
    builds: dict[str, list[RepoFile]]
    along: list[RepoFile]

    def fetch(self, chosen: Iterable[str]) -> dict[str, SourceTree | SourceError]:
        """Fetch the acceptable build folders in one download. Return the tree or the error of each."""
        found: dict[str, SourceTree | SourceError] = {}
        wanted = []
        for name in chosen:
            if why := _variant_error(name, [*self.builds[name], *self.along]):
                found[name] = why
            else:
                wanted.append(name)
        if sum(file.size for name in wanted for file in self.builds[name]) > _MAX_DOWNLOAD:
            raise SourceError(
                f"the selected builds of {self.name} are larger than {show_binary_size(_MAX_DOWNLOAD)} in total",
                remedy="select fewer: --only GLOB",
            )
        if wanted:
            root = explain_hub_errors(self.name, self.revision, lambda: self._download(wanted))
            found |= {name: catch_source_error(partial(self._tree, root, name)) for name in wanted}
        return found

    def _download(self, names: list[str]) -> Path:
        patterns = [f"{BUILD}/{name}/*" for name in names] + [escape_glob(file.path) for file in self.along]
        return Path(
            self.api.snapshot_download(self.name, revision=self.commit, repo_type=self.kind, allow_patterns=patterns)
        )

    def _tree(self, root: Path, name: str) -> SourceTree:
        listed = [*self.builds[name], *self.along]
        found = make_tree(
            (
                FoundFile(path=file.path, real=resolve_link(file.path, root / file.path, repo_folder(root)))
                for file in listed
            ),
            origin=f"hub:{self.name}",
            revision=self.revision,
            commit=self.commit,
        )
        known = {file.path: file for file in listed}
        for file in found.files:
            lfs = known[file.path].lfs  # the Hub lists the sha256 only of large files
            if file.size != known[file.path].size or (lfs and lfs.sha256 != file.sha256):
                raise SourceError(
                    f"{visible(file.path)} differs from the file that the Hub lists",
                    remedy="remove the repo from the Hub cache (hf cache delete), and run the same command again",
                )
        return found


def escape_glob(path: str) -> str:
    """Return a glob that matches exactly one path."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def read_hub_builds(repo: str, revision: str) -> BuildTrees:
    """Return the build folders of a Hub repo at the current commit of ``revision``. Nothing is fetched yet.

    :raises SourceError: the repo is not available.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    if HF_HUB_OFFLINE:
        raise SourceError(
            f"the builds of {repo} cannot be listed, because the Hub is disabled (HF_HUB_OFFLINE)",
            remedy=f"hf download {repo} --revision {revision} --local-dir DIR while online, and use that folder: "
            "wheelsmith repack DIR, or kernel: {path: DIR}",
        )
    found = explain_hub_errors(repo, revision, lambda: _list_repo(HfApi(library_name="wheelsmith"), repo, revision))
    return BuildTrees(
        origin=f"hub:{repo}",
        revision=revision,
        commit=found.commit,
        names=tuple(sorted(found.builds)),
        sizes={name: sum(file.size for file in files) for name, files in found.builds.items()},
        fetch=found.fetch,
    )


def _list_repo(api: HfApi, repo: str, revision: str) -> _Repo:
    kind, commit = find_commit(api, repo, revision)
    builds: dict[str, list[RepoFile]] = {}
    along = []
    for file in list_files(api, repo, commit, kind):
        top, _, rest = file.path.partition("/")
        if top == BUILD and "/" in rest:
            builds.setdefault(rest.partition("/")[0], []).append(file)
        elif is_shared_file(file.path):
            along.append(file)
    check_count(len(builds), repo)
    return _Repo(api=api, name=repo, kind=kind, revision=revision, commit=commit, builds=builds, along=along)


def _variant_error(name: str, files: list[RepoFile]) -> SourceError | None:
    """Return the error for a build folder that must not be fetched, or None."""
    if not _VARIANT_NAME.fullmatch(name):
        return SourceError(f"{visible(name[:80])!r} is not a valid name of a variant")
    try:
        check_files(f"{BUILD}/{name}", files)
    except SourceError as error:
        return error
    return None
