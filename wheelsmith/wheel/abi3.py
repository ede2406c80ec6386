"""CPython's stable ABI: which symbols an abi3 module may use."""

from __future__ import annotations

import re
from functools import cache

import abi3info  # type: ignore[import-untyped]  # it ships no types

from wheelsmith.wheel.elf import Extension

_PYTHON = re.compile(r"cp(\d)(\d+)")


def outside_abi3(extension: Extension, since: str) -> list[str]:
    """Give the CPython symbols that a module needs but the stable ABI of ``since`` (``cp39``) does not have."""
    found = _PYTHON.fullmatch(since)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    added = _added()
    python = (symbol for symbol in extension.undefined if symbol.startswith(("Py", "_Py")))
    return sorted(symbol for symbol in python if symbol not in added or added[symbol] > version)


@cache
def _added() -> dict[str, tuple[int, int]]:
    """Give each symbol of the stable ABI with the Python that added it."""
    entries = [*abi3info.FUNCTIONS.items(), *abi3info.DATAS.items()]
    return {symbol.name: (entry.added.major, entry.added.minor) for symbol, entry in entries}
