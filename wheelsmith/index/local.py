"""An index in a folder: several processes may write to it at once, and any of them may be killed."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wheelsmith.errors import PackageIndexError
from wheelsmith.files import atomic_copy, atomic_write
from wheelsmith.index.storage import Conflict, Listed, Storage, Stored, T


class Folder:
    """Files under a folder. Whoever changes them holds a lock, which goes when its process goes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def name(self) -> str:
        """Give the folder."""
        return str(self._root)

    def read(self, key: str) -> Stored | None:
        """Give a file, or None when there is none."""
        try:
            data = (self._root / key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stored(data, hashlib.sha256(data).hexdigest())

    def look(self, key: str) -> Listed | None:
        """Give a file's size and age, or None when there is none."""
        try:
            found = (self._root / key).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Listed(key, found.st_size, found.st_mtime)

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file that never changes."""
        with self._explained():
            if isinstance(content, bytes):
                atomic_write(self._root / key, content)
            else:
                atomic_copy(content, self._root / key)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replace the content that has ``tag``."""
        now = self.read(key)
        if (now.tag if now else None) != tag:
            raise Conflict(f"{self._root / key} was changed by another process")
        with self._explained():
            atomic_write(self._root / key, data)

    def delete(self, key: str) -> None:
        """Remove a file, and the folders that become empty."""
        path = self._root / key
        with self._explained():
            path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self._root or not folder.is_dir() or any(folder.iterdir()):
                return
            folder.rmdir()

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Give every file whose key begins with ``prefix``, with the hidden ones that killed processes left."""
        start = self._root / prefix.rpartition("/")[0]
        for path in start.rglob("*"):
            key = path.relative_to(self._root).as_posix()
            if key.startswith(prefix) and path.is_file() and (found := self.look(key)):
                yield found

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Do ``work`` while no other process changes the folder."""
        with self._lock():
            return work(self)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with self._explained():
            (self._root / "_state").mkdir(parents=True, exist_ok=True)
            lock = (self._root / "_state" / ".lock").open("a")
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PackageIndexError(
                f"the index at {self._root} cannot be written: {error.strerror or error}",
                remedy="free some disk or mend its permissions, or choose another place",
            ) from error
