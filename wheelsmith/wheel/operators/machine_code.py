"""Which namespaces machine code registers operators under, as far as its symbols still say it."""

from __future__ import annotations

import re
from typing import BinaryIO

# What the macros of torch/library.h leave in the table of symbols that a debugger reads, with its length before it.
_MACROS = re.compile(rb"(\d{1,4})((?:STABLE_)?TORCH_LIBRARY_(?:FRAGMENT_)?(?:static_)?init_)(\w{1,4096})")
_PIECE = 2**24  # bytes
_OVERLAP = 2**13


def registered_namespaces(file: BinaryIO) -> set[str]:
    """Return the namespaces that an ELF file registers operators under."""
    found: set[str] = set()
    before = b""
    while piece := file.read(_PIECE):
        for match in _MACROS.finditer(before + piece):
            macro, rest = match[2], match[3]
            length = int(match[1]) - len(macro)
            if 0 < length <= len(rest):  # else it goes on in the next piece, or is no symbol
                name = rest[:length].decode("ascii", "replace")
                # A fragment's name ends with a number of its own.
                found.add(re.sub(r"_\d+$", "", name) if b"FRAGMENT" in macro else name)
        before = (before + piece)[-_OVERLAP:]
    return found - {""}
