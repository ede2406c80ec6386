"""Keep the linker from versions of symbols that are newer than a policy allows.

A library offers ``exp@GLIBC_2.2.5`` beside ``exp@@GLIBC_2.29``, and the linker takes the one that is not marked as
hidden. So the newest that is allowed loses the mark, and all that are newer get it: who wants what only they have is
told so by the linker. The loader, which asks for a version by its name, does not look at the mark.
https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from wheelsmith.base.units import numbers

_HIDDEN, _INDEX = 0x8000, 0x7FFF
_OWN = 2  # of a library's versions this and higher ones have names
_NUMBERED = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)")


def is_newer(version: str, newest: dict[str, str]) -> bool:
    """Say whether a version of a symbol is newer than allowed.

    :param version: e.g. ``GLIBC_2.29``; what has no number, as ``GLIBC_PRIVATE``, is not.
    :param newest: prefix → the newest that is allowed.
    """
    match = _NUMBERED.fullmatch(version)
    limit = newest.get(match[1]) if match else None
    return bool(match and limit and numbers(match[2]) > numbers(limit))


def limit_versions(path: Path, newest: dict[str, str]) -> tuple[frozenset[str], frozenset[str]]:
    """Rewrite a shared library's marks; return the names that it offers within the policy, and all others of it.

    :param newest: prefix of versions → the newest that is allowed.
    """
    with path.open("r+b") as file:
        library = ELFFile(file)
        found = next((part for part in library.iter_sections() if isinstance(part, GNUVerSymSection)), None)
        if found is None:
            return frozenset(), frozenset()
        offered = _offered(library, found)
        marks = dict(_marks(offered, newest))
        for number, index in marks.items():
            file.seek(found["sh_offset"] + 2 * number)
            file.write(struct.pack("<H", index))
    allowed = {name for name, versions in offered.items() for _, _, text in versions if not is_newer(text, newest)}
    return frozenset(allowed), frozenset(offered.keys() - allowed)


def _offered(library: ELFFile, versions: GNUVerSymSection) -> dict[str, list[tuple[int, int, str]]]:
    """Return name → its number in the table, the version's mark, and the version, for each version that it has."""
    names = {}
    for section in library.iter_sections():
        if isinstance(section, GNUVerDefSection):
            names = {version["vd_ndx"]: next(iter(texts)).name for version, texts in section.iter_versions()}
    symbols = next(part for part in library.iter_sections() if isinstance(part, SymbolTableSection))
    offered = defaultdict(list)
    for number, symbol in enumerate(symbols.iter_symbols()):
        index = versions.get_symbol(number)["ndx"]
        if symbol["st_shndx"] != "SHN_UNDEF" and isinstance(index, int) and index & _INDEX >= _OWN:
            offered[symbol.name].append((number, index, names[index & _INDEX]))
    return offered


def _marks(offered: dict[str, list[tuple[int, int, str]]], newest: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Yield a symbol's number and its new mark, where it has the wrong one."""
    for versions in offered.values():
        if not any(is_newer(text, newest) for _, index, text in versions if not index & _HIDDEN):
            continue  # what is offered first is allowed
        allowed = [each for each in versions if _NUMBERED.fullmatch(each[2]) and not is_newer(each[2], newest)]
        best = max(allowed, key=lambda each: numbers(each[2].rpartition("_")[2]), default=None)
        for each in versions:
            number, index, _ = each
            yield number, index & _INDEX if each is best else index | _HIDDEN
