"""The exports of each library of each torch release, as fingerprints.

One file an architecture, made by ``scripts/torch_symbols.py``: a line of JSON, then xz-compressed planes. Plane ``n``
holds byte ``n`` of every row, in ascending order of rows: the first planes compress to nothing. A row is a symbol's
fingerprint, the number of a library, and the releases in which that library exports the symbol, a bit each.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

FINGERPRINT = 5  # bytes: of 400,000 symbols, one in three million strangers looks like one of them
LIBRARY = 1  # byte
MASK = 2  # bytes


def fingerprint(symbol: str) -> int:
    """Return the number that stands for a symbol."""
    return int.from_bytes(hashlib.blake2b(symbol.encode(), digest_size=FINGERPRINT).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchLibrary:
    """One library of one release.

    :param soname: DT_SONAME, which need not be the file's name.
    :param needed: DT_NEEDED: torch's own libraries, CUDA's and the platform's.
    """

    soname: str
    needed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SymbolTable:
    """The exports of every known torch release for one architecture.

    :param libraries: release → file name → library.
    :param packed: the rows, compressed until they are asked for.
    """

    releases: tuple[str, ...]
    libraries: dict[str, dict[str, TorchLibrary]]
    names: tuple[str, ...]
    count: int
    packed: bytes

    def exported_by(self, symbol: str, libraries: Iterable[str] | None = None) -> frozenset[str]:
        """Return the releases, as ``major.minor``, in which one of these libraries exports the symbol.

        :param libraries: file names; None for any library of torch.
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

    def library(self, release: str, name: str) -> str | None:
        """Return the file name of the library that the loader takes for a name, in one release; None where none is."""
        libraries = self.libraries[release]
        if name in libraries:
            return name
        return next((file for file, library in libraries.items() if library.soname == name), None)

    def renamed(self, release: str, name: str) -> str | None:
        """Return the file name that auditwheel gave a library in one release; None where it is not there so."""
        stem, dot, rest = name.partition(".so")
        renamed = re.compile(rf"{re.escape(stem)}-[0-9a-f]{{8}}\.so{re.escape(rest)}[\d.]*")
        return next((file for file in self.libraries[release] if dot and renamed.fullmatch(file)), None)

    def exports_of(self, release: str) -> dict[str, set[int]]:
        """Return the fingerprints of all that each library of one release exports."""
        bit = self.releases.index(release)
        found: dict[str, set[int]] = {name: set() for name in self.libraries[release]}
        for place in range(self.count):
            if self._number(place, FINGERPRINT + LIBRARY, MASK) >> bit & 1:
                found[self.names[self._number(place, FINGERPRINT, LIBRARY)]].add(self._fingerprint(place))
        return found

    @cached_property
    def _planes(self) -> bytes:
        return lzma.decompress(self.packed)

    def _fingerprint(self, place: int) -> int:
        return self._number(place, 0, FINGERPRINT)

    def _number(self, place: int, plane: int, width: int) -> int:
        first = plane * self.count + place
        return int.from_bytes(self._planes[first : first + width * self.count : self.count])


@cache
def symbol_table(arch: str) -> SymbolTable | None:
    """Return the table for an architecture, or None where none was made."""
    path = files(__package__).joinpath(f"torch-{arch}.bin")
    return read_table(path.read_bytes()) if path.is_file() else None


def read_table(data: bytes) -> SymbolTable:
    """Return the table that a file holds."""
    head, _, body = data.partition(b"\n")
    facts = json.loads(head)
    libraries = {
        release: {file: TorchLibrary(soname=soname, needed=tuple(needed)) for file, (soname, needed) in found.items()}
        for release, found in facts["libraries"].items()
    }
    return SymbolTable(
        releases=tuple(libraries), libraries=libraries, names=tuple(facts["names"]), count=facts["count"], packed=body
    )
