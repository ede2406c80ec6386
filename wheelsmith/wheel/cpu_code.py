"""Machine code for CPUs in files that no loader of Linux opens: other systems' libraries, and what is packed."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator

from wheelsmith.base.zip_archive import Archive
from wheelsmith.wheel.archive.compressions import UnseenError
from wheelsmith.wheel.archive.packed import PackedAllowance, Unpacker
from wheelsmith.wheel.elf import is_for_the_cpu

_OVERLAP = 64  # bytes: a header may be cut in two
_HEAD = 4096  # bytes, in which a file for Windows says that it is one
# The ELF header up to its own version, in either order of bytes, with a type that files have.
_ELF = re.compile(
    rb"\x7fELF[\x01\x02](?:\x01\x01[\s\S]{9}[\x01-\x04]\x00[\s\S]{2}\x01\x00\x00\x00|\x02\x01[\s\S]{9}\x00[\x01-\x04][\s\S]{2}\x00\x00\x00\x01)"
)
# https://github.com/apple-oss-distributions/xnu, EXTERNAL_HEADERS/mach-o: a magic and a CPU, x86 or ARM, of 64 or 32
# bits; several of them behind one another. Java's classes begin with the same magic, and a number that is no count.
_MACH_O = re.compile(
    rb"\xcf\xfa\xed\xfe[\x07\x0c]\x00\x00\x01|\xce\xfa\xed\xfe[\x07\x0c]\x00\x00\x00|"
    rb"\xca\xfe\xba[\xbe\xbf]\x00\x00\x00[\x01-\x08][\x00\x01]\x00\x00[\x07\x0c]"
)
# https://learn.microsoft.com/en-us/windows/win32/debug/pe-format: the machine, and that it is a library.
_PE_MACHINES = {0x14C: "x86", 0x8664: "x86_64", 0xAA64: "ARM64", 0x1C4: "ARM"}
_PE = re.compile(
    rb"PE\x00\x00(?:\x4c\x01|\x64\x86|\x64\xaa|\xc4\x01)[\x01-\x60]\x00[\s\S]{12}[\xe0\xf0]\x00[\s\S][\x20-\x3f\xa0-\xbf]\x0b[\x01\x02]"
)
_PE_HEADER = struct.Struct("<4sHHIIIHH")
_DLL = 0x2000
_LIBRARIES = (".dll", ".pyd", ".so")
_NET_DIRECTORY = {0x10B: 96 + 14 * 8, 0x20B: 112 + 14 * 8}  # where the optional header names .NET's own


class CpuCodeMarks:
    """Whether a file that is read once, piece by piece, holds machine code for a CPU.

    :param name: of the file.
    """

    def __init__(self, name: str) -> None:
        self.found: str | None = None
        self._name = name
        self._end = b""
        self._begun = False

    def update(self, piece: bytes) -> None:
        """Look at the next piece."""
        if self.found is None:
            data = self._end + piece
            if not self._begun and len(data) >= _OVERLAP:
                self._begun = True
                self.found = _for_windows(data[:_HEAD], self._name)
            self.found = self.found or _anywhere(data)
            # The beginning stays until there is enough of it.
            self._end = data[-_OVERLAP:] if self._begun else data


def find_cpu_code(archive: Archive, size: int) -> dict[str, str]:
    """Return each file that holds machine code for a CPU, with what it is; and each that cannot be looked through.

    What is packed within a file stands behind its name.

    :param size: of the wheel, in bytes.
    """
    found: dict[str, str] = {}
    allowance = PackedAllowance(size)
    for name in archive.files:
        found.update(_within(archive.chunks(name), name, allowance))
    return found


def _within(pieces: Iterable[bytes], name: str, allowance: PackedAllowance) -> Iterator[tuple[str, str]]:
    marks = {name: CpuCodeMarks(name)}

    def watch(inner: str) -> CpuCodeMarks:
        return marks.setdefault(inner, CpuCodeMarks(inner))

    unpacker = Unpacker(name, watch, allowance)
    try:
        for piece in pieces:
            marks[name].update(piece)
            unpacker.update(piece)
    except UnseenError as error:
        yield name, error.message
    yield from ((inner, f"is {mark.found}") for inner, mark in marks.items() if mark.found)


def _anywhere(data: bytes) -> str | None:
    # To look for a few bytes is many times faster than a pattern.
    if b"\x7fELF" in data and any(is_for_the_cpu(match[0]) for match in _ELF.finditer(data)):
        return "machine code in an ELF file"
    if (b"\xfa\xed\xfe" in data or b"\xca\xfe\xba" in data) and _MACH_O.search(data):
        return "machine code for macOS"
    libraries = _PE.finditer(data) if b"PE\0\0" in data else ()
    return next((_library(data, match.start()) for match in libraries if not _is_net(data, match.start())), None)


def _for_windows(head: bytes, name: str) -> str | None:
    """Return what a file is that begins as Windows' files do; None of a program, which a library may bring along."""
    if not head.startswith(b"MZ"):
        return None
    at = int.from_bytes(head[60:64], "little")
    if head[at : at + 4] != b"PE\0\0" or len(head) < at + _PE_HEADER.size or _is_net(head, at):
        return None
    _, machine, *_, flags = _PE_HEADER.unpack_from(head, at)
    is_library = flags & _DLL or name.lower().endswith(_LIBRARIES)
    return _library(head, at) if is_library and machine in _PE_MACHINES else None


def _library(data: bytes, at: int) -> str:
    machine = int.from_bytes(data[at + 4 : at + 6], "little")
    return f"a library for {_PE_MACHINES.get(machine, 'a CPU')} on Windows"


def _is_net(data: bytes, at: int) -> bool:
    """Say whether a file for Windows is one of .NET's, which run on every machine."""
    header = at + _PE_HEADER.size
    directory = _NET_DIRECTORY.get(int.from_bytes(data[header : header + 2], "little"))
    return directory is not None and any(data[header + directory : header + directory + 8])
