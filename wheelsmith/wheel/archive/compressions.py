"""Compressions that Python knows, behind one face: pieces in, pieces out, and what lies behind the end."""

from __future__ import annotations

import bz2
import lzma
import struct
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from wheelsmith.errors import WheelError

_MOST_MEMORY = 100 << 20  # bytes, of xz: its strongest preset takes 65 MiB
_WINDOW = 26  # of Zstandard, as a power of two, in bytes
_GZIP, _RAW = 31, -15  # wbits of zlib
_LZMA_HEAD = 9  # bytes: two of a version, two of a size, and five that say how it is packed
_STORED, _DEFLATED, _BZIP2, _LZMA, _ZSTANDARD, _XZ = 0, 8, 12, 14, 93, 95


class UnseenError(WheelError):
    """What is packed cannot be looked through within bounds; the message lacks the file's name."""


class Stream(Protocol):
    """One packed stream."""

    ended: bool
    needs_input: bool
    rest: bytes

    def unpack(self, data: bytes, most: int) -> bytes:
        """Return the next bytes, no more than ``most``.

        A stream that is broken ends there.

        :raises UnseenError: nothing of it can be unpacked, though it is what it says.
        """


class _Compressed:
    """A stream of one of Python's decompressors.

    :param decompressor: of bz2, lzma or Zstandard: all three have one face.
    :param strict: whether one that gives nothing at all is taken for unreadable, and not for something else.
    """

    def __init__(self, decompressor: Any, *, strict: bool = False) -> None:  # three classes without a common base
        self._decompressor = decompressor
        self._untouched = strict
        self.ended = False
        self.needs_input = True
        self.rest = b""

    def unpack(self, data: bytes, most: int) -> bytes:
        try:
            piece = bytes(self._decompressor.decompress(data, most))
        except (OSError, EOFError, ValueError, MemoryError, lzma.LZMAError, zlib.error, _zstandard_error()) as error:
            if self._untouched:
                raise UnseenError(f"is packed, and cannot be unpacked: {error}") from None
            self.ended = True
            return b""
        self._untouched = self._untouched and not piece
        self.ended = self._decompressor.eof
        self.needs_input = self._decompressor.needs_input
        self.rest = bytes(self._decompressor.unused_data)
        return piece


class _Inflater:
    """zlib's decompressor, with the face of the others."""

    def __init__(self, bits: int) -> None:
        self._decompressor = zlib.decompressobj(bits)
        self.needs_input = True

    def decompress(self, data: bytes, most: int) -> bytes:
        piece = self._decompressor.decompress(self._decompressor.unconsumed_tail + data, most)
        # It may hold back what it has read and had no room to give.
        self.needs_input = not self._decompressor.unconsumed_tail and len(piece) < most
        return piece

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        return self._decompressor.unused_data


class _Lzma:
    """LZMA as a zip archive has it, handed on in the older format that Python reads."""

    def __init__(self) -> None:
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=_MOST_MEMORY)
        self._head: bytes | None = b""

    def decompress(self, data: bytes, most: int) -> bytes:
        if self._head is not None:
            self._head += data
            if len(self._head) < _LZMA_HEAD:
                return b""
            data = self._head[4:_LZMA_HEAD] + b"\xff" * 8 + self._head[_LZMA_HEAD:]
            self._head = None
        return self._decompressor.decompress(data, most)

    @property
    def needs_input(self) -> bool:
        return self._head is not None or self._decompressor.needs_input

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        return self._decompressor.unused_data


class _Stored:
    """What is not packed at all."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.ended = False
        self.needs_input = True
        self.rest = b""

    def unpack(self, data: bytes, most: int) -> bytes:
        data = self.rest + data
        size = min(self._left, most)
        piece, self.rest = data[:size], data[size:]
        self._left -= len(piece)
        self.ended = not self._left
        self.needs_input = not self.rest
        return piece


def packing_of(data: bytes) -> Stream | None:
    """Return how to unpack what begins like this; None of what is not compressed."""
    return next((begin() for magic, begin in _MAGICS.items() if data.startswith(magic)), None)


def member_stream(method: int, size: int | None) -> Stream | None:
    """Return how to unpack a member of a zip archive; None where it cannot be.

    :param size: of its data in the archive, in bytes; None where its header does not say.
    """
    if method == _STORED:
        return _Stored(size) if size else None
    begin = _METHODS.get(method)
    return begin() if begin else None


def _deflated() -> Stream:
    return _Compressed(_Inflater(_RAW))


def _gzip() -> Stream:
    return _Compressed(_Inflater(_GZIP))


def _bzip2() -> Stream:
    return _Compressed(bz2.BZ2Decompressor())


def _xz() -> Stream:
    return _Compressed(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY), strict=True)


def _zstandard() -> Stream:
    module = _zstandard_module()
    options = {module.DecompressionParameter.window_log_max: _WINDOW}
    return _Compressed(module.ZstdDecompressor(options=options), strict=True)


def _zstandard_module() -> Any:
    # The standard library has it from Python 3.14 on; before, the same code comes as a package.
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def _zstandard_error() -> type[Exception]:
    error: type[Exception] = _zstandard_module().ZstdError
    return error


_MAGICS: dict[bytes, Callable[[], Stream]] = {
    b"\x1f\x8b\x08": _gzip,
    b"BZh": _bzip2,
    b"\xfd7zXZ\0": _xz,
    struct.pack("<I", 0xFD2FB528): _zstandard,
}
_METHODS: dict[int, Callable[[], Stream]] = {
    _DEFLATED: _deflated,
    _BZIP2: _bzip2,
    _LZMA: lambda: _Compressed(_Lzma()),
    _ZSTANDARD: _zstandard,
    _XZ: _xz,
}
