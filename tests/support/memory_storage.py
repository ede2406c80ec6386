"""Storages for tests: one in memory that is a bucket in all that matters, and two that make the worst happen."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from wheelsmith.index.storage.protocol import ConflictError, Listed, Storage, Stored, T


class Memory(Storage):
    """A bucket: whoever writes is kept out by nobody.

    :param generations: whether a tag is of a write, as Google's are, or of the content alone, as S3's are.
    """

    name = "memory"

    def __init__(self, *, generations: bool = False) -> None:
        self.files: dict[str, tuple[bytes, str, float]] = {}
        self.written: list[tuple[str, bytes]] = []
        self._numbers = itertools.count() if generations else None
        self._lock = threading.Lock()

    def read(self, key: str) -> Stored | None:
        found = self.files.get(key)
        return Stored(found[0], found[1]) if found else None

    def stat(self, key: str) -> Listed | None:
        found = self.files.get(key)
        return Listed(key, len(found[0]), found[2]) if found else None

    def put(self, key: str, content: Path | bytes) -> None:
        data = content.read_bytes() if isinstance(content, Path) else content
        with self._lock:
            self._write(key, data)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        with self._lock:
            now = self.files.get(key)
            if (now[1] if now else None) != tag:
                raise ConflictError(key)
            self._write(key, data)

    def delete(self, key: str) -> None:
        self.files.pop(key, None)

    def listing(self, prefix: str) -> Iterator[Listed]:
        # As it was at one moment, which is how S3 gives a page of its listing.
        yield from [Listed(key, len(f[0]), f[2]) for key, f in list(self.files.items()) if key.startswith(prefix)]

    def transaction(self, work: Callable[[Storage], T]) -> T:
        return work(self)

    def age(self, key: str, seconds: float) -> None:
        """Make a file older than it is."""
        data, tag, modified = self.files[key]
        self.files[key] = (data, tag, modified - seconds)

    def _write(self, key: str, data: bytes) -> None:
        tag = hashlib.md5(data).hexdigest() if self._numbers is None else str(next(self._numbers))
        self.files[key] = (data, tag, time.time())
        self.written.append((key, data))


class Killed(BaseException):
    """The process was killed: nothing catches this."""


class Interrupted(Storage):
    """Another storage, at whose ``number``-th request something happens first; ``happened`` says whether it did."""

    def __init__(self, under: Storage, number: int, event: Callable[[], None]) -> None:
        self._under, self._event = under, event
        self._left = number
        self._lock = threading.RLock()
        self.happened = False

    @property
    def name(self) -> str:
        return self._under.name

    def read(self, key: str) -> Stored | None:
        return self._do(lambda: self._under.read(key))

    def stat(self, key: str) -> Listed | None:
        return self._do(lambda: self._under.stat(key))

    def put(self, key: str, content: Path | bytes) -> None:
        self._do(lambda: self._under.put(key, content))

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        self._do(lambda: self._under.swap(key, data, tag))

    def delete(self, key: str) -> None:
        self._do(lambda: self._under.delete(key))

    def listing(self, prefix: str) -> Iterator[Listed]:
        return self._do(lambda: self._under.listing(prefix))

    def transaction(self, work: Callable[[Storage], T]) -> T:
        return work(self)

    def _do(self, request: Callable[[], T]) -> T:
        with self._lock:
            self._left -= 1
            if self._left != 0:
                return request()
            self.happened = True
            self._event()
            return request()


class Mortal(Interrupted):
    """Another storage, whose user is killed before its ``number``-th request, which is after the one before."""

    def __init__(self, under: Storage, number: int) -> None:
        super().__init__(under, number, self._die)

    def _die(self) -> None:
        raise Killed

    def _do(self, request: Callable[[], T]) -> T:
        # The other threads of a killed process do nothing more either.
        with self._lock:
            if self.happened:
                raise Killed
            return super()._do(request)
