"""What each torch release exports, as fingerprints, so that no check fetches a torch.

One file an architecture, made by ``scripts/torch_symbols.py``: a line of JSON, then xz-compressed planes. Plane ``n``
holds byte ``n`` of every fingerprint, in ascending order of fingerprints: the first planes compress to nothing. Two
further planes hold the releases that export the symbol, a bit each.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

FINGERPRINT = 5  # bytes: of 400,000 symbols, one in three million strangers looks like one of them
_MASK = 2  # bytes


def fingerprint(symbol: str) -> int:
    """Give the number that stands for a symbol."""
    return int.from_bytes(hashlib.blake2b(symbol.encode(), digest_size=FINGERPRINT).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolTable:
    """The exports of every known release for one architecture."""

    releases: tuple[str, ...]
    count: int
    planes: bytes

    def exported_by(self, symbol: str) -> frozenset[str]:
        """Give the releases, as ``major.minor``, whose libraries export the symbol."""
        wanted = fingerprint(symbol)
        place = bisect_left(range(self.count), wanted, key=self._fingerprint)
        if place == self.count or self._fingerprint(place) != wanted:
            return frozenset()
        mask = self._number(place, FINGERPRINT, _MASK)
        return frozenset(release for bit, release in enumerate(self.releases) if mask >> bit & 1)

    def exports_of(self, release: str) -> set[int]:
        """Give the fingerprints of all that one release exports."""
        bit = self.releases.index(release)
        places = range(self.count)
        return {self._fingerprint(n) for n in places if self._number(n, FINGERPRINT, _MASK) >> bit & 1}

    def _fingerprint(self, place: int) -> int:
        return self._number(place, 0, FINGERPRINT)

    def _number(self, place: int, plane: int, width: int) -> int:
        first = plane * self.count + place
        return int.from_bytes(self.planes[first : first + width * self.count : self.count])


@cache
def symbol_table(arch: str) -> SymbolTable | None:
    """Give the table for an architecture, or None where none was made."""
    path = files(__package__).joinpath(f"{arch}.bin")
    if not path.is_file():
        return None
    head, _, body = path.read_bytes().partition(b"\n")
    facts = json.loads(head)
    return SymbolTable(releases=tuple(facts["releases"]), count=facts["count"], planes=lzma.decompress(body))


def write_table(exports: dict[str, set[int]], *, source: str, date: str) -> bytes:
    """Give the file for one architecture: ``exports`` is release → fingerprints, in the order of their bits."""
    masks: dict[int, int] = {}
    for bit, fingerprints in enumerate(exports.values()):
        for number in fingerprints:
            masks[number] = masks.get(number, 0) | 1 << bit
    ordered = sorted(masks)
    rows = [n.to_bytes(FINGERPRINT) + masks[n].to_bytes(_MASK) for n in ordered]
    planes = b"".join(bytes(row[byte] for row in rows) for byte in range(FINGERPRINT + _MASK))
    head = {"releases": list(exports), "count": len(ordered), "source": source, "date": date}
    return json.dumps(head).encode() + b"\n" + lzma.compress(planes, preset=9)
