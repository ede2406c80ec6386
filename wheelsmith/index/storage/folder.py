"""An index in a folder. Several processes may write to it at the same time, and each may be killed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.base.files import atomic_write, atomic_write_chunks
from wheelsmith.index.storage.protocol import ConflictError, Listed, Storage, Stored, T, read_pieces

# Do not follow a link, and do not block on a pipe.
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Folder(Storage):
    """Files in a folder. A transaction holds a lock, which the kernel releases if the process ends."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def name(self) -> str:
        """Return the path of the folder."""
        return str(self._root)

    def read(self, key: str) -> Stored | None:
        """Return a file, or None if it does not exist."""
        path = self._path(key)
        with self._convert_errors("read"):
            try:
                # O_NONBLOCK: do not wait for the other end of a pipe.
                with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                    data = file.read()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return Stored(data, hashlib.sha256(data).hexdigest())

    def stat(self, key: str) -> Listed | None:
        """Return the size and modification time of a file, or None if it does not exist."""
        with self._convert_errors("read"):
            try:
                found = self._path(key).lstat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return Listed(key, found.st_size, found.st_mtime)

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file that never changes."""
        path = self._path(key)
        with self._convert_errors():
            if isinstance(content, bytes):
                atomic_write(path, content)
            else:
                atomic_write_chunks(read_pieces(content, key), path.parent, lambda: path)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replace a file if its tag is ``tag``."""
        path, now = self._path(key), self.read(key)
        if (now.tag if now else None) != tag:
            raise ConflictError(f"{path} was changed by another process")
        with self._convert_errors():
            atomic_write(path, data)

    def delete(self, key: str) -> None:
        """Remove a file and the parent folders that become empty."""
        path = self._path(key)
        with self._convert_errors():
            path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self._root:
                return
            try:
                folder.rmdir()
            except OSError:  # it is not empty, or another process has removed it
                return

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Yield every file whose key begins with ``prefix``, including hidden files left by killed processes."""
        for folder, _, names in os.walk(self._root / prefix.rpartition("/")[0]):
            for path in (Path(folder, name) for name in names):
                key = path.relative_to(self._root).as_posix()
                try:
                    found = path.lstat()
                except FileNotFoundError:  # another process has removed it
                    continue
                if key.startswith(prefix) and stat.S_ISREG(found.st_mode):
                    yield Listed(key, found.st_size, found.st_mtime)

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Run ``work`` while holding the folder's lock."""
        with self._lock():
            return work(_LockedFolder(self._root))

    def _path(self, key: str) -> Path:
        """Return the path of a file.

        :raises UnreadableError: a part of the path is a link, so a write could leave the index.
        """
        path = self._root
        for part in filter(None, key.split("/")):
            path /= part
            if part in {".", ".."} or path.is_symlink():
                raise UnreadableError(
                    f"{path} is a link, which an index must not contain: writes would leave the index",
                    remedy="replace the link by a copy of its target",
                )
        return path

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with self._convert_errors():
            (self._root / "_state").mkdir(parents=True, exist_ok=True)
            lock = os.open(self._root / "_state" / ".lock", _LOCK_FLAGS, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _convert_errors(self, what: str = "written") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PackageIndexError(
                f"the index at {self._root} cannot be {what}: {error.strerror or error}",
                remedy="free disk space, fix the permissions, or choose another folder",
            ) from error


class _LockedFolder(Folder):
    """A folder whose lock is already held."""

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Run ``work`` without locking again."""
        return work(self)
