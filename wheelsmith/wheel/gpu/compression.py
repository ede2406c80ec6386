"""Decompress GPU code."""

from __future__ import annotations

import sys
from importlib import import_module

from wheelsmith.base.errors import WheelError


def decompress_lz4(stored: bytes, size: int) -> bytes:
    """Decompress a block.

    :param size: the size of the content, in bytes.
    :raises WheelError: it cannot be decompressed.
    """
    module = import_module("lz4.block")
    try:
        return bytes(module.decompress(stored, uncompressed_size=size))
    except (module.LZ4BlockError, OverflowError, ValueError) as error:
        raise WheelError(f"it cannot be decompressed: {error}") from None


def decompress_zstandard(stored: bytes, size: int) -> bytes:
    """Decompress a frame.

    :param size: maximum size of the content, in bytes.
    :raises WheelError: it cannot be decompressed.
    """
    # backports.zstd is the same code for Python before 3.14.
    module = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    try:
        return bytes(module.ZstdDecompressor().decompress(stored, max_length=size))
    except (module.ZstdError, OverflowError) as error:
        raise WheelError(f"it cannot be decompressed: {error}") from None
