"""Read a kernel from a local folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import SourceError
from wheelsmith.base.offline import VENDORED_MARK
from wheelsmith.base.redact import redact
from wheelsmith.plan.lock import is_lock_path
from wheelsmith.source.tree import FoundFile, SourceTree, make_tree, walk

# Outputs of a run or a release.
_RUN_OUTPUTS = ("CHANGES.md", "index", "junit.xml", "logs", "report.html", "results.json", "summary.md", "wheels")
# Prefixes of the temporary names of these outputs.
_UNFINISHED = tuple(f".{name}." for name in _RUN_OUTPUTS)
# An index in a folder has one of these files.
_INDEX_MARKS = ("_state/.listing.json", "_state/.lock")
# Files that mark an index or a vendored folder.
_MARKS = (*_INDEX_MARKS, VENDORED_MARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The folders that this run writes to.

    :param out: the output folder.
    :param cache: the cache with toolchains and finished wheels.
    """

    out: Path
    cache: Path

    def is_output_folder(self, folder: Path) -> bool:
        """Return True if a folder is the cache, an index, a vendored folder, or a link to the cache or the outputs."""
        if folder.is_symlink():
            return _is_same(folder, self.out) or _is_same(folder, self.cache)
        return _is_same(folder, self.cache) or any((folder / name).is_file() for name in _MARKS)

    def is_output_file(self, entry: os.DirEntry[str], folder: Path) -> bool:
        """Return True if an entry of a folder is an output of this run or of an earlier one."""
        if entry.name not in _RUN_OUTPUTS and not entry.name.startswith(_UNFINISHED):
            return False
        earlier = all((folder / name).is_file() for name in ("report.html", "results.json"))
        return earlier or _is_same(folder, self.out)


def _is_same(folder: Path, other: Path) -> bool:
    try:
        return folder.samefile(other)
    except OSError:
        return False


# Folders of tools, which are never source.
_IGNORED_FOLDERS = {".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules"}
# Outputs at the top of a kernel: the Hub's builds and wheelsmith's wheels.
_IGNORED_AT_TOP = {"build", "dist"}
# In a worktree or submodule this is a file that contains a path of this machine.
_GIT = ".git"
# The matrix and its lock file are not source: adding a cell must not change the digest of the other wheels.
_MATRIX = "matrix.yaml"


def read_folder(root: Path, outputs: Outputs) -> SourceTree:
    """Return the files of a folder as a tree. Links to files inside of the folder become copies of these files.

    :param outputs: the outputs of wheelsmith to leave out.
    :raises SourceError: the folder does not exist, or its content is refused.
    """
    if not root.is_dir():
        # It may be a URL in kernel.path, which was joined to the folder of the matrix.
        raise SourceError(f"there is no folder {redact(str(root))}", remedy="fix kernel.path in matrix.yaml")
    return make_tree(_files(root.resolve(), outputs), origin="path")


def _files(root: Path, outputs: Outputs) -> Iterator[FoundFile]:
    def is_source(path: str, entry: os.DirEntry[str]) -> bool:
        if path == _MATRIX or is_lock_path(path) or entry.name == _GIT:
            return False
        if outputs.is_output_file(entry, Path(entry.path).parent):
            return False
        if not Path(entry.path).is_dir():
            return True
        left_out = _IGNORED_FOLDERS | (_IGNORED_AT_TOP if path == entry.name else set())
        return entry.name not in left_out and not outputs.is_output_folder(Path(entry.path))

    return walk(root, is_source)
