"""Keep the libraries that are linked with to a policy.

A library offers ``exp@GLIBC_2.2.5`` beside ``exp@@GLIBC_2.29``, and the linker takes the one that is not marked as
hidden. So the newest that is allowed loses the mark, and all that are newer get it: who wants what only they have is
told so by the linker. The loader, which asks for a version by its name, does not look at the mark.
https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html

What a policy's libstdc++ does not offer the linker puts into what it links, as Red Hat's toolsets do it with their
libstdc++_nonshared.a. What such an object has besides, and what the policy's library offers, must stay that library's:
a second ``std::cout``, or a second set of locks, would be one that nobody else uses. So of an object only what is newer
is there to be found, and what any object may have a copy of, as of templates.
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
_OWN = 2  # of a library's versions this and higher ones have names
_NUMBERED = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)")
NONSHARED = "stdc++_nonshared"
_SIZE, _OTHER = 24, 5  # bytes of a symbol, and where in it its visibility is
_HIDDEN = 2
# What libstdc++ asks of the newer C library that it was compiled beside: whether there is but one thread, where "no" is
# right at any time; and four random bytes.
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
_LONGEST = 300  # seconds


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
        if not any(is_newer(text, newest) for _, index, text in versions if not index & _HIDDEN_VERSION):
            continue  # what is offered first is allowed
        allowed = [each for each in versions if _NUMBERED.fullmatch(each[2]) and not is_newer(each[2], newest)]
        best = max(allowed, key=lambda each: numbers(each[2].rpartition("_")[2]), default=None)
        for each in versions:
            number, index, _ = each
            yield number, index & _INDEX if each is best else index | _HIDDEN_VERSION


def keep_newer_objects(
    archive: Path, target: Path, allowed: frozenset[str], newer: frozenset[str], programs: str
) -> None:
    """Write an archive of what is newer.

    :param archive: all of libstdc++, compiled for shared libraries.
    :param allowed: what the shared library offers within the policy.
    :param newer: what it offers, but not within the policy.
    :param programs: what ``ar``, ``gcc`` and ``objcopy`` are called, up to that.
    :raises ToolchainError: one of them fails.
    """
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        _run(f"{programs}ar", "x", str(archive.absolute()), folder=work)
        members = [_read(path) for path in sorted(work.glob("*.o"))]
        kept = _with_what_they_need([each for each in members if each.offered & newer], members, allowed | newer)
        for member in kept:
            if own := sorted(member.strong & allowed):
                (work / "own").write_text("\n".join(own))
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

    :param offered: names that others find in it.
    :param strong: of them, those that no other object may have.
    :param needed: names that it looks for in others.
    """

    path: Path
    offered: frozenset[str]
    strong: frozenset[str]
    needed: frozenset[str]


def _read(path: Path) -> _Member:
    found = [(symbol.name, symbol["st_info"]["bind"], symbol["st_shndx"]) for _, symbol in _shared(path)]
    offered = {name: bind for name, bind, section in found if section != "SHN_UNDEF"}
    return _Member(
        path=path,
        offered=frozenset(offered),
        strong=frozenset(name for name, bind in offered.items() if bind == "STB_GLOBAL"),
        needed=frozenset(name for name, _, section in found if section == "SHN_UNDEF"),
    )


def _with_what_they_need(some: list[_Member], members: list[_Member], exported: frozenset[str]) -> list[_Member]:
    """Add the members that others use within the library alone."""
    kept: list[_Member] = []
    while some:
        kept += some
        lacking = frozenset[str]().union(*(each.needed for each in kept)) - exported
        lacking -= frozenset[str]().union(*(each.offered for each in kept))
        some = [each for each in members if each.offered & lacking]
    return kept


def _shared(path: Path) -> Iterator[tuple[int, Symbol]]:
    """Yield what an object offers to others or wants of them, each with its place in the file."""
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if isinstance(section, SymbolTableSection):
                for number, symbol in enumerate(section.iter_symbols()):
                    if symbol["st_info"]["bind"] != "STB_LOCAL":
                        yield section["sh_offset"] + number * _SIZE, symbol


def _hide(path: Path, known: frozenset[str]) -> None:
    """Have what an object is linked into keep to itself all that the library does not offer to others anyway."""
    found = [(place, symbol.name) for place, symbol in _shared(path) if symbol["st_shndx"] != "SHN_UNDEF"]
    with path.open("r+b") as file:
        for place, name in found:
            if name not in known:
                file.seek(place + _OTHER)
                file.write(bytes([_HIDDEN]))


def _run(program: str, *words: str, folder: Path) -> None:
    command = [program, *words]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_LONGEST)
    if answer.returncode:
        raise ToolchainError(f"{Path(program).name} {words[-1]}: {answer.stderr.strip()[-300:]}")
