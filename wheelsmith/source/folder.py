"""Read a kernel from a local folder: the files that git tracks, or all files if there is no repository."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from wheelsmith.base.errors import SourceError
from wheelsmith.base.files import CACHE_TAG
from wheelsmith.base.offline import VENDORED_MARK
from wheelsmith.base.redact import redact
from wheelsmith.base.sanitize import join_truncated
from wheelsmith.matrix.types import KernelRef
from wheelsmith.model import Listener, Notice, ignore
from wheelsmith.source.git_repository import GitError, list_work_tree
from wheelsmith.source.names import is_build_file, is_never_source, is_secret
from wheelsmith.source.tree import FoundFile, SourceTree, make_tree, walk

# Outputs of a run or a release.
_RUN_OUTPUTS = ("CHANGES.md", "index", "junit.xml", "logs", "report.html", "results.json", "summary.md", "wheels")
# Prefixes of the temporary names of these outputs.
_UNFINISHED = tuple(f".{name}." for name in _RUN_OUTPUTS)
# Files that mark an index, a vendored folder or a virtual environment.
_MARKS = ("_state/.listing.json", "_state/.lock", VENDORED_MARK, "pyvenv.cfg", CACHE_TAG)
# Outputs at the top of a kernel: the Hub's builds and wheelsmith's wheels.
_BUILT = ("build", "dist")
_STREAMS = (Path("/dev/stdout"), Path("/dev/stderr"))  # a shell may redirect them to files in the folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The files of this run that are not part of the source.

    :param out: the output folder.
    :param cache: the cache with toolchains and finished wheels.
    :param matrix: the file with the matrix.
    """

    out: Path
    cache: Path
    matrix: Path | None = None

    def contain(self, entry: os.DirEntry[str]) -> bool:
        """Return True if an entry of a folder belongs to this run, or is the output of an earlier one."""
        path, folder = Path(entry.path), Path(entry.path).parent
        own = (*_STREAMS, self.cache, self.matrix, self.out if entry.is_symlink() else None)
        if any(_is_same(path, other) for other in own) or any((path / name).is_file() for name in _MARKS):
            return True
        if entry.name not in _RUN_OUTPUTS and not entry.name.startswith(_UNFINISHED):
            return False
        earlier = all((folder / name).is_file() for name in ("report.html", "results.json"))
        return earlier or _is_same(folder, self.out)


def _is_same(path: Path, other: Path | None) -> bool:
    try:
        return other is not None and path.samefile(other)
    except OSError:
        return False


def read_folder(root: Path, outputs: Outputs, kernel: KernelRef | None = None, listen: Listener = ignore) -> SourceTree:
    """Return the files of a folder as a tree. Links to files inside of the folder become copies of these files.

    :param outputs: the files of wheelsmith to leave out.
    :param kernel: names further files to take and to leave out.
    :param listen: receives warnings about the choice of files.
    :raises SourceError: the folder does not exist, or its content is refused.
    """
    if not root.is_dir():
        # It may be a URL in path, which was joined to the folder of the matrix.
        raise SourceError(f"there is no folder {redact(str(root))}", remedy="fix path in matrix.yaml")
    named, untracked = kernel or KernelRef(), list[str]()
    tree = make_tree(_files(root.resolve(), outputs, named, listen, untracked), origin="path")
    if secrets := [path for path in tree.paths if is_secret(path) and path not in named.include]:
        text = f"files that look like secrets are in the source: {join_truncated(secrets)}; see kernel.exclude"
        listen(Notice(level="warning", text=text))
    if untracked:
        text = f"untracked files are not in the source: {join_truncated(sorted(untracked))}; see kernel.include"
        listen(Notice(level="info", text=text))
    return tree


def _files(root: Path, outputs: Outputs, kernel: KernelRef, listen: Listener, left: list[str]) -> Iterator[FoundFile]:
    """Yield the files that are source, and append the untracked ones that are not source to ``left``."""
    listed = _list_files(root, kernel.include, listen)
    excluded = _matches(root, kernel.exclude)

    def is_source(path: str, entry: os.DirEntry[str]) -> bool:
        if path in excluded or is_never_source(path, entry, built=_BUILT) or outputs.contain(entry):
            return False
        # git lists the files in the target of a link, not those in the link.
        is_tracked = True if listed is None else listed.get(entry.path.removeprefix(f"{root}/"))
        if is_tracked is False and not is_build_file(path):
            left.append(path)
            return False
        return is_tracked is not None

    return walk(root, is_source)


def _matches(root: Path, patterns: Iterable[str]) -> set[str]:
    found = (glob.glob(pattern, root_dir=root, recursive=True, include_hidden=True) for pattern in patterns)  # noqa: PTH207
    return {path.rstrip("/") for paths in found for path in paths}


def _list_files(root: Path, include: Iterable[str], listen: Listener) -> Mapping[str, bool] | None:
    """Return path → True for a folder and for a tracked or included file, False for an untracked one.

    None means that there is no repository, or that it ignores the folder.
    """
    if not is_in_repository(root):
        return None
    try:
        files = list_work_tree(root)
    except (GitError, SourceError) as error:
        text = f"git cannot list the kernel's folder, so files that it ignores are part of the source: {error}"
        listen(Notice(level="warning", text=text))
        return None
    files |= dict.fromkeys(_matches(root, [each for pattern in include for each in (pattern, f"{pattern}/**")]), True)
    return files | {str(folder): True for path in files for folder in PurePosixPath(path).parents} or None


def is_in_repository(folder: Path) -> bool:
    """Return True if a folder or one of its parents has a git repository."""
    return any(os.path.lexists(each / ".git") for each in (folder, *folder.parents))
