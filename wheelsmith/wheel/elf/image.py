"""An ELF file as the loader maps it: its header and its program headers, within the bounds of the file."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_GNU_STACK, PT_GNU_PROPERTY = 1, 2, 3, 4, 0x6474E551, 0x6474E553
PT_PHDR, PT_TLS, PT_GNU_EH_FRAME, PT_GNU_RELRO = 6, 7, 0x6474E550, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
MACHINES = {62: "x86_64", 183: "aarch64"}

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_CLASS_64, _LITTLE, _CURRENT = 2, 1, 1
_ABIS = {0, 3}  # System V and GNU/Linux, which is all that glibc loads
_PAGE = 4096
_MOST_SEGMENTS = 1000


class ElfError(ValueError):
    """The file is not what a loader would take."""


class OtherMachineError(ElfError):
    """The file is for a machine of which nothing is known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A program header."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Bytes that follow each other in the file and in memory: a segment, or several, as patchelf leaves them."""

    address: int
    offset: int
    size: int


class ElfImage:
    """The file, its header, and what the loader would find at an address.

    :param file: seekable.
    :param size: of the file, in bytes; nothing beyond is asked for.
    :raises ElfError: no loader takes a file with this header.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size
        ident, *fields = _HEADER.unpack(self.at(0, _HEADER.size))
        self.kind, machine, version, _, phoff, self.section_offset, _, _, phentsize, phnum, *sections = fields
        self.section_entry, self.section_count, self.section_names = sections
        _check_ident(ident, machine)
        if version != _CURRENT:
            raise ElfError(f"it is of the version {version} of ELF, which no loader takes")
        self.arch = MACHINES[machine]
        if self.kind not in {ET_REL, ET_EXEC, ET_DYN}:
            raise ElfError(f"its type is {self.kind}, neither a library nor a program")
        if phnum and phentsize != _SEGMENT.size:
            raise ElfError(f"its program headers are of {phentsize} bytes, not {_SEGMENT.size}")
        if phnum > _MOST_SEGMENTS:
            raise ElfError(f"it has {phnum} program headers")
        self.program_headers = self.at(phoff, phnum * _SEGMENT.size) if phnum else b""
        self.segments = tuple(
            Segment(
                kind=kind,
                flags=flags,
                offset=offset,
                address=address,
                file_size=held,
                memory_size=wanted,
                align=align,
            )
            for kind, flags, offset, address, _, held, wanted, align in _SEGMENT.iter_unpack(self.program_headers)
        )
        self.loaded = tuple(segment for segment in self.segments if segment.kind == PT_LOAD)
        self._check_loaded()
        self._runs = tuple(_runs(self.loaded))

    def at(self, offset: int, size: int) -> bytes:
        """Return bytes by their place in the file.

        :raises ElfError: they are not all in it.
        """
        if size < 0 or offset < 0 or offset + size > self.size:
            raise ElfError(f"it is cut off: {size} bytes at {offset:#x} are not there")
        self._file.seek(offset)
        data = self._file.read(size)
        if len(data) != size:
            raise ElfError(f"it is cut off: {size} bytes at {offset:#x} are not there")
        return data

    def offset(self, address: int, size: int = 1) -> int:
        """Return the place in the file of what is mapped at an address.

        :raises ElfError: the file has nothing there, or not that much.
        """
        for run in self._runs:
            within = address - run.address
            if within >= 0 and within + size <= run.size:
                return run.offset + within
        raise ElfError(f"nothing of the file is mapped at {address:#x}")

    def holder(self, address: int, size: int = 1) -> Segment:
        """Return the segment that maps what is at an address.

        :raises ElfError: the file has nothing there, or not that much.
        """
        for segment in self.loaded:
            within = address - segment.address
            if within >= 0 and within + size <= segment.file_size:
                return segment
        raise ElfError(f"nothing of the file is mapped at {address:#x}")

    def mapped(self, address: int, size: int) -> bytes:
        """Return bytes by their address, which the loader reads there.

        :raises ElfError: the file has nothing there, or not that much, or it must not be read.
        """
        if not size:
            return b""
        place = self.offset(address, size)
        parts = (s for s in self.loaded if s.address < address + size and address < s.address + s.file_size)
        # Linux has no page that can be written and not read.
        if not all(segment.flags & (PF_R | PF_W) for segment in parts):
            raise ElfError(f"what the loader reads at {address:#x} must not be read")
        return self.at(place, size)

    def room(self, address: int) -> int:
        """Return how many bytes of the file are mapped from an address on, in one piece."""
        for run in self._runs:
            within = address - run.address
            if 0 <= within < run.size:
                return run.size - within
        return 0

    def _check_loaded(self) -> None:
        """Refuse segments that lie over each other: whole pages are mapped, and the later one hides the earlier."""
        end = 0
        for segment in self.loaded:
            if segment.file_size > segment.memory_size or segment.offset + segment.file_size > self.size:
                raise ElfError("a segment is larger than the file")
            if (segment.offset - segment.address) % _PAGE:
                raise ElfError("a segment does not lie on a page as in memory")
            if segment.address - segment.address % _PAGE < end:
                raise ElfError("two segments lie over each other, or are out of order")
            end = -(-(segment.address + segment.memory_size) // _PAGE) * _PAGE


def _runs(loaded: Iterable[Segment]) -> Iterator[_Run]:
    last: _Run | None = None
    for segment in loaded:
        found = _Run(address=segment.address, offset=segment.offset, size=segment.file_size)
        if last and (last.address + last.size, last.offset + last.size) == (found.address, found.offset):
            found = _Run(address=last.address, offset=last.offset, size=last.size + found.size)
        elif last:
            yield last
        # What is zeroed behind a segment ends what can be read in one piece.
        last = found
        if segment.memory_size != segment.file_size:
            yield found
            last = None
    if last:
        yield last


def _check_ident(ident: bytes, machine: int) -> None:
    if ident[:4] != b"\x7fELF":
        raise ElfError("it is no ELF file")
    if ident[4] != _CLASS_64 or ident[5] != _LITTLE or ident[6] != _CURRENT:
        kind = OtherMachineError if {*ident[4:6]} <= {1, 2} and ident[6] == _CURRENT else ElfError
        raise kind("it is not for a 64-bit little-endian machine")
    if ident[7] not in _ABIS:
        raise ElfError(f"it is for an operating system with the number {ident[7]}, not for Linux")
    # glibc, open_verify of elf/dl-load.c: a version of the ABI, or padding that is not zero, is refused.
    if any(ident[8:]):
        raise ElfError("its header has a version of the ABI that no loader on Linux takes, or padding that is not zero")
    if machine not in MACHINES:
        raise OtherMachineError(f"it is for a machine with the number {machine}, neither x86_64 nor aarch64")
