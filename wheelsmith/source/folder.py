"""A kernel in a folder of the user's own."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from wheelsmith.errors import SourceError
from wheelsmith.source.tree import MOST_FILES, SourceFile, SourceTree, make_tree

# What tools leave behind; nothing of it is source.
_LEFT_OUT = {".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules"}
# At the top of a kernel these are outputs: the Hub's build layout, and wheelsmith's own.
_LEFT_OUT_AT_TOP = {"build", "dist"}
# A matrix beside the kernel says what to build of it; another cell in it changes no wheel.
_MATRIX = "matrix.yaml"


def read_folder(root: Path) -> SourceTree:
    """Give the folder's files as a tree; links that stay inside become the files that they lead to.

    :raises SourceError: there is no such folder, or it holds what must not be used.
    """
    if not root.is_dir():
        raise SourceError(f"there is no folder {root}", remedy="mend kernel.path in matrix.yaml")
    return make_tree(_files(root.resolve()), origin="path")


def _files(root: Path) -> Iterator[SourceFile]:
    count = 0
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        left_out = _LEFT_OUT | (_LEFT_OUT_AT_TOP if here == root else set())
        for name in folders:
            if (here / name).is_symlink() and name not in left_out:
                raise SourceError(f"{(here / name).relative_to(root)} is a link to a folder; wheelsmith follows none")
        folders[:] = sorted(name for name in folders if name not in left_out)
        for name in sorted(names):
            if here == root and name == _MATRIX:
                continue
            count += 1
            if count > MOST_FILES:
                raise SourceError(f"the kernel has more than {MOST_FILES} files")
            yield SourceFile(path=(here / name).relative_to(root).as_posix(), real=_real(here / name, root))


def _real(path: Path, root: Path) -> Path:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise SourceError(f"{path.relative_to(root)} is a link to nothing") from None
    if not real.is_relative_to(root):
        raise SourceError(f"{path.relative_to(root)} is a link that leads out of the kernel's folder")
    if not stat.S_ISREG(real.stat().st_mode):
        raise SourceError(f"{path.relative_to(root)} is not a regular file")
    return real
