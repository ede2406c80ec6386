"""A kernel in a folder of the user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from wheelsmith.base.errors import SourceError
from wheelsmith.base.redact import redact
from wheelsmith.plan.lock import is_of_a_lock
from wheelsmith.source.run_outputs import Outputs
from wheelsmith.source.tree import FoundFile, SourceTree, make_tree, walk

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
