"""PT_DYNAMIC: where the loader finds everything else."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from wheelsmith.wheel.elf.image import PF_W, PT_DYNAMIC, ElfError, ElfImage, Segment

DT_NULL, DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB = 0, 1, 2, 4, 5, 6
DT_INIT, DT_FINI, DT_RELAENT, DT_RELSZ, DT_PLTREL = 12, 13, 9, 18, 20
DT_INIT_ARRAY, DT_FINI_ARRAY, DT_INIT_ARRAYSZ, DT_FINI_ARRAYSZ, DT_RELR, DT_RELRENT = 25, 26, 27, 28, 36, 37
DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ = 32, 33
DT_RELA, DT_RELASZ, DT_STRSZ, DT_SYMENT, DT_SONAME, DT_RPATH = 7, 8, 10, 11, 14, 15
DT_TEXTREL, DT_JMPREL, DT_RUNPATH, DT_FLAGS, DT_RELRSZ = 22, 23, 29, 30, 35
DT_GNU_HASH, DT_DEPAUDIT, DT_AUDIT, DT_VERSYM, DT_FLAGS_1 = 0x6FFFFEF5, 0x6FFFFEFB, 0x6FFFFEFC, 0x6FFFFFF0, 0x6FFFFFFB
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
DT_AUXILIARY, DT_FILTER = 0x7FFFFFFD, 0x7FFFFFFF

FLAG_TEXTREL = 0x4  # of DT_FLAGS

_ENTRY = struct.Struct("<QQ")
_MOST_ENTRIES = 20_000
_SEVERAL = {DT_NEEDED, DT_AUXILIARY, DT_FILTER}
_LONGEST_NAME = 2**16  # bytes; the longest mangled names of torch have a tenth of that
_SPARE = 2**20


class Dynamic:
    """The dynamic table and its strings.

    :ivar read_only: whether it lies where nothing may be written, and says so.
    :raises ElfError: the loader would read something else than other readers do, or nothing.
    """

    def __init__(self, image: ElfImage) -> None:
        table = _table(image)
        self.entries = list(_entries(image, table)) if table else []
        self.read_only = table is not None and not table.flags & PF_W and not _writable(image, table)
        self._values: dict[int, int] = {}
        for tag, value in self.entries:
            if tag not in _SEVERAL and self._values.setdefault(tag, value) != value:
                raise ElfError(f"its dynamic table says {tag:#x} twice, and not the same")
        self.strings = b""
        size = self._values.get(DT_STRSZ, 0)
        if (address := self._values.get(DT_STRTAB)) is not None:
            self.strings = image.mapped(address, size)
        # What all names together may take: linkers share ends of names, forgers share everything.
        self._budget = 4 * len(self.strings) + _SPARE

    def get(self, tag: int) -> int | None:
        """Return what a tag says; None where it is not there."""
        return self._values.get(tag)

    def all(self, tag: int) -> tuple[str, ...]:
        """Return every string that a tag names, in order."""
        return tuple(self.name(value) for found, value in self.entries if found == tag)

    def name(self, offset: int) -> str:
        """Return a string of the table.

        :raises ElfError: it does not end in the table, is no text, or all names together are endless.
        """
        end = self.strings.find(b"\0", offset, offset + _LONGEST_NAME)
        if end < 0:
            raise ElfError(f"a name does not end, at {offset:#x} of its strings")
        self._budget -= end - offset
        if self._budget < 0:
            raise ElfError("its names are much longer than the table that they are in")
        try:
            return self.strings[offset:end].decode()
        except UnicodeDecodeError:
            raise ElfError(f"a name is no text, at {offset:#x} of its strings") from None


def _table(image: ElfImage) -> Segment | None:
    tables = [segment for segment in image.segments if segment.kind == PT_DYNAMIC and segment.file_size]
    if len(tables) > 1:
        raise ElfError("it has two dynamic tables")
    return tables[0] if tables else None


def _writable(image: ElfImage, table: Segment) -> bool:
    return bool(image.holder(table.address, table.file_size).flags & PF_W)


def _entries(image: ElfImage, table: Segment) -> Iterator[tuple[int, int]]:
    # The loader goes by the address, other readers by the place in the file.
    if image.offset(table.address, table.file_size) != table.offset:
        raise ElfError("its dynamic table is at one place in the file and at another in memory")
    # glibc writes addresses into it, unless PT_DYNAMIC says that it cannot be written: elf_get_dynamic_info.
    if table.flags & PF_W and not _writable(image, table):
        raise ElfError("its dynamic table lies where nothing may be written, and the loader is told to write to it")
    count = min(table.file_size // _ENTRY.size, _MOST_ENTRIES)
    for tag, value in _ENTRY.iter_unpack(image.at(table.offset, count * _ENTRY.size)):
        if tag == DT_NULL:
            return
        yield tag, value
    raise ElfError("its dynamic table does not end")
