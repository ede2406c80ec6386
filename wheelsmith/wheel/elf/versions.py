"""Versions of symbols: DT_VERNEED, DT_VERDEF and DT_VERSYM."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from wheelsmith.wheel.elf.dynamic import DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM, Dynamic
from wheelsmith.wheel.elf.image import ElfError, ElfImage

_NEED, _AUXILIARY = struct.Struct("<HHIII"), struct.Struct("<IHHII")
_DEFINITION, _NAME = struct.Struct("<HHHHIII"), struct.Struct("<II")
_MOST = 0x7FFF  # an index has 15 bits
_BASE, _WEAK = 1, 2
_CURRENT = 1  # of the records themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededVersion:
    """A version that a library must have.

    :param weak: the loader only warns where the library lacks it.
    """

    library: str
    name: str
    weak: bool = False


def needed_versions(image: ElfImage, dynamic: Dynamic) -> dict[int, NeededVersion]:
    """Return index → version, of DT_VERNEED, following the chain as the loader does.

    :raises ElfError: the chain and its counts do not say the same, or a hash is not its name's.
    """
    address = dynamic.get(DT_VERNEED)
    found: dict[int, NeededVersion] = {}
    if address is None:
        return found
    entries = 0
    while True:
        entries += 1
        record, count, file, first, following = _NEED.unpack(image.mapped(address, _NEED.size))
        _check_record(record)
        library = dynamic.name(file)
        place = address + first
        for left in range(count, 0, -1):
            digest, flags, index, name, more = _AUXILIARY.unpack(image.mapped(place, _AUXILIARY.size))
            text = dynamic.name(name)
            if digest != sysv_hash(text) or index & _MOST in found:
                raise ElfError(f"its table of needed versions is wrong about {text}")
            found[index & _MOST] = NeededVersion(library=library, name=text, weak=bool(flags & _WEAK))
            _check_chain(more, left, _AUXILIARY.size)
            place += more
        _check_count(entries, following, dynamic.get(DT_VERNEEDNUM))
        if not following:
            return found
        address += following


def defined_versions(image: ElfImage, dynamic: Dynamic) -> dict[int, str]:
    """Return index → version that a library has, of DT_VERDEF; the first, which is the library's name, is not one.

    :raises ElfError: the chain and its counts do not say the same.
    """
    address = dynamic.get(DT_VERDEF)
    found: dict[int, str] = {}
    entries = 0
    while address is not None:
        entries += 1
        record, flags, index, count, digest, first, following = _DEFINITION.unpack(
            image.mapped(address, _DEFINITION.size)
        )
        _check_record(record)
        if not count:
            raise ElfError("it defines a version without a name")
        name = dynamic.name(_NAME.unpack(image.mapped(address + first, _NAME.size))[0])
        if not flags & _BASE:
            if digest != sysv_hash(name):
                raise ElfError(f"its table of versions is wrong about {name}")
            found[index & _MOST] = name
        _check_count(entries, following, dynamic.get(DT_VERDEFNUM))
        address = address + following if following else None
    return found


def sysv_hash(name: str) -> int:
    """Return the hash that the System V ABI has for names."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def _check_record(version: int) -> None:
    # glibc, match_symbol and _dl_check_map_versions of elf/dl-version.c.
    if version != _CURRENT:
        raise ElfError(f"it has a record of the version {version} about versions, which no loader takes")


def _check_chain(more: int, left: int, size: int) -> None:
    if (more == 0) != (left == 1) or 0 < more < size:
        raise ElfError("its table of needed versions is a chain that does not fit its count")


def _check_count(entries: int, following: int, said: int | None) -> None:
    if 0 < following < _NEED.size or entries > _MOST or (not following and said not in {None, entries}):
        raise ElfError("it says that it has more or fewer versions than the chain of them")
