"""Where an index lives, as narrowly as publishing needs it: a folder, a bucket, a Hub repo."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from wheelsmith.base.errors import PackageIndexError

T = TypeVar("T")
_PIECE = 1 << 20  # bytes
# What stands beside a wheel, under the wheel's hash, is named as it is with an ending of its own.
_CONTENT = re.compile(r"files/[0-9a-f]{2}/(?P<sha256>[0-9a-f]{64})/[^/]+\.(whl|json)")


class ConflictError(PackageIndexError):
    """Somebody else changed the file between our reading and our writing."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file's content, and the tag that tells this content from any later one."""

    data: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A file in a listing: its size in bytes, its time in seconds of the epoch, its hash where the host knows it."""

    key: str
    size: int
    modified: float
    sha256: str | None = None


def pieces_of(path: Path, key: str) -> Iterator[bytes]:
    """Yield a file's content, for whoever writes it under ``key``.

    What is kept under a hash so is what was hashed, whatever has happened to the file since.

    :raises PackageIndexError: it cannot be read, or, at the end, it is not what its key says.
    """
    hasher = hashlib.sha256()
    try:
        # Without waiting for the other end of a pipe.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PackageIndexError(f"{path} is no file", remedy="build it again")
            while piece := file.read(_PIECE):
                hasher.update(piece)
                yield piece
    except OSError as error:
        raise PackageIndexError(f"{path} cannot be read: {error.strerror}", remedy="build it again") from None
    promised = hash_in(key)
    if promised not in {None, hasher.hexdigest()}:
        raise PackageIndexError(
            f"{path} is not the file that it was: its sha256 is {hasher.hexdigest()}, not {promised}",
            remedy="build it again; nothing was published",
        )


def hash_in(key: str) -> str | None:
    """Return the sha256 that a key promises of its content; None where it promises nothing, as of a side-car."""
    match = _CONTENT.fullmatch(key)
    return match["sha256"] if match else None


class Storage(Protocol):
    """Files by key; a key is a relative path with slashes. Nothing is ever seen half-written."""

    @property
    def name(self) -> str:
        """Return the place as people name it, without credentials."""

    def read(self, key: str) -> Stored | None:
        """Return a file, or None when there is none."""

    def stat(self, key: str) -> Listed | None:
        """Return a file's size and age, or None when there is none."""

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file that never changes: whoever writes under this key writes the same bytes.

        :raises PackageIndexError: the key has a hash, and ``content`` is a file that has another.
        """

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replace the content that has ``tag``; None makes a file that is not there yet.

        :raises ConflictError: it has another tag by now.
        """

    def delete(self, key: str) -> None:
        """Remove a file; one that is gone already is no mistake."""

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Return every file whose key begins with ``prefix``, in no order."""

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Do ``work``, which may be called again when others were faster.

        A folder keeps others out meanwhile; a Hub repo shows all of it or nothing; a bucket can do neither, which is
        why the order in which an index writes is safe at every point.
        """


@dataclass(frozen=True, slots=True)
class Write:
    """One change that would be made: ``content`` is None for a file that goes.

    :param size: bytes to be written.
    """

    key: str
    content: Path | bytes | None
    size: int = 0


class Staged:
    """A storage whose changes stay in memory: for showing them, or for making them all at once."""

    def __init__(self, under: Storage) -> None:
        self._under = under
        self._writes: dict[str, Write] = {}

    @property
    def name(self) -> str:
        """Return the name of the storage beneath."""
        return self._under.name

    @property
    def writes(self) -> tuple[Write, ...]:
        """Return the changes in the order in which they were first made."""
        return tuple(self._writes.values())

    def read(self, key: str) -> Stored | None:
        """Return a file as it would be."""
        if key not in self._writes:
            return self._under.read(key)
        content = self._writes[key].content
        if content is None:
            return None
        data = b"".join(pieces_of(content, key)) if isinstance(content, Path) else content
        return Stored(data, hashlib.sha256(data).hexdigest())

    def stat(self, key: str) -> Listed | None:
        """Return a file's size as it would be; what is staged is new."""
        if key not in self._writes:
            return self._under.stat(key)
        write = self._writes[key]
        return None if write.content is None else Listed(key, write.size, float("inf"))

    def put(self, key: str, content: Path | bytes) -> None:
        """Stage a file."""
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        self._writes[key] = Write(key, content, size)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Stage a file; it is the transaction that conflicts, not the file."""
        del tag
        self._writes[key] = Write(key, data, len(data))

    def delete(self, key: str) -> None:
        """Stage that a file goes."""
        self._writes[key] = Write(key, None)

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Yield the files as they would be."""
        for item in self._under.listing(prefix):
            if item.key not in self._writes:
                yield item
        staged = (self.stat(key) for key in self._writes if key.startswith(prefix))
        yield from (item for item in staged if item)

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Do ``work`` here."""
        return work(self)


HTML = "text/html"
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"

# Asked for again each time and answered with 304; max-age would hide a new wheel from pip and uv.
_PAGE = "no-cache"
# What lies under the hash of its content cannot change. The number is PyPI's own.
_FILE = "max-age=365000000, immutable"
_TYPES = {
    ".html": f"{HTML}; charset=utf-8",
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    ".provenance": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHeaders:
    """Content-Type and Cache-Control."""

    content_type: str
    cache_control: str


def headers_of(key: str) -> ResponseHeaders:
    """Return the headers of a file; installers judge a page by its type alone.

    :param key: its path in the index, e.g. ``cpu/activation/index.json``.
    """
    top, _, rest = key.partition("/")
    name = PurePosixPath(key)
    kind = _TYPES.get(name.suffix, "application/octet-stream")
    if name.name == "index.json" and rest and not top.startswith("_") and top != "files":
        kind = SIMPLE_JSON
    return ResponseHeaders(content_type=kind, cache_control=_FILE if top == "files" else _PAGE)
