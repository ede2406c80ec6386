"""A library to link with where the real one comes with a machine's driver: a name, its symbols, and no code."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

# https://gabi.xinuos.com, and the machines of elf.h.
_MACHINES = {"x86_64": 62, "aarch64": 183}
_ET_DYN, _PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 3, 1, 2, 0x6474E551
_EXECUTE, _WRITE, _READ = 1, 2, 4
_DT_NULL, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 4, 5, 6, 10, 11, 14
_GLOBAL_FUNCTION = 0x12
_PAGE = 0x10000  # bytes: as large as on any machine
_HEADER, _SEGMENT, _SECTION, _SYMBOL, _ENTRY = 64, 56, 64, 24, 16  # bytes of one
_SEGMENTS = 4
_FIRST = _HEADER + _SEGMENTS * _SEGMENT  # where contents begin
# Section → type, flags, the section that it is linked with, the size of an entry; in the order of the file.
_SECTIONS = {
    ".text": (1, 6, "", 0),
    ".dynsym": (11, 2, ".dynstr", _SYMBOL),
    ".hash": (5, 2, ".dynsym", 4),
    ".dynstr": (3, 2, "", 0),
    ".dynamic": (6, 3, ".dynstr", _ENTRY),
    ".shstrtab": (3, 0, "", 0),
}
_NUMBERS = {name: number for number, name in enumerate(_SECTIONS, 1)}


def link_stub(soname: str, symbols: Iterable[str], arch: str) -> bytes:
    """Return a shared library for the linker alone: who calls one of its functions crashes.

    :param arch: ``x86_64`` or ``aarch64``.
    """
    names = sorted(set(symbols))
    strings, titles = _Strings([soname, *names]), _Strings(_SECTIONS)
    contents = {
        ".text": bytes(8),
        ".dynsym": bytes(_SYMBOL) + b"".join(_symbol(strings.at(name)) for name in names),
        ".hash": struct.pack(f"<{len(names) + 4}I", 1, len(names) + 1, *_chain(len(names))),
        ".dynstr": strings.data,
        ".dynamic": bytes(_ENTRY * 7),  # filled once all have a place
        ".shstrtab": titles.data,
    }
    places = dict(_placed(contents))
    contents[".dynamic"] = _dynamic(strings, soname, places)
    whole = bytearray(places[".shstrtab"] + len(titles.data) + -len(titles.data) % 8)
    whole[:_FIRST] = _elf_header(arch, len(whole)) + _segments(places[".dynamic"], len(contents[".dynamic"]))
    for name, data in contents.items():
        whole[places[name] : places[name] + len(data)] = data
    sections = (_section(name, titles.at(name), places[name], len(contents[name])) for name in _SECTIONS)
    return bytes(whole) + bytes(_SECTION) + b"".join(sections)


class _Strings:
    """Strings, each ended by a zero byte."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._places: dict[str, int] = {}
        data = bytearray(1)
        for text in strings:
            self._places.setdefault(text, len(data))
            data += text.encode() + b"\0"
        self.data = bytes(data)

    def at(self, text: str) -> int:
        return self._places[text]


def _placed(contents: dict[str, bytes]) -> Iterator[tuple[str, int]]:
    place = _FIRST
    for name, data in contents.items():
        yield name, place
        place += len(data) + -len(data) % 8


def _chain(count: int) -> tuple[int, ...]:
    """Return the one bucket of a table of hashes, and the chain in which all symbols follow one another."""
    return (1 if count else 0, 0, *(number + 1 if number < count else 0 for number in range(1, count + 1)))


def _dynamic(strings: _Strings, soname: str, places: dict[str, int]) -> bytes:
    entries = (
        *((_DT_SONAME, strings.at(soname)), (_DT_HASH, places[".hash"]), (_DT_STRTAB, places[".dynstr"])),
        *((_DT_SYMTAB, places[".dynsym"]), (_DT_STRSZ, len(strings.data)), (_DT_SYMENT, _SYMBOL), (_DT_NULL, 0)),
    )
    return b"".join(struct.pack("<QQ", *entry) for entry in entries)


def _symbol(name: int) -> bytes:
    return struct.pack("<IBBHQQ", name, _GLOBAL_FUNCTION, 0, _NUMBERS[".text"], _FIRST, 8)


def _elf_header(arch: str, table: int) -> bytes:
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH",
        *(_ET_DYN, _MACHINES[arch], 1, 0, _HEADER, table, 0, _HEADER, _SEGMENT, _SEGMENTS, _SECTION),
        *(len(_SECTIONS) + 1, _NUMBERS[".shstrtab"]),
    )


def _segments(dynamic: int, size: int) -> bytes:
    """Return the program headers: all but the dynamic table may be executed, and a loader writes into that alone."""
    rows = (
        (_PT_LOAD, _READ | _EXECUTE, 0, 0, dynamic, _PAGE),
        (_PT_LOAD, _READ | _WRITE, dynamic, dynamic + _PAGE, size, _PAGE),
        (_PT_DYNAMIC, _READ | _WRITE, dynamic, dynamic + _PAGE, size, 8),
        (_PT_GNU_STACK, _READ | _WRITE, 0, 0, 0, 16),
    )
    return b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, place, address, address, length, length, align)
        for kind, flags, place, address, length, align in rows
    )


def _section(name: str, title: int, place: int, size: int) -> bytes:
    kind, flags, link, entry = _SECTIONS[name]
    address = place + _PAGE if name == ".dynamic" else place if flags else 0
    local = 1 if name == ".dynsym" else 0  # of the symbols, how many are of this file alone
    return struct.pack("<IIQQQQIIQQ", title, kind, flags, address, place, size, _NUMBERS.get(link, 0), local, 8, entry)
