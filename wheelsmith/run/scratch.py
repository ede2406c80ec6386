"""Scratch folders of runs, which later runs remove if a run was killed."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import EngineError, Place

_REMOVED_PREFIX = "removed-"  # prefix of a scratch folder that is being removed; its lock may not exist any more


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Yield a temporary folder. Folders that killed runs left are removed first."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for leftover in parent.iterdir():
            _remove_abandoned(leftover)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise EngineError(
            f"the work folder cannot be created: {error.strerror}",
            where=Place(file=str(parent)),
            remedy="free disk space, fix its permissions, or choose another place with WHEELSMITH_CACHE",
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            _remove(folder)


def _remove_abandoned(folder: Path) -> None:
    try:
        if folder.name.startswith(_REMOVED_PREFIX):
            remove_tree(folder)
            return
        with (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
    except OSError:
        return  # its run is alive, or is creating it


def _remove(folder: Path) -> None:
    """Remove a folder. Its new name marks it as abandoned, in case this process is killed."""
    renamed = folder.with_name(f"{_REMOVED_PREFIX}{folder.name}")
    folder.rename(renamed)
    remove_tree(renamed)
