"""What a policy's libstdc++ does not offer, as objects that the linker puts into what it links, for that alone.

As Red Hat's toolsets do it with their libstdc++_nonshared.a. What such an object has besides, and what the policy's
library offers, must stay that library's: a second ``std::cout``, or a second set of locks, would be one that nobody
else uses. So of an object only what is newer is there to be found, and what any object may have a copy of, as of
templates.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

from wheelsmith.base.errors import ToolchainError

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
