"""Which toolkit assembled a cubin: the ELF file for a GPU that ptxas makes.

Not published either. Up to CUDA 12.9 most cubins have ABI 7, with the toolkit in the ELF header's version field. ABI 8,
for the GPUs of CUDA 12.8 and later and for all from CUDA 13 on, has a note that quotes each tool's own words.
"""

from __future__ import annotations

import io
import re
import struct
import sys
from importlib import import_module

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from wheelsmith.errors import WheelError

LZ4, ZSTANDARD = 0x2000, 0x8000  # flags of a fatbin's entry

_HEADER = 64  # bytes of an ELF header
_OLD_ABI, _NEW_ABI = 0x33, 0x41
_TOOL = re.compile(rb"release (\d+\.\d+), V\d")
_LONG = 15  # a length of LZ4 that goes on in the next byte
_GOES_ON = 0xFF
_SHORTEST_MATCH = 4
# Bytes. A compiled kernel is somebody else's: what it unpacks to must not fill this machine's memory.
_LARGEST = 1 << 30


def assemblers(stored: bytes, *, flags: int, size: int) -> frozenset[str]:
    """Give the toolkits, as ``major.minor``, whose tools made a cubin: one, unless nvlink joined others' code.

    :param stored: the cubin as the fatbin holds it.
    :param flags: of its entry, which say how it is compressed.
    :param size: of the cubin itself, when it is compressed.
    :raises WheelError: it is not laid out as ptxas lays it out.
    """
    head = decompress(stored, flags=flags, size=min(size, _HEADER))
    if len(head) < _HEADER or head[:4] != b"\x7fELF":
        raise WheelError("the binary holds GPU code that is no cubin, or compressed in a way that is not known")
    if head[7] == _OLD_ABI:
        (number,) = struct.unpack_from("<I", head, 20)
        return frozenset({f"{number // 10}.{number % 10}"})
    if head[7] != _NEW_ABI:
        raise WheelError(f"the binary holds a cubin with ABI {head[7]:#x}, which is not known")
    found = _TOOL.findall(_tools(decompress(stored, flags=flags, size=size)))
    if not found:
        raise WheelError("the binary holds a cubin that does not say which toolkit made it")
    return frozenset(release.decode() for release in found)


def _tools(cubin: bytes) -> bytes:
    try:
        note = ELFFile(io.BytesIO(cubin)).get_section_by_name(".note.nv.tkinfo")
        return b"" if note is None else bytes(note.data())
    except (ELFError, ValueError, KeyError, AttributeError, OverflowError, TypeError, MemoryError) as error:
        # pyelftools meets broken tables with whatever Python raises where they break.
        raise WheelError(f"the binary holds a broken cubin: {error}") from None


def decompress(stored: bytes, *, flags: int, size: int) -> bytes:
    """Give at most the first ``size`` bytes of what a fatbin's entry holds; without compression, all.

    :raises WheelError: it cannot be decompressed.
    """
    if size > _LARGEST:
        raise WheelError(f"the binary holds GPU code of {size} bytes: more than {_LARGEST} are not read")
    try:
        if flags & LZ4:
            return _lz4(stored, size)
        if flags & ZSTANDARD:
            # The standard library has it from Python 3.14 on; before, the same code comes as a package.
            module = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
            return bytes(module.ZstdDecompressor().decompress(stored, max_length=size))
    except Exception as error:
        if isinstance(error, ImportError):
            raise
        raise WheelError(f"the binary's GPU code cannot be decompressed: {error}") from None
    return stored


def _lz4(data: bytes, size: int) -> bytes:
    """Decompress an LZ4 block until ``size`` bytes are there (lz4_Block_format.md of lz4's own)."""
    out = bytearray()
    at = 0
    while len(out) < size:
        token = data[at]
        literals, at = _length(data, at + 1, token >> 4)
        out += data[at : at + literals]
        at += literals
        if at >= len(data):
            break
        offset = data[at] | data[at + 1] << 8
        match, at = _length(data, at + 2, token & _LONG)
        start = len(out) - offset
        if offset == 0 or start < 0:
            raise WheelError("it refers to what is not there")
        # A match may reach into what it makes itself: then it repeats.
        piece = out[start : start + match + _SHORTEST_MATCH]
        out += (piece * ((match + _SHORTEST_MATCH) // len(piece) + 1))[: match + _SHORTEST_MATCH]
    return bytes(out[:size])


def _length(data: bytes, at: int, length: int) -> tuple[int, int]:
    """Give a length and where the bytes after it begin."""
    if length == _LONG:
        while (more := data[at]) == _GOES_ON:
            length, at = length + more, at + 1
        length, at = length + more, at + 1
    return length, at
