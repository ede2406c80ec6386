"""Looking up a symbol by the tables of hashes, which is the only way in which the loader finds one."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator

from wheelsmith.wheel.elf.dynamic import DT_GNU_HASH, DT_HASH, Dynamic
from wheelsmith.wheel.elf.image import ElfImage
from wheelsmith.wheel.elf.versions import sysv_hash

_BITS = 64  # of a word of the bloom filter


class Lookup:
    """What glibc's ``do_lookup_x`` finds in one library: by DT_GNU_HASH where there is one, else by DT_HASH.

    :param names: for each symbol by its number, ``hash`` of its name where it is offered; 0 where it is not.
    :raises ElfError: a table of hashes is not all in the file.
    """

    def __init__(self, image: ElfImage, dynamic: Dynamic, names: array[int]) -> None:
        self._names = names
        self._gnu = False
        self._bloom = self._buckets = self._chains = memoryview(b"").cast("I")
        self._first = self._shift = 0
        if (address := dynamic.get(DT_GNU_HASH)) is not None:
            self._gnu = True
            buckets, self._first, words, self._shift = struct.unpack("<IIII", image.mapped(address, 16))
            self._bloom = memoryview(image.mapped(address + 16, 8 * words)).cast("Q")
            table = address + 16 + 8 * words
            self._buckets = memoryview(image.mapped(table, 4 * buckets)).cast("I")
            self._chains = self._read_chains(image, table + 4 * buckets, len(names) - self._first)
        elif (address := dynamic.get(DT_HASH)) is not None:
            buckets, chains = struct.unpack("<II", image.mapped(address, 8))
            self._buckets = memoryview(image.mapped(address + 8, 4 * buckets)).cast("I")
            self._chains = self._read_chains(image, address + 8 + 4 * buckets, chains)

    @staticmethod
    def _read_chains(image: ElfImage, address: int, count: int) -> memoryview[int]:
        return memoryview(image.mapped(address, 4 * min(max(0, count), image.room(address) // 4))).cast("I")

    def finds(self, name: str) -> bool:
        """Say whether the tables lead to a symbol that is offered under a name."""
        wanted = hash(name)
        numbers = self._by_gnu(name) if self._gnu else self._by_sysv(name)
        return any(number < len(self._names) and self._names[number] == wanted for number in numbers)

    def _by_gnu(self, name: str) -> Iterator[int]:
        value = _gnu_hash(name)
        if not self._buckets or not self._bloom:
            return
        word = self._bloom[value // _BITS % len(self._bloom)]
        if not word >> value % _BITS & word >> (value >> self._shift) % _BITS & 1:
            return
        number = self._buckets[value % len(self._buckets)]
        while number and 0 <= number - self._first < len(self._chains):
            found = self._chains[number - self._first]
            if found | 1 == value | 1:
                yield number
            if found & 1:
                return
            number += 1

    def _by_sysv(self, name: str) -> Iterator[int]:
        if not self._buckets:
            return
        number = self._buckets[sysv_hash(name) % len(self._buckets)]
        for _ in range(len(self._chains)):
            if not number or number >= len(self._chains):
                return
            yield number
            number = self._chains[number]


def _gnu_hash(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = value * 33 + byte & 0xFFFFFFFF
    return value
