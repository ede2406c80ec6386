"""What an ELF file asks of the CPU and the system by its notes, which the loader obeys.

Layout: the x86-64 psABI, "Program Property"; glibc, ``_dl_process_pt_gnu_property`` and ``_dl_process_pt_note``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wheelsmith.wheel.elf.image import PT_GNU_PROPERTY, PT_NOTE, ElfError, ElfImage

_NOTE, _PROPERTY = struct.Struct("<III"), struct.Struct("<II")
_OWNER, _PROPERTIES, _SYSTEM = b"GNU\0", 5, 1  # NT_GNU_PROPERTY_TYPE_0, NT_GNU_ABI_TAG
_NOTE_HEAD = _NOTE.size + len(_OWNER)
_SYSTEM_WORDS = struct.Struct("<IIII")
_LINUX = 0
_PROPERTY_ALIGN = 8  # bytes
_LEAST_ALIGN = 4  # bytes; glibc passes over other notes
_ISA_NEEDED = 0xC0008002  # GNU_PROPERTY_X86_ISA_1_NEEDED
_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))
_LONGEST = 2**16  # bytes of notes; the longest of real libraries have hundreds


def check_notes(image: ElfImage) -> None:
    """Refuse notes that glibc reads where it has mapped nothing.

    :raises ElfError: the loader dies of it.
    """
    for segment in image.segments:
        # Only x86 looks for properties among other notes, too, and glibc looks at no others than these.
        is_read = segment.kind == PT_GNU_PROPERTY or (segment.kind == PT_NOTE and image.arch == "x86_64")
        is_read = is_read and segment.align == _PROPERTY_ALIGN and segment.memory_size > _NOTE.size
        if is_read and image.room(segment.address) < segment.memory_size:
            name = "PT_NOTE" if segment.kind == PT_NOTE else "PT_GNU_PROPERTY"
            raise ElfError(f"notes that the loader reads ({name}) lie in no segment")


def needed_cpu(image: ElfImage) -> str:
    """Return the level of CPU without which the loader refuses the file; empty where every x86-64 will do."""
    if image.arch != "x86_64":
        return ""
    needed = 0
    for kind, content in _notes(image):
        if kind == _PROPERTIES:
            for value in _values(content):
                needed |= value
    return next((name for bit, name in _LEVELS if needed & bit), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The kernel that a note asks for (NT_GNU_ABI_TAG), by which the loader of glibc before 2.36 passes a file over.

    :param linux: whether it is Linux.
    :param release: the oldest one of it, as the loader reads it: a byte each.
    """

    linux: bool
    release: tuple[int, int, int]


def asked_system(image: ElfImage) -> System | None:
    """Return what the first such note asks for, which is the only one that the loader heeds; None without one.

    :raises ElfError: a note does not lie in the file, where the loader reads it before anything is mapped.
    """
    for segment in image.segments:
        least = _NOTE_HEAD + _SYSTEM_WORDS.size
        if segment.kind != PT_NOTE or segment.file_size < least or segment.align < _LEAST_ALIGN:
            continue
        if segment.offset + segment.file_size > image.size:
            raise ElfError("a note (PT_NOTE) does not lie in the file")
        notes = image.at(segment.offset, min(segment.file_size, _LONGEST))
        for kind, content in _read_notes(notes, 8 if segment.align == 8 else 4):  # noqa: PLR2004  # bytes
            if kind == _SYSTEM and len(content) == _SYSTEM_WORDS.size:
                number, *release = _SYSTEM_WORDS.unpack(content)
                major, minor, patch = (part & 0xFF for part in release)
                return System(linux=number == _LINUX, release=(major, minor, patch))
    return None


def _notes(image: ElfImage) -> Iterator[tuple[int, bytes]]:
    """Return the kind and the content of GNU's notes."""
    for segment in image.segments:
        if segment.kind in {PT_NOTE, PT_GNU_PROPERTY}:
            # The loader goes by the address, and only what is mapped is there.
            size = min(segment.file_size, image.room(segment.address), _LONGEST)
            yield from _read_notes(image.mapped(segment.address, size), 8 if segment.align == _PROPERTY_ALIGN else 4)


def _read_notes(notes: bytes, align: int) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _NOTE.size <= len(notes):
        owner, size, kind = _NOTE.unpack_from(notes, at)
        start = _aligned(at + _NOTE.size + owner, align)
        if notes[at + _NOTE.size : at + _NOTE.size + owner] == _OWNER:
            yield kind, notes[start : start + size]
        at = _aligned(start + size, align)


def _values(properties: bytes) -> Iterator[int]:
    at = 0
    while at + _PROPERTY.size + 4 <= len(properties):
        kind, size = _PROPERTY.unpack_from(properties, at)
        if kind == _ISA_NEEDED:
            yield struct.unpack_from("<I", properties, at + _PROPERTY.size)[0]
        at = _aligned(at + _PROPERTY.size + size, 8)


def _aligned(place: int, align: int) -> int:
    return -(-place // align) * align
