"""The protocol of storages: the few file operations that publishing needs."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from wheelsmith.base.errors import PackageIndexError

T = TypeVar("T")
_PIECE_SIZE = 1 << 20  # bytes
# Wheels and JSON files have the hash of their content in the key. METADATA has the hash of its wheel.
_HASHED_KEY = re.compile(r"files/[0-9a-f]{2}/(?P<sha256>[0-9a-f]{64})/[^/]+\.(whl|json)")


class ConflictError(PackageIndexError):
    """Another process changed the file between reading and writing."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a file, and the tag of this version.

    :param tag: differs from the tags of all later versions.
    """

    data: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A file in a listing.

    :param size: in bytes.
    :param modified: modification time in seconds of the epoch.
    :param sha256: the hash of the content, if the host reports it.
    """

    key: str
    size: int
    modified: float
    sha256: str | None = None


def read_pieces(path: Path, key: str) -> Iterator[bytes]:
    """Yield the content of a file in pieces, and verify the hash in the key at the end.

    A file that has changed since it was hashed is therefore never stored under its old hash.

    :param key: the key under which the content will be stored.
    :raises PackageIndexError: the file cannot be read, or its hash differs from the hash in the key.
    """
    hasher = hashlib.sha256()
    try:
        # O_NONBLOCK: do not wait for the other end of a pipe.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PackageIndexError(f"{path} is not a file", remedy="build it again")
            while piece := file.read(_PIECE_SIZE):
                hasher.update(piece)
                yield piece
    except OSError as error:
        raise PackageIndexError(f"{path} cannot be read: {error.strerror}", remedy="build it again") from None
    expected = hash_in_key(key)
    if expected not in {None, hasher.hexdigest()}:
        raise PackageIndexError(
            f"{path} has changed: its sha256 is {hasher.hexdigest()}, not {expected}",
            remedy="build it again; nothing was published",
        )


def hash_in_key(key: str) -> str | None:
    """Return the sha256 of the content if the key contains it. Return None otherwise, e.g. for METADATA."""
    match = _HASHED_KEY.fullmatch(key)
    return match["sha256"] if match else None


class Storage(Protocol):
    """Files by key. Readers never see a partially written file.

    A key is a relative path with forward slashes.
    """

    @property
    def name(self) -> str:
        """Return the address of the storage without credentials."""

    def read(self, key: str) -> Stored | None:
        """Return a file, or None if it does not exist."""

    def stat(self, key: str) -> Listed | None:
        """Return the size and modification time of a file, or None if it does not exist."""

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file that never changes. Every writer of this key writes the same bytes.

        :raises PackageIndexError: ``content`` is a file whose hash differs from the hash in the key.
        """

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replace a file if its tag is ``tag``. None creates a file that must not exist yet.

        :raises ConflictError: the file has another tag.
        """

    def delete(self, key: str) -> None:
        """Remove a file. A missing file is not an error."""

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Yield every file whose key begins with ``prefix``, in any order."""

    def served_at(self, key: str) -> str | None:
        """Return the URL of a wheel that is served elsewhere than at its key below the index."""
        del key
        return None

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Run ``work`` and return its result. It may run again if another process was faster.

        A folder is locked during the work. A Hub repo applies all changes in one commit. A bucket offers neither, so
        the order of an index's writes must be safe at every point.
        """


@dataclass(frozen=True, slots=True)
class Write:
    """One staged change.

    :param content: the new content, or None to remove the file.
    :param size: bytes to write.
    """

    key: str
    content: Path | bytes | None
    size: int = 0


class Staged(Storage):
    """A storage that keeps its changes in memory, for showing them or for applying them in one commit."""

    def __init__(self, under: Storage) -> None:
        self._underlying = under
        self._writes: dict[str, Write] = {}

    @property
    def name(self) -> str:
        """Return the name of the underlying storage."""
        return self._underlying.name

    @property
    def writes(self) -> tuple[Write, ...]:
        """Return the changes, in the order of the first change of each file."""
        return tuple(self._writes.values())

    def read(self, key: str) -> Stored | None:
        """Return a file with the staged changes applied."""
        if key not in self._writes:
            return self._underlying.read(key)
        content = self._writes[key].content
        if content is None:
            return None
        data = b"".join(read_pieces(content, key)) if isinstance(content, Path) else content
        return Stored(data, hashlib.sha256(data).hexdigest())

    def stat(self, key: str) -> Listed | None:
        """Return the size of a file with the staged changes applied. A staged file counts as new."""
        if key not in self._writes:
            return self._underlying.stat(key)
        write = self._writes[key]
        return None if write.content is None else Listed(key, write.size, float("inf"))

    def put(self, key: str, content: Path | bytes) -> None:
        """Stage a file."""
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        self._writes[key] = Write(key, content, size)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Stage a file. The transaction, not this call, detects conflicts."""
        del tag
        self._writes[key] = Write(key, data, len(data))

    def delete(self, key: str) -> None:
        """Stage the removal of a file."""
        self._writes[key] = Write(key, None)

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Yield the files with the staged changes applied."""
        for item in self._underlying.listing(prefix):
            if item.key not in self._writes:
                yield item
        staged = (self.stat(key) for key in self._writes if key.startswith(prefix))
        yield from (item for item in staged if item)

    def served_at(self, key: str) -> str | None:
        """Return what the underlying storage returns."""
        return self._underlying.served_at(key)

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Run ``work`` on this storage."""
        return work(self)


def commit_message(writes: Sequence[Write]) -> tuple[str, str]:
    """Return the title and the body of a commit message, which list the added wheels."""
    wheels = sorted(write.key.rpartition("/")[2] for write in writes if write.key.endswith(".whl") and write.content)
    more = f" and {len(wheels) - 1} more" if len(wheels) > 1 else ""
    title = f"Add {wheels[0]}{more}" if wheels else "Update the index"
    return title, "\n".join(wheels)


HTML = "text/html"
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"

# Clients revalidate pages on each request and get a 304. max-age would hide new wheels from pip and uv.
_PAGE_CACHE_CONTROL = "no-cache"
# Files under the hash of their content never change. PyPI sends the same number.
_FILE_CACHE_CONTROL = "max-age=365000000, immutable"
_CONTENT_TYPES = {
    ".html": f"{HTML}; charset=utf-8",
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    ".provenance": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHeaders:
    """The response headers that a storage must keep with a file."""

    content_type: str
    cache_control: str


def response_headers(key: str) -> ResponseHeaders:
    """Return the headers of a file. Installers recognize the format of a page by its Content-Type only.

    :param key: path of the file in the index, e.g. ``cpu/activation/index.json``.
    """
    top, _, rest = key.partition("/")
    name = PurePosixPath(key)
    kind = _CONTENT_TYPES.get(name.suffix, "application/octet-stream")
    if name.name == "index.json" and rest and not top.startswith("_") and top != "files":
        kind = SIMPLE_JSON
    return ResponseHeaders(
        content_type=kind, cache_control=_FILE_CACHE_CONTROL if top == "files" else _PAGE_CACHE_CONTROL
    )
