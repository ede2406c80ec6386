"""Detect a deflate library other than zlib, because it compresses the same files to other bytes.

The output of zlib is the same in different releases (1.2.13 and 1.3.1 were compared). The output of zlib-ng, which some
distributions use instead, differs.
"""

from __future__ import annotations

import hashlib
import zlib
from functools import cache

# The fingerprint of zlib 1.2.13.
_ZLIB = "f08568fa55f3e2b44a2cccf52a38a948628c04ae3db9d08da10fb914a6437b00"
_RAW = -15  # wbits for zip files


@cache
def non_zlib_fingerprint() -> str | None:
    """Return the fingerprint (sha256 in hex) of this Python's deflate library, or None if it packs as zlib does."""
    packer = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, _RAW)
    digest = hashlib.sha256(packer.compress(_sample()) + packer.flush()).hexdigest()
    return None if digest == _ZLIB else digest


def _sample() -> bytes:
    """Return data that compressors handle differently: repetitions at short and long distances, noise and zeros."""
    noise = hashlib.shake_256(b"wheelsmith").digest(1 << 16)
    words = [noise[at : at + 3 + noise[at] % 29] for at in range(0, 1 << 12, 64)]
    return b"".join(words[byte % len(words)] for byte in noise[: 1 << 14]) + noise[: 1 << 14] + bytes(1 << 12)
