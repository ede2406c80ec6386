"""Where an index lives, as narrowly as publishing needs it: a folder, a bucket, a Hub repo."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from wheelsmith.errors import PackageIndexError

T = TypeVar("T")


class Conflict(PackageIndexError):
    """Somebody else changed the file between our reading and our writing."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file's content, and the tag that tells this content from any later one."""

    data: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A file in a listing: size in bytes, when it was written in seconds of the epoch."""

    key: str
    size: int
    modified: float


class Storage(Protocol):
    """Files by key; a key is a relative path with slashes. Nothing is ever seen half-written."""

    @property
    def name(self) -> str:
        """Give the place as people name it, without credentials."""

    def read(self, key: str) -> Stored | None:
        """Give a file, or None when there is none."""

    def look(self, key: str) -> Listed | None:
        """Give a file's size and age, or None when there is none."""

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file that never changes: whoever writes under this key writes the same bytes."""

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replace the content that has ``tag``; None makes a file that is not there yet.

        :raises Conflict: it has another tag by now.
        """

    def delete(self, key: str) -> None:
        """Remove a file; one that is gone already is no mistake."""

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Give every file whose key begins with ``prefix``, in no order."""

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Do ``work``, which may be called again when others were faster.

        A folder keeps others out meanwhile; a Hub repo shows all of it or nothing; a bucket can do neither, which is
        why the order in which an index writes is safe at every point.
        """


@dataclass(frozen=True, slots=True)
class Write:
    """One change that would be made: ``data`` is None for a file that goes."""

    key: str
    content: Path | bytes | None

    @property
    def size(self) -> int:
        """Give the bytes to be written."""
        if isinstance(self.content, Path):
            return self.content.stat().st_size
        return len(self.content or b"")


class Staged:
    """A storage whose changes stay in memory: for showing them, or for making them all at once."""

    def __init__(self, under: Storage) -> None:
        self._under = under
        self._writes: dict[str, Write] = {}

    @property
    def name(self) -> str:
        """Give the name of the storage beneath."""
        return self._under.name

    @property
    def writes(self) -> tuple[Write, ...]:
        """Give the changes in the order in which they were first made."""
        return tuple(self._writes.values())

    def read(self, key: str) -> Stored | None:
        """Give a file as it would be."""
        if key not in self._writes:
            return self._under.read(key)
        content = self._writes[key].content
        if content is None:
            return None
        data = content.read_bytes() if isinstance(content, Path) else content
        return Stored(data, hashlib.sha256(data).hexdigest())

    def look(self, key: str) -> Listed | None:
        """Give a file's size as it would be; what is staged is new."""
        if key not in self._writes:
            return self._under.look(key)
        write = self._writes[key]
        return None if write.content is None else Listed(key, write.size, float("inf"))

    def put(self, key: str, content: Path | bytes) -> None:
        """Stage a file."""
        self._writes[key] = Write(key, content)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Stage a file; it is the transaction that conflicts, not the file."""
        del tag
        self._writes[key] = Write(key, data)

    def delete(self, key: str) -> None:
        """Stage that a file goes."""
        self._writes[key] = Write(key, None)

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Give the files as they would be."""
        for item in self._under.listing(prefix):
            if item.key not in self._writes:
                yield item
        staged = (self.look(key) for key in self._writes if key.startswith(prefix))
        yield from (item for item in staged if item)

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Do ``work`` here."""
        return work(self)
