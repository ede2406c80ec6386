"""What CPython exports: its stable ABI, and each release for itself."""

from __future__ import annotations

import re
from functools import cache

import abi3info  # type: ignore[import-untyped]  # it ships no types

from wheelsmith.wheel.symbols import python_exports

_PYTHON = re.compile(r"cp(\d)(\d+)")
_NAMES = ("Py", "_Py")


def is_pythons(symbol: str) -> bool:
    """Say whether a symbol is named as CPython's are."""
    return symbol.startswith(_NAMES)


def outside_abi3(symbols: list[str], since: str) -> list[str]:
    """Return those CPython symbols that the stable ABI of ``since`` (``cp39``) does not have."""
    found = _PYTHON.fullmatch(since)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    added = _added()
    return sorted(symbol for symbol in symbols if symbol not in added or added[symbol] > version)


def outside_release(symbols: list[str], interpreter: str) -> list[str]:
    """Return those symbols that one CPython (``cp312``) does not export; none where its exports are not known."""
    found = _PYTHON.fullmatch(interpreter)
    exports = python_exports().get(f"{found[1]}.{found[2]}") if found else None
    return sorted(symbol for symbol in symbols if symbol not in exports) if exports is not None else []


def outside_every_release(symbols: list[str]) -> list[str]:
    """Return those symbols that no CPython exports, in no release that is known, nor the stable ABI."""
    known = frozenset[str]().union(*python_exports().values(), _added())
    return sorted(symbol for symbol in symbols if symbol not in known)


@cache
def _added() -> dict[str, tuple[int, int]]:
    """Return each symbol of the stable ABI with the Python that added it."""
    entries = [*abi3info.FUNCTIONS.items(), *abi3info.DATAS.items()]
    return {symbol.name: (entry.added.major, entry.added.minor) for symbol, entry in entries}
