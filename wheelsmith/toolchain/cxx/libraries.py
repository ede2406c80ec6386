"""Limit the libraries that extensions are linked with to a manylinux policy.

A library can have several versions of a symbol, such as ``exp@GLIBC_2.2.5`` and ``exp@@GLIBC_2.29``. The linker takes
the one without the hidden mark. So the newest allowed version loses the mark, and all newer ones get it. The linker
then reports a symbol that has only newer versions. The loader finds versions by name and ignores the mark.
https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html

Parts of libstdc++ that are newer than the policy are linked statically, as Red Hat's toolsets do with
libstdc++_nonshared.a. The objects of that archive also define symbols that the policy's libstdc++ has. Extensions must
use those of the shared library, because a second ``std::cout`` or a second set of locks would not be shared with other
libraries. So the linker finds in an object only its newer symbols, and symbols that may be duplicated, such as
templates.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection
from elftools.elf.sections import Symbol, SymbolTableSection

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.units import numbers

_HIDDEN_VERSION, _INDEX = 0x8000, 0x7FFF
_FIRST_NAMED = 2  # the first index of a named version; 0 and 1 are reserved
_NUMBERED = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)")
NONSHARED = "stdc++_nonshared"
_SYMBOL_SIZE, _VISIBILITY_OFFSET = 24, 5  # bytes of a symbol, and the offset of its visibility
_HIDDEN = 2  # STV_HIDDEN
# Replacements for two symbols of newer C libraries that libstdc++ uses. False is always correct for the first, which is
# true while a process has a single thread. The second returns four random bytes.
_C_LIBRARY = """\
#include <sys/random.h>
__attribute__((visibility("hidden"))) char __libc_single_threaded;
__attribute__((visibility("hidden"))) unsigned int arc4random(void)
{
    unsigned int bytes;
    while (getrandom(&bytes, sizeof bytes, 0) != sizeof bytes)
        ;
    return bytes;
}
"""
_TIMEOUT = 300  # seconds


def is_newer(version: str, newest: dict[str, str]) -> bool:
    """Return True if the version of a symbol is newer than allowed.

    :param version: such as ``GLIBC_2.29``. A version without a number, such as ``GLIBC_PRIVATE``, is never newer.
    :param newest: prefix of versions → the newest allowed version.
    """
    match = _NUMBERED.fullmatch(version)
    limit = newest.get(match[1]) if match else None
    return bool(match and limit and numbers(match[2]) > numbers(limit))


def limit_versions(path: Path, newest: dict[str, str]) -> tuple[frozenset[str], frozenset[str]]:
    """Rewrite the marks in a shared library. Return its symbols that the policy allows, and its other symbols.

    :param newest: prefix of versions → the newest allowed version.
    """
    with path.open("r+b") as file:
        library = ELFFile(file)
        section = next((part for part in library.iter_sections() if isinstance(part, GNUVerSymSection)), None)
        if section is None:
            return frozenset(), frozenset()
        symbols = _symbol_versions(library, section)
        marks = dict(_wrong_marks(symbols, newest))
        for number, index in marks.items():
            file.seek(section["sh_offset"] + 2 * number)
            file.write(struct.pack("<H", index))
    allowed = {name for name, versions in symbols.items() for _, _, text in versions if not is_newer(text, newest)}
    return frozenset(allowed), frozenset(symbols.keys() - allowed)


def _symbol_versions(library: ELFFile, versions: GNUVerSymSection) -> dict[str, list[tuple[int, int, str]]]:
    """Return symbol → (number in the symbol table, version index with mark, version) for each version of it."""
    names = {}
    for section in library.iter_sections():
        if isinstance(section, GNUVerDefSection):
            names = {version["vd_ndx"]: next(iter(texts)).name for version, texts in section.iter_versions()}
    symbols = next(part for part in library.iter_sections() if isinstance(part, SymbolTableSection))
    versions_by_symbol = defaultdict(list)
    for number, symbol in enumerate(symbols.iter_symbols()):
        index = versions.get_symbol(number)["ndx"]
        if symbol["st_shndx"] != "SHN_UNDEF" and isinstance(index, int) and index & _INDEX >= _FIRST_NAMED:
            versions_by_symbol[symbol.name].append((number, index, names[index & _INDEX]))
    return versions_by_symbol


def _wrong_marks(symbols: dict[str, list[tuple[int, int, str]]], newest: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Yield (number, version index with mark) for each symbol with a wrong mark."""
    for versions in symbols.values():
        if not any(is_newer(text, newest) for _, index, text in versions if not index & _HIDDEN_VERSION):
            continue  # the default version is allowed
        allowed = [each for each in versions if _NUMBERED.fullmatch(each[2]) and not is_newer(each[2], newest)]
        best = max(allowed, key=lambda each: numbers(each[2].rpartition("_")[2]), default=None)
        for each in versions:
            number, index, _ = each
            yield number, index & _INDEX if each is best else index | _HIDDEN_VERSION


