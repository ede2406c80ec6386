"""Look up the exports of each library of each torch release by fingerprint.

``scripts/torch_symbols.py`` writes one file for each architecture: a line of JSON, then planes, compressed with zlib,
because unpacking xz takes eight times as long. Plane ``n`` has byte ``n`` of every row, and the rows are sorted, so
that the first planes compress well. A row has a symbol's fingerprint, the number of a library, and a bit for each
release in which the library exports the symbol.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

from wheelsmith.frameworks import facts_path

FINGERPRINT = 5  # bytes; an unknown symbol collides with one of 400,000 with a probability of 1 in 3 million
LIBRARY = 1  # byte
MASK = 2  # bytes


def fingerprint(symbol: str) -> int:
    """Return the fingerprint of a symbol."""
    return int.from_bytes(hashlib.blake2b(symbol.encode(), digest_size=FINGERPRINT).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchLibrary:
    """One library of one torch release.

    :param soname: DT_SONAME, which may differ from the file name.
    :param needed: DT_NEEDED, with libraries of torch, CUDA and the platform.
    """

    soname: str
    needed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SymbolTable:
    """The exports of every known torch release for one architecture.

    :param libraries: release → file name → library.
    :param names: file names of libraries; a row's library number is the index.
    :param count: number of rows.
    :param packed: compressed rows.
    """

    releases: tuple[str, ...]
    libraries: dict[str, dict[str, TorchLibrary]]
    names: tuple[str, ...]
    count: int
    packed: bytes

    def exported_by(self, symbol: str, libraries: Iterable[str] | None = None) -> frozenset[str]:
        """Return the releases (``major.minor``) in which one of these libraries exports the symbol.

        :param libraries: file names; None means any library of torch.
        """
        wanted = fingerprint(symbol)
        among = None if libraries is None else {self.names.index(name) for name in libraries if name in self.names}
        mask = 0
        for place in range(bisect_left(range(self.count), wanted, key=self._fingerprint), self.count):
            if self._fingerprint(place) != wanted:
                break
            if among is None or self._number(place, FINGERPRINT, LIBRARY) in among:
                mask |= self._number(place, FINGERPRINT + LIBRARY, MASK)
        return frozenset(release for bit, release in enumerate(self.releases) if mask >> bit & 1)

    def find_library(self, release: str, name: str) -> str | None:
        """Return the file name of a release's library with this file name or soname, or None."""
        libraries = self.libraries[release]
        if name in libraries:
            return name
        return next((file for file, library in libraries.items() if library.soname == name), None)

    def renamed_library(self, release: str, name: str) -> str | None:
        """Return the file name that auditwheel gave to a library of a release, or None if it did not rename it."""
        stem, dot, rest = name.partition(".so")
        renamed = re.compile(rf"{re.escape(stem)}-[0-9a-f]{{8}}\.so{re.escape(rest)}[\d.]*")
        return next((file for file in self.libraries[release] if dot and renamed.fullmatch(file)), None)

    def exports_of(self, release: str) -> dict[str, set[int]]:
        """Return the exports of a release: file name of the library → fingerprints."""
        bit = self.releases.index(release)
        found: dict[str, set[int]] = {name: set() for name in self.libraries[release]}
        for place in range(self.count):
            if self._number(place, FINGERPRINT + LIBRARY, MASK) >> bit & 1:
                found[self.names[self._number(place, FINGERPRINT, LIBRARY)]].add(self._fingerprint(place))
        return found

    @cached_property
    def _planes(self) -> bytes:
        return zlib.decompress(self.packed)

    def _fingerprint(self, place: int) -> int:
        return self._number(place, 0, FINGERPRINT)

    def _number(self, place: int, plane: int, width: int) -> int:
        first = plane * self.count + place
        return int.from_bytes(self._planes[first : first + width * self.count : self.count])


@cache
def symbol_table(arch: str) -> SymbolTable | None:
    """Return the table of an architecture, or None if there is none."""
    path = files(__package__).joinpath(f"torch-{arch}.bin")
    return read_table(path.read_bytes()) if path.is_file() else None


def prerelease_table(build: str, arch: str) -> SymbolTable | None:
    """Return the table of a pre-release build such as ``2.16.0rc2+cu130``, or None if the cache has none."""
    path = facts_path(build, arch, ".bin")
    return read_table(path.read_bytes()) if path.is_file() else None


def read_table(data: bytes) -> SymbolTable:
    """Parse the content of a table's file."""
    head, _, body = data.partition(b"\n")
    facts = json.loads(head)
    libraries = {
        release: {file: TorchLibrary(soname=soname, needed=tuple(needed)) for file, (soname, needed) in found.items()}
        for release, found in facts["libraries"].items()
    }
    return SymbolTable(
        releases=tuple(libraries), libraries=libraries, names=tuple(facts["names"]), count=facts["count"], packed=body
    )
