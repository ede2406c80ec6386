"""Section headers: a second witness, which the loader never hears.

Most other tools read a library by its sections. Where those say something else than the dynamic table, somebody is
being told a different story than the loader is.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from wheelsmith.wheel.elf.dynamic import (
    DT_GNU_HASH,
    DT_HASH,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERSYM,
    Dynamic,
)
from wheelsmith.wheel.elf.image import PT_DYNAMIC, ElfError, ElfImage

_SECTION = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC, _DYNSYM, _NOBITS = 6, 11, 8
_VERDEF, _VERNEED = 0x6FFFFFFD, 0x6FFFFFFE
_EXTENDED = 0xFFFF
_MOST_SECTIONS = 200_000
# Type of section → its name, and what the dynamic table says of it.
_WITNESSES = {
    _DYNSYM: (".dynsym", DT_SYMTAB),
    5: (".hash", DT_HASH),
    0x6FFFFFF6: (".gnu.hash", DT_GNU_HASH),
    0x6FFFFFFF: (".gnu.version", DT_VERSYM),
    _VERNEED: (".gnu.version_r", DT_VERNEED),
    _VERDEF: (".gnu.version_d", DT_VERDEF),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfSection:
    """A section header."""

    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int
    info: int


def read_sections(image: ElfImage) -> tuple[ElfSection, ...]:
    """Return the section headers; none where the file has none.

    :raises ElfError: they are not all in the file.
    """
    if not image.section_offset:
        return ()
    if image.section_entry != _SECTION.size:
        raise ElfError(f"its section headers are of {image.section_entry} bytes, not {_SECTION.size}")
    first = _SECTION.unpack(image.at(image.section_offset, _SECTION.size))
    count = image.section_count or first[5]
    names = first[6] if image.section_names == _EXTENDED else image.section_names
    if count > _MOST_SECTIONS:
        raise ElfError(f"it has {count} sections")
    rows = list(_SECTION.iter_unpack(image.at(image.section_offset, count * _SECTION.size)))
    if names >= count:
        raise ElfError("the names of its sections are nowhere")
    strings = image.at(rows[names][4], rows[names][5])
    return tuple(
        ElfSection(
            name=_name(strings, name), kind=kind, address=address, offset=offset, size=size, link=link, info=info
        )
        for name, kind, _, address, offset, size, link, info, *_ in rows
    )


def check_sections(sections: tuple[ElfSection, ...], image: ElfImage, dynamic: Dynamic, count: int | None) -> None:
    """Compare the sections with what the loader reads.

    :param count: of symbols, by the tables of hashes.
    :raises ElfError: they do not say the same.
    """
    if not sections:
        return
    for kind, (name, tag) in _WITNESSES.items():
        _check_witness([s for s in sections if s.kind == kind or s.name == name], kind, name, dynamic.get(tag), image)
    tables = [segment for segment in image.segments if segment.kind == PT_DYNAMIC and segment.file_size]
    address = tables[0].address if tables else None
    _check_witness(
        [s for s in sections if s.kind == _DYNAMIC or s.name == ".dynamic"], _DYNAMIC, ".dynamic", address, image
    )
    for section in sections:
        if section.kind in {_DYNAMIC, _DYNSYM, _VERNEED, _VERDEF}:
            _check_strings(sections, section, image, dynamic)
        if section.kind == _DYNSYM and count is not None and section.size != count * 24:
            raise ElfError(f".dynsym has {section.size // 24} symbols, the table of hashes {count}")


def _check_witness(found: list[ElfSection], kind: int, name: str, address: int | None, image: ElfImage) -> None:
    if address is None:
        if any(section.kind != _NOBITS for section in found):
            raise ElfError(f"it has a section {name}, and the loader reads no such table")
        return
    if len(found) != 1 or found[0].kind != kind or found[0].name != name:
        raise ElfError(f"the loader reads a table that is not in one section {name}")
    if found[0].address != address or found[0].offset != image.offset(address):
        raise ElfError(f"its section {name} is not what the loader reads")


def _check_strings(sections: tuple[ElfSection, ...], section: ElfSection, image: ElfImage, dynamic: Dynamic) -> None:
    strings = sections[section.link] if section.link < len(sections) else None
    said = (".dynstr", dynamic.get(DT_STRTAB), dynamic.get(DT_STRSZ))
    if strings is None or (strings.name, strings.address, strings.size) != said:
        raise ElfError(f"the names of its section {section.name} are not those that the loader reads")
    if strings.offset != image.offset(strings.address):
        raise ElfError("its section .dynstr is not what the loader reads")
    number = {_VERNEED: dynamic.get(DT_VERNEEDNUM), _VERDEF: dynamic.get(DT_VERDEFNUM)}.get(section.kind)
    if number not in {None, section.info}:
        raise ElfError(f"its section {section.name} says that it has {section.info} entries, the loader reads {number}")


def _name(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset, offset + 256)
    return strings[offset:end].decode("ascii", "replace") if 0 <= offset < end else ""
