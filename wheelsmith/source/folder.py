"""A kernel in a folder of the user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import SourceError
from wheelsmith.base.offline import MARK
from wheelsmith.base.redact import redact
from wheelsmith.plan.lock import is_of_a_lock
from wheelsmith.source.tree import FoundFile, SourceTree, make_tree, walk

# What a run or a release writes into its output folder.
_OF_A_RUN = ("CHANGES.md", "index", "junit.xml", "logs", "report.html", "results.json", "summary.md", "wheels")
# What is not yet renamed has such a name.
_UNFINISHED = tuple(f".{name}." for name in _OF_A_RUN)
# An index that was published to a folder has one of these.
_OF_AN_INDEX = ("_state/.listing.json", "_state/.lock")
# A vendored folder, and one that was not finished.
_MARKS = (*_OF_AN_INDEX, MARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where this run writes.

    :param out: its output folder.
    :param cache: the folder for toolchains and finished wheels.
    """

    out: Path
    cache: Path

    def are(self, folder: Path) -> bool:
        """Say whether all of a folder is output: the cache, an index, what was vendored, or what is a link to these."""
        if folder.is_symlink():
            return _same(folder, self.out) or _same(folder, self.cache)
        return _same(folder, self.cache) or any((folder / name).is_file() for name in _MARKS)

    def include(self, entry: os.DirEntry[str], folder: Path) -> bool:
        """Say whether something in a folder is output of a run, this one or an earlier one, which wrote there."""
        if entry.name not in _OF_A_RUN and not entry.name.startswith(_UNFINISHED):
            return False
        earlier = all((folder / name).is_file() for name in ("report.html", "results.json"))
        return earlier or _same(folder, self.out)


def _same(folder: Path, other: Path) -> bool:
    try:
        return folder.samefile(other)
    except OSError:
        return False


# What tools leave behind; nothing of it is source.
_LEFT_OUT = {".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules"}
# At the top of a kernel these are outputs: the Hub's build layout, and wheelsmith's own.
_LEFT_OUT_AT_TOP = {"build", "dist"}
# A worktree and a submodule have a file of this name, with a path of this machine in it.
_GIT = ".git"
# A matrix beside the kernel says what to build of it, and its lock of what; another cell in it changes no wheel.
_MATRIX = "matrix.yaml"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/.*", re.IGNORECASE | re.DOTALL)


def read_folder(root: Path, outputs: Outputs) -> SourceTree:
    """Return the folder's files as a tree; links that stay inside become the files that they lead to.

    :param outputs: of wheelsmith, which are left out.
    :raises SourceError: there is no such folder, or it holds what must not be used.
    """
    if not root.is_dir():
        # What was meant to be an address has become a folder below that of the matrix.
        meant = _ADDRESS.search(str(root))
        shown = redact(meant[0]) if meant else root
        raise SourceError(f"there is no folder {shown}", remedy="fix kernel.path in matrix.yaml")
    return make_tree(_files(root.resolve(), outputs), origin="path")


def _files(root: Path, outputs: Outputs) -> Iterator[FoundFile]:
    def is_source(path: str, entry: os.DirEntry[str]) -> bool:
        if path == _MATRIX or is_of_a_lock(path) or entry.name == _GIT:
            return False
        if outputs.include(entry, Path(entry.path).parent):
            return False
        if not Path(entry.path).is_dir():
            return True
        left_out = _LEFT_OUT | (_LEFT_OUT_AT_TOP if path == entry.name else set())
        return entry.name not in left_out and not outputs.are(Path(entry.path))

    return walk(root, is_source)
