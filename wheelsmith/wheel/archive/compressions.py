"""Compressions that Python knows, behind one face: pieces in, pieces out, and what lies behind the end."""

from __future__ import annotations

import bz2
import lzma
import re
import struct
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from wheelsmith.base.errors import WheelError

_MOST_MEMORY = 100 << 20  # bytes, of xz: its strongest preset takes 65 MiB
_WINDOW = 26  # of Zstandard, as a power of two, in bytes
_GZIP, _RAW = 31, -15  # wbits of zlib
_LZMA_HEAD = 9  # bytes: two of a version, two of a size, and five that say how it is packed
_STORED, _DEFLATED, _BZIP2, _LZMA, _ZSTANDARD, _XZ = 0, 8, 12, 14, 93, 95


class UnseenError(WheelError):
    """What is packed cannot be looked through within bounds; the message lacks the file's name."""


class Stream(Protocol):
    """One packed stream; ``broken`` is one that ended without an end."""

    ended: bool
    broken: bool
    needs_input: bool
    rest: bytes

    def unpack(self, data: bytes, most: int) -> bytes:
        """Return the next bytes, no more than ``most``.

        A stream that is broken ends there.

        :raises UnseenError: nothing of it can be unpacked, though it is what it says.
        """


def _never(_: Exception) -> bool:
    return False


def _always(_: Exception) -> bool:
    return True


def _for_lack_of_memory(error: Exception) -> bool:
    return "memory" in str(error).lower()  # as liblzma and Zstandard say it


class _Compressed:
    """A stream of one of Python's decompressors.

    :param decompressor: of bz2, lzma or Zstandard: all three have one face.
    :param unreadable: says of what went wrong at the beginning whether it is that something cannot be looked through;
        else it is taken for something that is not packed.
    """

    def __init__(self, decompressor: Any, unreadable: Callable[[Exception], bool] = _never) -> None:
        self._decompressor = decompressor  # three classes without a common base
        self._unreadable = unreadable
        self._untouched = True
        self.ended = False
        self.broken = False
        self.needs_input = True
        self.rest = b""

    def unpack(self, data: bytes, most: int) -> bytes:
        try:
            piece = bytes(self._decompressor.decompress(data, most))
        except (OSError, EOFError, ValueError, MemoryError, lzma.LZMAError, zlib.error, _zstandard_error()) as error:
            if self._untouched and self._unreadable(error):
                raise UnseenError(f"is packed, and cannot be unpacked: {error}") from None
            self.ended = self.broken = True
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
        self.broken = False
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
    return next((_stream(begin) for magic, begin in _MAGICS.items() if data.startswith(magic)), None)


def member_stream(method: int, size: int | None) -> Stream | None:
    """Return how to unpack a member of a zip archive; None where it cannot be.

    :param size: of its data in the archive, in bytes; None where its header does not say.
    """
    if method == _STORED:
        return _Stored(size) if size else None
    begin = _METHODS.get(method)
    return _stream(begin) if begin else None


def _stream(begin: Callable[[], Any]) -> Stream:
    return _Compressed(begin(), _UNREADABLE.get(begin, _never))


def packing_within(data: bytes) -> Stream:
    """Return how to unpack what begins like this, one of ``BEGINNINGS``, and may yet be something else."""
    begin = next(begin for magic, begin in _MAGICS.items() if data.startswith(magic))
    return _Compressed(begin(), _for_lack_of_memory)


def _gzip() -> Any:
    return _Inflater(_GZIP)


def _xz() -> Any:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)


def _zstandard() -> Any:
    module = _zstandard_module()
    return module.ZstdDecompressor(options={module.DecompressionParameter.window_log_max: _WINDOW})


def _zstandard_module() -> Any:
    # The standard library has it from Python 3.14 on; before, the same code comes as a package.
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def _zstandard_error() -> type[Exception]:
    error: type[Exception] = _zstandard_module().ZstdError
    return error


_ZSTANDARD_MAGIC = struct.pack("<I", 0xFD2FB528)
_MAGICS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b\x08": _gzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": _xz,
    _ZSTANDARD_MAGIC: _zstandard,
}
# What at most gives nothing is no gzip and no bzip2: their magics are short.
_UNREADABLE = {_xz: _always, _zstandard: _always}
_METHODS: dict[int, Callable[[], Any]] = {
    _DEFLATED: lambda: _Inflater(_RAW),
    _BZIP2: bz2.BZ2Decompressor,
    _LZMA: _Lzma,
    _ZSTANDARD: _zstandard,
    _XZ: _xz,
}
# Magic → enough of what stands behind it, within something else: only then it is no accident.
BEGINNINGS = {
    b"\x1f\x8b\x08": re.compile(rb"\x1f\x8b\x08[\x00-\x1f][\s\S]{4}[\x00\x02\x04][\x00-\x0d\xff]"),
    b"BZh": re.compile(rb"BZh[1-9]1AY&SY"),
    b"\xfd7zXZ\0": re.compile(rb"\xfd7zXZ\x00\x00[\x00\x01\x04\x0a]"),
    # A bit of the byte behind Zstandard's is reserved.
    _ZSTANDARD_MAGIC: re.compile(
        re.escape(_ZSTANDARD_MAGIC) + b"[" + b"".join(re.escape(bytes([n])) for n in range(256) if not n & 8) + b"]"
    ),
}
