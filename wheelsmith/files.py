"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_CHUNK = 1 << 20


def sha256_file(path: Path) -> str:
    """Give the sha256 (hex) of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def atomic_write(path: Path, data: bytes) -> None:
    """Write ``data`` so that ``path`` is either as it was or whole."""
    with _replacing(path) as file:
        file.write(data)


def atomic_copy(source: Path, path: Path) -> None:
    """Copy a file so that ``path`` is either as it was or whole."""
    with _replacing(path) as file, source.open("rb") as origin:
        shutil.copyfileobj(origin, file, _CHUNK)


def atomic_stream(path: Path, pieces: Iterable[bytes]) -> None:
    """Write what comes in pieces so that ``path`` is either as it was or whole: as it was, where a piece fails."""
    with _replacing(path) as file:
        for piece in pieces:
            file.write(piece)


def mark_used(path: Path) -> None:
    """Note in its modification time that a file or folder of the cache was of use now."""
    with contextlib.suppress(OSError):  # a cache that cannot be written can still be read
        os.utime(path)


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Give a file beside ``path`` that is flushed to disk and renamed into place when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def publish_tree(temporary: Path, final: Path) -> bool:
    """Make a finished folder read-only and rename it into place.

    Gives False, and removes ``temporary``, when another process was first: both made the same thing.
    """
    make_read_only(temporary)
    # The folder itself must stay writable to be renamed by an ordinary user.
    temporary.chmod(0o755)
    try:
        temporary.rename(final)
    except OSError:
        if not final.is_dir():
            raise
        remove_tree(temporary)
        return False
    final.chmod(0o555)
    return True


def make_read_only(root: Path) -> None:
    """Take write permission from every file and folder under ``root``, which keep their exec bits."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o555)
        Path(folder).chmod(0o555)


def remove_tree(root: Path) -> None:
    """Remove a folder, read-only ones included; what is already gone is no mistake.

    chmod and rm do it because a build may leave folders nested deeper than Python's own rmtree can follow.
    """
    if not root.is_dir():
        return
    for command in (("chmod", "-R", "u+rwx"), ("rm", "-rf")):
        subprocess.run([*command, "--", str(root)], capture_output=True, check=False)
