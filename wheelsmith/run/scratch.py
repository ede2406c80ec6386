"""The folder that a run works in."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import EngineError, Place

_DOOMED = "removed-"  # its lock may be gone already


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Yield a folder that goes away at the end; folders that dead runs left go away now."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.iterdir():
            _remove_if_dead(left)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise EngineError(
            f"no work folder can be made: {error.strerror}",
            where=Place(file=str(parent)),
            remedy="free some disk or fix its permissions, or choose another place with WHEELSMITH_CACHE",
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            _remove(folder)


def _remove_if_dead(folder: Path) -> None:
    try:
        if folder.name.startswith(_DOOMED):
            remove_tree(folder)
            return
        with (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
    except OSError:
        return  # alive, or being made at this moment


def _remove(folder: Path) -> None:
    """Remove a folder so that whoever is killed meanwhile leaves none of which nobody knows that it is dead."""
    doomed = folder.with_name(f"{_DOOMED}{folder.name}")
    folder.rename(doomed)
    remove_tree(doomed)