def write_newer_archive(
    archive: Path, target: Path, allowed: frozenset[str], newer: frozenset[str], programs: str
) -> None:
    """Write an archive with the parts of libstdc++ that are newer than the policy.

    :param archive: a static libstdc++ that was compiled for use in shared libraries.
    :param allowed: symbols of the shared library that the policy allows.
    :param newer: its other symbols.
    :param programs: prefix of the paths of ``ar``, ``gcc`` and ``objcopy``.
    :raises ToolchainError: one of these programs failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        _run(f"{programs}ar", "x", str(archive.absolute()), folder=work)
        members = [_read_member(path) for path in sorted(work.glob("*.o"))]
        kept = _add_dependencies([each for each in members if each.defined & newer], members, allowed | newer)
        for member in kept:
            if duplicates := sorted(member.strong & allowed):
                (work / "own").write_text("\n".join(duplicates))
                _run(f"{programs}objcopy", "--localize-symbols=own", member.path.name, folder=work)
            _hide(member.path, allowed)
        (work / "c_library.c").write_text(_C_LIBRARY)
        _run(f"{programs}gcc", "-O2", "-fPIC", "-c", "c_library.c", folder=work)
        target.unlink(missing_ok=True)
        names = sorted(member.path.name for member in kept)
        _run(f"{programs}ar", "crD", str(target.absolute()), "c_library.o", *names, folder=work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """An object of an archive.

    :param offered: symbols that it defines for other objects.
    :param strong: those of them that only one object may define.
    :param needed: undefined symbols.
    """

    path: Path
    defined: frozenset[str]
    strong: frozenset[str]
    undefined: frozenset[str]


def _read_member(path: Path) -> _Member:
    symbols = [(symbol.name, symbol["st_info"]["bind"], symbol["st_shndx"]) for _, symbol in _nonlocal_symbols(path)]
    defined = {name: bind for name, bind, section in symbols if section != "SHN_UNDEF"}
    return _Member(
        path=path,
        defined=frozenset(defined),
        strong=frozenset(name for name, bind in defined.items() if bind == "STB_GLOBAL"),
        undefined=frozenset(name for name, _, section in symbols if section == "SHN_UNDEF"),
    )


def _add_dependencies(members_to_add: list[_Member], members: list[_Member], exported: frozenset[str]) -> list[_Member]:
    """Add, recursively, the members that define the internal symbols which these members use.

    :param exported: symbols of the shared library, which are not internal.
    """
    kept: list[_Member] = []
    while members_to_add:
        kept += members_to_add
        missing = frozenset[str]().union(*(each.undefined for each in kept)) - exported
        missing -= frozenset[str]().union(*(each.defined for each in kept))
        members_to_add = [each for each in members if each.defined & missing]
    return kept


def _nonlocal_symbols(path: Path) -> Iterator[tuple[int, Symbol]]:
    """Yield the offset and the entry of each symbol that is not local to the object."""
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if isinstance(section, SymbolTableSection):
                for number, symbol in enumerate(section.iter_symbols()):
                    if symbol["st_info"]["bind"] != "STB_LOCAL":
                        yield section["sh_offset"] + number * _SYMBOL_SIZE, symbol


def _hide(path: Path, exported: frozenset[str]) -> None:
    """Give hidden visibility to all symbols but ``exported``, so that an extension does not export them."""
    symbols = [(offset, symbol.name) for offset, symbol in _nonlocal_symbols(path) if symbol["st_shndx"] != "SHN_UNDEF"]
    with path.open("r+b") as file:
        for offset, name in symbols:
            if name not in exported:
                file.seek(offset + _VISIBILITY_OFFSET)
                file.write(bytes([_HIDDEN]))


def _run(program: str, *arguments: str, folder: Path) -> None:
    command = [program, *arguments]
    completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
    if completed.returncode:
        raise ToolchainError(f"{Path(program).name} {arguments[-1]}: {completed.stderr.strip()[-300:]}")
