"""The table of symbols, counted by the tables of hashes as nothing else says how long it is."""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass

from wheelsmith.wheel.elf.dynamic import (
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_PLTRELSZ,
    DT_RELA,
    DT_RELASZ,
    DT_SYMENT,
    DT_SYMTAB,
    DT_VERSYM,
    Dynamic,
)
from wheelsmith.wheel.elf.image import ElfError, ElfImage
from wheelsmith.wheel.elf.lookup import Lookup
from wheelsmith.wheel.elf.relocations import is_code
from wheelsmith.wheel.elf.versions import NeededVersion

SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = 24  # bytes
_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10
_ABSOLUTE, _TLS = 0xFFF1, 6
_FOUND_TYPES = {0, 1, 2, 5, 6, 10}  # what a loader finds: data, functions, thread-local data, and what they become
_FUNCTIONS = {2, 10}
_HIDDEN = {1, 2}
_VERSION = 0x7FFF
_MOST_BUCKETS = 2**26
_BLOCK = 2**16  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A symbol that something else must provide.

    :param version: that it must have; None where any will do.
    :param library: that has to have the version.
    :param weak: the loader puts nothing in its place where it is not found.
    """

    name: str
    version: str | None = None
    library: str | None = None
    weak: bool = False


def read_symbols(
    image: ElfImage, dynamic: Dynamic, versions: dict[int, NeededVersion], defined: dict[int, str]
) -> tuple[tuple[Reference, ...], frozenset[str], frozenset[tuple[str, str]], Lookup | None]:
    """Return the symbols that are needed, those that are offered, those with a version, and how one is looked up.

    :param versions: that are needed, by their index.
    :param defined: versions that are offered, by their index.

    :raises ElfError: the tables do not fit each other.
    """
    address = dynamic.get(DT_SYMTAB)
    if address is None:
        return (), frozenset(), frozenset(), None
    if dynamic.get(DT_SYMENT) not in {None, SYMBOL.size}:
        raise ElfError(f"its symbols are of {dynamic.get(DT_SYMENT)} bytes, not {SYMBOL.size}")
    count = max(symbol_count(image, dynamic) or 0, _relocated(image, dynamic) + 1)
    versym = dynamic.get(DT_VERSYM)
    indices = memoryview(image.mapped(versym, 2 * count)).cast("H") if versym is not None else None
    needed: list[Reference] = []
    offered: set[str] = set()
    versioned: set[tuple[str, str]] = set()
    # A crafted table has one symbol a million times; nobody needs to hear it twice.
    seen: set[tuple[int, int, int]] = set()
    hashes: dict[int, int] = {}
    table = image.mapped(address, count * SYMBOL.size)  # refuses a count that is not so
    names = array("q", bytes(8 * count))
    for number, row in enumerate(SYMBOL.iter_unpack(table)):
        name, info, other, section, value, _ = row
        bind = info >> 4
        if section and name in hashes and _can_be_found(info & 15, other & 3, section, value):
            names[number] = hashes[name]
        index = indices[number] & _VERSION if indices is not None else 0
        told = (name, bind, index) if not section else (name, -1, index)
        if bind not in {_GLOBAL, _WEAK, _UNIQUE} or not name or told in seen:
            continue
        if not section:
            seen.add(told)
            found = versions.get(index)
            library, version = (found.library, found.name) if found else (None, None)
            text = dynamic.name(name)
            needed.append(Reference(name=text, version=version, library=library, weak=bind == _WEAK))
        elif _can_be_found(info & 15, other & 3, section, value):
            seen.add(told)
            if info & 15 in _FUNCTIONS and section != _ABSOLUTE and not is_code(image, value):
                raise ElfError(f"its function {dynamic.name(name)} is not where anything can be executed")
            text = dynamic.name(name)
            names[number] = hashes[name] = hash(text)
            offered.add(text)
            if index in defined:
                versioned.add((text, defined[index]))
    return tuple(needed), frozenset(offered), frozenset(versioned), Lookup(image, dynamic, names)


def _can_be_found(kind: int, visibility: int, section: int, value: int) -> bool:
    """Say whether the loader takes a definition when it looks for its name."""
    if visibility in _HIDDEN or kind not in _FOUND_TYPES:
        return False
    return bool(value) or section == _ABSOLUTE or kind == _TLS


def symbol_count(image: ElfImage, dynamic: Dynamic) -> int | None:
    """Return how many symbols there are, by the tables of hashes; None where they do not say.

    :raises ElfError: DT_HASH and DT_GNU_HASH do not say the same.
    """
    counts = set()
    if (address := dynamic.get(DT_HASH)) is not None:
        counts.add(struct.unpack("<II", image.mapped(address, 8))[1])
    if (address := dynamic.get(DT_GNU_HASH)) is not None and (count := _gnu_count(image, address)) is not None:
        counts.add(count)
    if len(counts) > 1:
        raise ElfError("its two tables of hashes are not of one table of symbols")
    return counts.pop() if counts else None


def _gnu_count(image: ElfImage, address: int) -> int | None:
    buckets, first, bloom, _ = struct.unpack("<IIII", image.mapped(address, 16))
    # glibc, _dl_setup_hash, stops the process.
    if not bloom or bloom & (bloom - 1):
        raise ElfError(f"its table of hashes has a filter of {bloom} words, which is no power of two")
    if not buckets or buckets > _MOST_BUCKETS:
        raise ElfError(f"its table of hashes has {buckets} buckets")
    table = address + 16 + 8 * bloom
    last = max(memoryview(image.mapped(table, 4 * buckets)).cast("I"))
    if not last:
        return None
    if last < first:
        raise ElfError("its table of hashes is of other symbols")
    chain = table + 4 * buckets + 4 * (last - first)
    # The last chain ends at the last symbol: where the lowest bit is set.
    number = int(last)
    while room := min(image.room(chain) // 4 * 4, _BLOCK):
        for value in memoryview(image.mapped(chain, room)).cast("I"):
            number += 1
            if value & 1:
                return number
        chain += room
    raise ElfError("its table of hashes does not end")


def _relocated(image: ElfImage, dynamic: Dynamic) -> int:
    """Return the highest number of a symbol that a relocation asks for; the loader believes it, whatever the hashes."""
    highest = 0
    for table, size in ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)):
        address, length = dynamic.get(table), dynamic.get(size) or 0
        if address is None or not length:
            continue
        if length % _RELOCATION:
            raise ElfError("its relocations are cut off")
        words = memoryview(image.mapped(address, length)).cast("I")
        asked = max(words[3::6])
        highest = max(highest, asked)
    return highest
