"""Which deflate this Python has: another library than zlib packs the same files into other bytes.

zlib's own has written the same from release to release (1.2.13 and 1.3.1 were compared); zlib-ng, which some
distributions have in its place, does not.
"""

from __future__ import annotations

import hashlib
import zlib
from functools import cache

# Of zlib 1.2.13.
_ZLIB = "f08568fa55f3e2b44a2cccf52a38a948628c04ae3db9d08da10fb914a6437b00"
_RAW = -15  # wbits, as zip files have it


@cache
def other_deflate() -> str | None:
    """Return the sha256 (hex) of a text that this Python packed, where it is not as zlib packs it; None where it is."""
    packer = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, _RAW)
    digest = hashlib.sha256(packer.compress(_text()) + packer.flush()).hexdigest()
    return None if digest == _ZLIB else digest


def _text() -> bytes:
    """Return what has all that tells packers apart: words that come again near and far, and what does not shrink."""
    noise = hashlib.shake_256(b"wheelsmith").digest(1 << 16)
    words = [noise[at : at + 3 + noise[at] % 29] for at in range(0, 1 << 12, 64)]
    return b"".join(words[byte % len(words)] for byte in noise[: 1 << 14]) + noise[: 1 << 14] + bytes(1 << 12)
