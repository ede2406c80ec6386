"""Read the exports of the platform's, CUDA's and Python's libraries, which ``scripts/library_symbols.py`` writes."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryExports:
    """The exports of a set of libraries.

    :param symbols: soname → symbol → its versions, ``""`` for none.
    """

    symbols: dict[str, dict[str, tuple[str, ...]]]

    def versions(self, library: str, symbol: str) -> tuple[str, ...]:
        """Return the versions of a symbol in a library; none if the library does not export it."""
        return self.symbols.get(library, {}).get(symbol, ())

    def defined(self, library: str) -> frozenset[str]:
        """Return the versions of all symbols of a library."""
        return frozenset(v for found in self.symbols.get(library, {}).values() for v in found if v)


@cache
def platform_exports(arch: str) -> LibraryExports:
    """Return the exports of glibc, libstdc++ and the other libraries that manylinux allows."""
    return _parse_exports(_read_data(f"platform-{arch}.json.xz")["libraries"])


@cache
def cuda_exports(major: int) -> LibraryExports | None:
    """Return the exports of the libraries of a major release of CUDA, or None if they are unknown."""
    found = _read_data("cuda.json.xz")["libraries"].get(str(major))
    return _parse_exports(found) if found is not None else None


@cache
def python_exports() -> dict[str, frozenset[str]]:
    """Return the exports of CPython: release (``3.12``) → symbols."""
    return {version: frozenset(symbols) for version, symbols in _read_data("python.json.xz")["versions"].items()}


def _parse_exports(libraries: dict[str, dict[str, list[str]]]) -> LibraryExports:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for library, versions in libraries.items():
        symbols = found.setdefault(library, {})
        for version, names in versions.items():
            for name in names:
                symbols[name] = (*symbols.get(name, ()), version)
    return LibraryExports(symbols=found)


@cache
def _read_data(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(lzma.decompress(files(__package__).joinpath(name).read_bytes()))
    return content
