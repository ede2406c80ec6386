"""What a fatbin's entry unpacks to."""

from __future__ import annotations

import sys
from importlib import import_module

from wheelsmith.base.errors import WheelError
from wheelsmith.base.units import counted

LZ4, ZSTANDARD = 0x2000, 0x8000  # flags of a fatbin's entry

_USUAL_WINDOW = 23  # as a power of two, in bytes


def unpack(stored: bytes, *, flags: int, size: int) -> bytes:
    """Return what an entry holds; never more than it says.

    :param stored: the compressed bytes, without padding.
    :param flags: of the entry: one of the two compressions.
    :param size: in bytes, of what it unpacks to.
    :raises WheelError: it does not unpack to just that.
    """
    if flags & LZ4 and flags & ZSTANDARD:
        raise WheelError("it is compressed in two ways at once")
    try:
        data = _lz4(stored, size) if flags & LZ4 else _zstandard(stored, size)
    except WheelError:
        raise
    except Exception as error:
        if isinstance(error, ImportError):
            raise
        raise WheelError(f"it cannot be decompressed: {error}") from None
    if len(data) != size:
        raise WheelError(f"it unpacks to {counted(len(data), 'byte')}, not to the {size} that its entry says")
    return data


def _lz4(stored: bytes, size: int) -> bytes:
    if size > len(stored) * 255:  # the most that a block can grow (lz4_Block_format.md)
        raise WheelError(f"{counted(len(stored), 'byte')} cannot unpack to {size}")
    return bytes(import_module("lz4.block").decompress(stored, uncompressed_size=size))


def _zstandard(stored: bytes, size: int) -> bytes:
    # The standard library has it from Python 3.14 on; before, the same code comes as a package.
    module = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    # A window takes memory before anything is there: every decoder should allow 8 MiB (RFC 8878, 3.1.1.1.2), and more
    # is of use only within what it unpacks to.
    window = max(_USUAL_WINDOW, size.bit_length())
    reader = module.ZstdDecompressor(options={module.DecompressionParameter.window_log_max: window})
    data = bytes(reader.decompress(stored, max_length=size))
    if len(data) == size and not reader.eof and reader.decompress(b"", max_length=1):
        raise WheelError(f"it unpacks to more than the {size} bytes that its entry says")
    if not reader.eof or reader.unused_data:
        raise WheelError("its compressed data do not end where its entry says")
    return data
