"""What is packed within a file of a wheel, seen piece by piece: nothing is held, and nothing is believed of its size.

In a zip archive each member is found by its local header, wherever the archive begins, and in the directory or not.
What is compressed otherwise is found by its first bytes, at any place.
"""

from __future__ import annotations

import posixpath
import re
import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from wheelsmith.wheel.archive.compressions import (
    BEGINNINGS,
    Stream,
    UnseenError,
    member_stream,
    packing_of,
    packing_within,
)

_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_MAGIC = b"PK\x03\x04"
# With a version that there is, not encrypted, a method that can be read, and a name of up to 4 KiB.
_LOCAL_HEADER = re.compile(
    rb"PK\x03\x04[\x00-\x3f]\x00[\x00\x02\x04\x06\x08\x0a\x0c\x0e][\s\S][\x00\x08\x0c\x0e\x5d\x5f]\x00[\s\S]{16}"
    rb"(?!\x00\x00)[\s\S][\x00-\x0f][\s\S]{2}"
)
Kinds = Mapping[bytes, re.Pattern[bytes]]  # magic → what is looked for
ZIP: Kinds = {_LOCAL_MAGIC: _LOCAL_HEADER}
ANY_PACKING: Kinds = {**ZIP, **BEGINNINGS}
_BEHIND = 1 << 3  # a flag: the sizes stand behind the data
_HEAD = 6  # bytes, by which a compression is known
_PIECE = 1 << 20  # bytes
_FED = 1 << 16  # bytes at once: what lies behind a stream's end is copied
_DEEPEST = 4
_ALWAYS, _GROWTH, _MOST_STREAMS = 32 << 20, 20, 20_000


class Watcher(Protocol):
    """Whoever sees a file piece by piece."""

    def update(self, piece: bytes, /) -> object:
        """Look at the next piece."""


class PackedAllowance:
    """How much may be unpacked of all that is packed within one wheel.

    :param size: of the wheel, in bytes.
    """

    def __init__(self, size: int) -> None:
        self._bytes = _ALWAYS + _GROWTH * size
        self._streams = _MOST_STREAMS

    def take(self, size: int) -> None:
        """Take so many unpacked bytes out of what is left.

        :raises UnseenError: there is not enough left.
        """
        self._bytes -= size
        if self._bytes < 0:
            raise UnseenError("is packed, and unpacks to more than can be looked through")

    def begin(self, depth: int) -> None:
        """Take one packed stream out of what is left.

        :raises UnseenError: it is one too many, or packed too often.
        """
        self._streams -= 1
        if depth >= _DEEPEST:
            raise UnseenError(f"is packed more than {_DEEPEST} times over")
        if self._streams < 0:
            raise UnseenError(f"is packed, and the wheel holds more than {_MOST_STREAMS} packed files")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """A member's local header, as far as it is of use.

    :param start: of the member's data.
    """

    name: str
    method: int
    packed: int | None
    start: int


class Unpacker:
    """Let what is packed within a file be seen, and what is packed within that.

    :param name: of the file.
    :param watch: gives who is to see what is packed, by its name below the file's.
    :param allowance: of the wheel.
    :param kinds: of packing that are looked for.
    """

    def __init__(
        self,
        name: str,
        watch: Callable[[str], Watcher],
        allowance: PackedAllowance,
        kinds: Kinds = ANY_PACKING,
        depth: int = 0,
    ) -> None:
        self._name = name
        self._kinds = kinds
        self._watch = watch
        self._allowance = allowance
        self._depth = depth
        self._held = b""  # what may be the beginning of something
        self._begun = False
        self._stream: Stream | None = None
        self._seen_by: tuple[Watcher, ...] = ()

    def update(self, piece: bytes) -> None:
        """Look at the next piece.

        :raises UnseenError: too much is packed within.
        """
        data = self._held + piece
        self._held = b""
        if not self._begun and self._stream is None:
            if len(data) < _HEAD:
                self._held = data
                return
            self._begin_packed(data)
        # What begins the file is told by less.
        at, places = 0, self._beginnings(data, 0 if self._stream is None else 1)
        while at < len(data):
            at = self._next_packed(data, at, places) if self._stream is None else self._unpack(data, at)

    def _beginnings(self, data: bytes, first: int) -> deque[int]:
        """Return where something may begin that is packed, in order."""
        # To look for a few bytes is many times faster than a pattern.
        patterns = [pattern for magic, pattern in self._kinds.items() if magic in data]
        return deque(sorted(found.start() for pattern in patterns for found in pattern.finditer(data, first)))

    def _begin_packed(self, data: bytes) -> None:
        self._begun = True
        if stream := packing_of(data):
            self._follow(stream, self._within())

    def _within(self) -> str:
        base, suffix = posixpath.splitext(posixpath.basename(self._name))
        return f"{self._name}/{base if suffix else self._name}"

    def _follow(self, stream: Stream, name: str) -> None:
        self._allowance.begin(self._depth)
        self._stream = stream
        self._seen_by = (self._watch(name), Unpacker(name, self._watch, self._allowance, depth=self._depth + 1))

    def _unpack(self, data: bytes, at: int) -> int:
        """Unpack as much as there is from a place on; return where its end is, or the place of what is broken."""
        stream = self._stream
        assert stream is not None  # noqa: S101  # the one caller has asked
        given = data[at : at + _FED]
        end = at + len(given)
        while True:
            piece = stream.unpack(given, _PIECE)
            given = b""
            self._allowance.take(len(piece))
            for watcher in self._seen_by:
                watcher.update(piece)
            if stream.broken:
                self._stream = None
                return at
            if stream.ended:
                self._stream = None
                end -= len(stream.rest)
                # Several compressed streams behind one another are one file.
                if packed := packing_of(data[end : end + _HEAD]):
                    self._allowance.begin(self._depth)
                    self._stream = packed
                return end
            if stream.needs_input or not piece:
                return end

    def _next_packed(self, data: bytes, at: int, places: deque[int]) -> int:
        """Begin with the next that is packed, from a place on; return where it begins, or the end of the data."""
        while places:
            place = places.popleft()
            if place < at:
                continue
            if not data.startswith(_LOCAL_MAGIC, place):
                self._follow(packing_within(data[place : place + _HEAD]), self._within())
                return place
            header = _read_header(data, place)
            if header.start > len(data):
                self._held = data[place:]
                return len(data)
            at = place + len(_LOCAL_MAGIC)
            if stream := member_stream(header.method, header.packed):
                self._follow(stream, f"{self._name}/{header.name}")
                return header.start
        # What may be the beginning of a header is looked at once more, with the next piece.
        self._held = data[max(at, len(data) - _LOCAL.size + 1) :]
        return len(data)


def _read_header(data: bytes, at: int) -> _Header:
    """Read the local header at a place; its end may be yet to come."""
    _, _, flags, method, _, _, _, packed, _, length, extra = _LOCAL.unpack_from(data, at)
    name = data[at + _LOCAL.size : at + _LOCAL.size + length].decode("utf-8", "replace")
    start = at + _LOCAL.size + length + extra
    return _Header(name=name, method=method, packed=None if flags & _BEHIND else packed, start=start)
