"""The build folders of a Hub repo: listed first, then those that are wanted are fetched, each within bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wheelsmith.base.errors import SourceError
from wheelsmith.base.sanitize import visible
from wheelsmith.source.builds import BUILD, BuildTrees, check_count, comes_along, tree_or_error
from wheelsmith.source.hub import explained, find_commit, repo_folder
from wheelsmith.source.tree import MOST_BYTES, MOST_FILES, FoundFile, SourceTree, check_path, follow, make_tree

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_MOST_LISTED = 200_000
_MOST_FETCHED = 32 << 30  # bytes
_PLAIN = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A file as the Hub lists it; of a large one it knows the sha256."""

    path: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repo:
    """A repo at a commit: its files by the build folder that they are in; those beside them that come along."""

    api: HfApi
    name: str
    kind: str
    revision: str
    commit: str
    builds: dict[str, list[_Listed]]
    along: list[_Listed]

    def fetch(self, chosen: Iterable[str]) -> dict[str, SourceTree | SourceError]:
        """Fetch the build folders that can be used, all at once."""
        found: dict[str, SourceTree | SourceError] = {}
        wanted = []
        for name in chosen:
            if why := _why_not(name, [*self.builds[name], *self.along]):
                found[name] = why
            else:
                wanted.append(name)
        if sum(file.size for name in wanted for file in self.builds[name]) > _MOST_FETCHED:
            raise SourceError(
                f"the builds of {self.name} are larger than {_MOST_FETCHED >> 30} GiB together",
                remedy="choose some: --only GLOB",
            )
        if wanted:
            root = explained(self.name, self.revision, lambda: self._download(wanted))
            found |= {name: tree_or_error(partial(self._tree, root, name)) for name in wanted}
        return found

    def _download(self, names: list[str]) -> Path:
        patterns = [f"{BUILD}/{name}/*" for name in names] + [glob_of(file.path) for file in self.along]
        return Path(
            self.api.snapshot_download(self.name, revision=self.commit, repo_type=self.kind, allow_patterns=patterns)
        )

    def _tree(self, root: Path, name: str) -> SourceTree:
        listed = [*self.builds[name], *self.along]
        found = make_tree(
            (FoundFile(path=file.path, real=follow(file.path, root / file.path, repo_folder(root))) for file in listed),
            origin=f"hub:{self.name}",
            revision=self.revision,
            commit=self.commit,
        )
        known = {file.path: file for file in listed}
        for file in found.files:
            if file.size != known[file.path].size or known[file.path].sha256 not in {None, file.sha256}:
                raise SourceError(
                    f"{visible(file.path)} is not the file that the Hub lists",
                    remedy="remove the repo from the Hub cache (hf cache delete), and run the same command again",
                )
        return found


def glob_of(path: str) -> str:
    """Return the glob that matches one path alone."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def read_hub_builds(repo: str, revision: str) -> BuildTrees:
    """Return the build folders that a repo has at the commit that ``revision`` names now; none is fetched yet.

    :raises SourceError: the repo cannot be had, or has none of them.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    if HF_HUB_OFFLINE:
        raise SourceError(
            "which builds a repo has only the Hub knows, and it is switched off (HF_HUB_OFFLINE)",
            remedy=f"hf download {repo} --revision {revision} --local-dir DIR while online, then: "
            "wheelsmith repack DIR",
        )
    found = explained(repo, revision, lambda: _listed(HfApi(library_name="wheelsmith"), repo, revision))
    return BuildTrees(
        origin=f"hub:{repo}",
        revision=revision,
        commit=found.commit,
        names=tuple(sorted(found.builds)),
        sizes={name: sum(file.size for file in files) for name, files in found.builds.items()},
        fetch=found.fetch,
    )


def _listed(api: HfApi, repo: str, revision: str) -> _Repo:
    kind, commit = find_commit(api, repo, revision)
    builds: dict[str, list[_Listed]] = {}
    along = []
    for file in _files(api, repo, commit, kind):
        top, _, rest = file.path.partition("/")
        if top == BUILD and "/" in rest:
            builds.setdefault(rest.partition("/")[0], []).append(file)
        elif comes_along(file.path):
            along.append(file)
    check_count(len(builds), repo)
    return _Repo(api=api, name=repo, kind=kind, revision=revision, commit=commit, builds=builds, along=along)


def _files(api: HfApi, repo: str, commit: str, kind: str) -> Iterator[_Listed]:
    from huggingface_hub.hf_api import RepoFile

    entries = api.list_repo_tree(repo, recursive=True, revision=commit, repo_type=kind)
    for count, entry in enumerate(entries):
        if count > _MOST_LISTED:
            raise SourceError(f"{repo} has more than {_MOST_LISTED} files")
        if isinstance(entry, RepoFile):
            yield _Listed(path=entry.path, size=entry.size, sha256=entry.lfs.sha256 if entry.lfs else None)


def _why_not(name: str, files: list[_Listed]) -> SourceError | None:
    """Refuse a hostile folder before any of it is fetched."""
    if not _PLAIN.fullmatch(name):
        return SourceError(f"{visible(name[:80])!r} is no name of a variant")
    try:
        for file in files:
            check_path(file.path)
    except SourceError as error:
        return error
    if len(files) > MOST_FILES or sum(file.size for file in files) > MOST_BYTES:
        return SourceError(f"it has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB")
    return None
