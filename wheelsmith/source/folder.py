"""A kernel in a folder of the user's own."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from wheelsmith.base.errors import SourceError
from wheelsmith.base.redact import redact
from wheelsmith.plan.lock import is_of_a_lock
from wheelsmith.source.run_outputs import Outputs
from wheelsmith.source.tree import FoundFile, SourceTree, make_tree, mode_of, walk

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
        if not stat.S_ISDIR(mode_of(entry)):
            return True
        left_out = _LEFT_OUT | (_LEFT_OUT_AT_TOP if path == entry.name else set())
        return entry.name not in left_out and not outputs.are(Path(entry.path))

    for path, entry in walk(root, is_source):
        if stat.S_ISDIR(mode_of(entry)):
            raise SourceError(f"{path} is a link to a folder; wheelsmith follows none")
        real = real_file(root / path, root)
        # As git has it: what its owner may run.
        yield FoundFile(path=path, real=real, executable=bool(real.stat().st_mode & stat.S_IXUSR))


def real_file(path: Path, root: Path) -> Path:
    """Return where a file in a folder lies: itself, or what a link leads to that stays inside.

    :raises SourceError: it is no regular file, or the link leads elsewhere.
    """
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise SourceError(f"{path.relative_to(root)} is a link to nothing") from None
    if not real.is_relative_to(root):
        raise SourceError(f"{path.relative_to(root)} is a link that leads out of the kernel's folder")
    if _GIT in real.relative_to(root).parts:  # of a clone, whose settings may hold a password
        raise SourceError(f"{path.relative_to(root)} leads into {_GIT}, of which nothing is source")
    if not stat.S_ISREG(real.stat().st_mode):
        raise SourceError(f"{path.relative_to(root)} is not a regular file")
    return real
