"""What a run leaves when it ends, whatever else went wrong: results.json in room that was set aside when it began."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wheelsmith.base.errors import StoreError

_NAME = "results.json"
_KEPT = f".{_NAME}."
# Bytes for a cell: what its plan says is about one thousand, the end of a failure's log two or three.
ROOM_PER_CELL = 8 << 10
_ROOM = 4 << 10


class ResultsFile:
    """results.json of a run, as long as it is not written."""

    def __init__(self, handle: int, temporary: Path, path: Path) -> None:
        self._handle = handle
        self._temporary = temporary
        self._path = path

    def write(self, data: bytes) -> None:
        """Let the file appear; it is as it was, or whole.

        :raises OSError: there is more to write than room was set aside for, and no more to be had.
        """
        done = 0
        while done < len(data):
            done += os.pwrite(self._handle, data[done:], done)
        os.ftruncate(self._handle, len(data))
        os.fsync(self._handle)
        self._temporary.replace(self._path)


@contextmanager
def results_file(out: Path, cells: int) -> Iterator[ResultsFile]:
    """Set room aside for the results of so many cells, so that they can be told when the disk is full.

    :param out: the output folder; it is there.
    :raises StoreError: there is no room now.
    """
    for left in out.glob(f"{_KEPT}*"):
        _remove_if_dead(left)
    handle, temporary = _temporary(out)
    try:
        try:
            os.fchmod(handle, 0o644)
            os.posix_fallocate(handle, 0, _ROOM + cells * ROOM_PER_CELL)
        except OSError as error:
            raise _no_room(out, error) from error
        yield ResultsFile(handle, temporary, out / _NAME)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)


def _temporary(out: Path) -> tuple[int, Path]:
    try:
        handle, name = tempfile.mkstemp(prefix=_KEPT, dir=out)
    except OSError as error:
        raise _no_room(out, error) from error
    fcntl.flock(handle, fcntl.LOCK_EX)
    if os.fstat(handle).st_nlink:
        return handle, Path(name)
    # Another run that began at this moment took it for a dead one's.
    os.close(handle)
    return _temporary(out)


def _no_room(out: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the output folder {out} has no room for {_NAME}: {error.strerror}",
        remedy="free some disk, or choose another place with --out",
    )


def _remove_if_dead(left: Path) -> None:
    """Remove what a killed run left; a run that lives holds its lock."""
    try:
        with left.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
    except OSError:
        return
