"""The tables of a cubin's ELF file."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.gpu.extent import FileSlice

HEADER = 64  # bytes
RELOCATABLE, EXECUTABLE = 1, 2  # e_type

# Class, data, version, ABI, its version; then the header's own fields, as <elf.h> has them.
_IDENT = struct.Struct("<4s5B7x")
_FIELDS = struct.Struct("<HHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SIXTY_FOUR_BIT, _LITTLE_ENDIAN = 2, 1
_NULL, _SYMTAB, _STRTAB = 0, 2, 3
# SHT_NOBITS, and what ptxas has instead of it for the GPU's own kinds of memory.
_WITHOUT_BYTES = frozenset({8, 0x70000007, 0x70000009, 0x7000000A, 0x70000015})
_EXECINSTR = 4
_PT_NULL, _PT_PHDR = 0, 6
_MOST_NAMES = 64 << 20  # bytes
_LONGEST_NAME = 200
_TYPE, _FUNCTION = 0xF, 2  # of st_info; STT_FUNC
_RESERVED = 0xFF00  # section indices from here on are no sections


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands in the first 64 bytes."""

    abi: int
    version: int
    kind: int
    flags: int
    segments: tuple[int, int]
    sections: tuple[int, int]
    names: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSection:
    """One entry of the section table; ``offset`` and ``size`` in bytes, 0 where it has none in the file."""

    name: str
    kind: int
    executable: bool
    offset: int
    size: int
    link: int
    info: int


def read_header(data: bytes) -> Header:
    """Read a cubin's ELF header.

    :raises WheelError: it is not one.
    """
    if len(data) < HEADER:
        raise WheelError("it is cut short")
    magic, width, order, _, abi, _ = _IDENT.unpack_from(data)
    fields = _FIELDS.unpack_from(data, 16)
    kind, _, version, _, segments, sections, flags, size, segment, segment_count, section, section_count, names = fields
    if magic != b"\x7fELF" or fields[1] != 190:  # noqa: PLR2004  # EM_CUDA
        raise WheelError("it is no cubin")
    if (width, order) != (_SIXTY_FOUR_BIT, _LITTLE_ENDIAN) or kind not in {RELOCATABLE, EXECUTABLE}:
        raise WheelError("its ELF header is not that of a cubin")
    if size != HEADER or section != _SECTION.size or (segment_count and segment != _SEGMENT.size):
        raise WheelError("its ELF header is not that of a cubin")
    return Header(
        abi=abi,
        version=version,
        kind=kind,
        flags=flags,
        segments=(segments, segment_count),
        sections=(sections, section_count),
        names=names,
    )


def read_sections(cubin: FileSlice, header: Header) -> tuple[list[GpuSection], int]:
    """Read the section table; return the sections, and how many bytes the whole cubin has.

    :raises WheelError: the tables point outside the cubin, or do not fit together.
    """
    offset, count = header.sections
    if not count:  # more than the header's field can count: then the first section does
        count = _SECTION.unpack(cubin.read(offset, _SECTION.size))[5]
    if count < 2 or header.names >= count or offset < HEADER:  # noqa: PLR2004  # one, and the names of all
        raise WheelError("it has no section table")
    rows = list(_SECTION.iter_unpack(cubin.read(offset, count * _SECTION.size)))
    end = max(offset + count * _SECTION.size, _end_of_segments(cubin, header))
    names = _names(cubin, rows[header.names])
    sections, used = [], 0
    for name, kind, flags, _, start, size, link, info, _, _ in rows:
        called = _name(names, name)
        empty = kind in _WITHOUT_BYTES or kind == _NULL
        if not empty and start + size > cubin.size:
            raise WheelError(f"its section {called!r} reaches beyond its end")
        if link >= count and link < _RESERVED:
            raise WheelError("its sections refer to what is not there")
        end = end if empty else max(end, start + size)
        used += 0 if empty else size
        sections.append(
            GpuSection(
                name=called,
                kind=kind,
                executable=bool(flags & _EXECINSTR),
                offset=0 if empty else start,
                size=0 if empty else size,
                link=link,
                info=info,
            )
        )
    if used > 2 * end:
        raise WheelError("its sections lie over one another")
    return sections, end


def check_symbols(cubin: FileSlice, sections: list[GpuSection]) -> None:
    """Check that each symbol has a name and lies within its section, and that each function is where its name says.

    :raises WheelError: one does not, or is not.
    """
    named: set[int] = set()  # the sections that begin with the function whose name they have
    for table in sections:
        if table.kind == _SYMTAB:
            named |= _functions(cubin, sections, table)
    for number, section in enumerate(sections):
        if section.executable and number not in named:
            raise WheelError(f"its section {section.name!r} has no function of that name")


def _functions(cubin: FileSlice, sections: list[GpuSection], table: GpuSection) -> set[int]:
    if table.size % _SYMBOL.size or table.link >= len(sections) or sections[table.link].kind != _STRTAB:
        raise WheelError("its symbol table is not one")
    names = cubin.read(sections[table.link].offset, sections[table.link].size)
    named: set[int] = set()
    for name, kind, _, number, value, size in _SYMBOL.iter_unpack(cubin.read(table.offset, table.size)):
        if name >= len(names) or (number >= len(sections) and number < _RESERVED):
            raise WheelError("its symbol table refers to what is not there")
        section = sections[number] if 0 < number < len(sections) else None
        if section and section.executable and kind & _TYPE == _FUNCTION:
            if value + size > section.size:
                raise WheelError(f"a function lies outside of its section {section.name!r}")
            if section.name == f".text.{_name(names, name)}"[:_LONGEST_NAME]:
                named.add(number)
    return named


def _end_of_segments(cubin: FileSlice, header: Header) -> int:
    offset, count = header.segments
    if not count:
        return 0
    rows = list(_SEGMENT.iter_unpack(cubin.read(offset, count * _SEGMENT.size)))
    # The first describes this table itself, in every cubin that was looked at.
    own = rows[0]
    if (own[0], own[2], own[5]) != (_PT_PHDR, offset, count * _SEGMENT.size) or any(row[0] == _PT_NULL for row in rows):
        raise WheelError("its program headers are none")
    if any(row[2] + row[5] > cubin.size for row in rows):
        raise WheelError("its program headers reach beyond its end")
    return offset + count * _SEGMENT.size


def _names(cubin: FileSlice, row: tuple[int, ...]) -> bytes:
    if row[1] != _STRTAB or row[5] > _MOST_NAMES:
        raise WheelError("its sections have no names")
    return cubin.read(row[4], row[5])


def _name(names: bytes, at: int) -> str:
    """Read a name, or the beginning of one: mangled C++ can be long."""
    end = names.find(b"\0", at)
    name = names[at : min(end, at + _LONGEST_NAME)].decode("latin-1")
    if end < at or not name.isascii() or not name.isprintable():
        raise WheelError("what it names has no name")
    return name
