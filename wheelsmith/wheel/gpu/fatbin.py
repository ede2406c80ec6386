"""Read cubins and fatbins.

A cubin is an ELF file for a GPU, from ptxas. A fatbin is a container in which nvcc stores GPU code. NVIDIA documents
neither format. The tests compare with NVIDIA's cuobjdump, which names the kinds of entries.

Containers have the same format since CUDA 11. Up to CUDA 12.9, most cubins have ABI 7: the ELF header has the toolkit
in its version field, and the architecture and "a" in its flags. ABI 8 is for the GPUs of CUDA 12.8 and later, and for
all GPUs since CUDA 13. It has a note with each tool's version and command line. Since CUDA 13, ``.nv.compat`` has the
"a".

This module parses with ``struct``: a wheel may have thousands of cubins with hundreds of sections each, for which
pyelftools would take minutes.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError
from wheelsmith.base.units import counted
from wheelsmith.wheel.gpu.code import Container, FileSlice, GpuCode, capability
from wheelsmith.wheel.gpu.compression import decompress_lz4, decompress_zstandard

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_EM_CUDA = 190
_RELOCATABLE_TYPE, _EXECUTABLE = 1, 2  # e_type
# Magic, OS ABI, type, machine, version, offsets of segments and sections, flags, counts of both, section with names.
_HEADER = struct.Struct("<6sxB8xHHI8xQQI4xHxxHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT_SIZE = 56
# SHT_NULL, SHT_NOBITS, and ptxas's variants of SHT_NOBITS for the GPU's memory spaces.
_WITHOUT_BYTES = frozenset({0, 8, 0x70000007, 0x70000009, 0x7000000A, 0x70000015})
_OLD_ABI, _NEW_ABI = 0x33, 0x41
_OLD_ACCELERATED, _NEW_ACCELERATED = 0x800, 0x8  # flags
_FIRST_ACCELERATED = 90  # the old flag has another meaning for older architectures
_ATTRIBUTE = struct.Struct("<BBH")  # format, number, and the value or its size
_SIZED = 4  # the format of an attribute with a value of the given size
_ACCELERATOR_TARGET = 0x09  # EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET: the "a" of sm_90a
_RELEASE = re.compile(rb"release (\d+\.\d+), V\d")
_TARGET = re.compile(rb"(?:^|[\s\0])--?(?:arch|gpu-name|gpu-architecture)[ =](?:sm|compute)_(\d+)([af]?)(?=[\s\0]|$)")
CONTAINER_MARK = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # magic, version, size of the container's header
# Every module of PTX begins with these two directives. In a JSON string, a newline is two characters.
PTX_HEAD = re.compile(
    rb"\.version(?:\s|\\[nrt])*+(\d{1,2}\.\d{1,2})(?:\s|\\[nrt])*+"
    rb"\.target(?:\s|\\[nrt])*+sm_(\d{2,4})([af]?)(?![a-z\d])"
)
_COMMENTS = re.compile(rb"\s*+(?:(?://[^\n]*\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)\s*+)*+")
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, size of the header, size of the rest
# Kind, version, header size, padded size, compressed size, …, minor, major, arch, …, flags, …, size before compression.
_ENTRY = struct.Struct("<HHIQI4xHHI8xQQQ")
_ENTRY_VERSION = 0x101
_PTX, _ELF, _NVVM, _RELOCATABLE_PTX, _TILE_IR = 1, 2, 8, 0x40, 0x80
_LZ4, _ZSTANDARD, _ACCELERATED, _FAMILY = 0x2000, 0x8000, 0x100000, 0x200000  # flags
_TO_BE_LINKED = b"--compile-only"  # nvcc -rdc=true writes this option of ptxas into the header of PTX


@dataclass(frozen=True, slots=True, kw_only=True)
class Cubin:
    """The facts in a cubin's headers and notes.

    :param capability: its compute capability, e.g. ``9.0a``.
    :param family_known: True if a missing ``f`` proves that the code is not for a family.
    :param linked: True if a GPU can run it without linking.
    :param releases: toolkits (``major.minor``) that made it; several if nvlink combined code from several.
    :param size: in bytes.
    """

    capability: str
    family_known: bool
    linked: bool
    releases: frozenset[str]
    size: int

    def code(self, label: str) -> GpuCode:
        """Return the cubin as ``GpuCode``.

        :param label: its capability in the container.
        """
        made = frozenset({label})
        if self.linked:
            return GpuCode(machine_code=made, assemblers=self.releases)
        return GpuCode(relocatable=made, assemblers=self.releases)


def read_cubin(data: FileSlice) -> Cubin:
    """Read the cubin at the beginning of a slice.

    :raises WheelError: it is not a cubin, or it is broken.
    """
    magic, abi, kind, machine, version, segments, table, flags, segment_count, count, names = _HEADER.unpack(
        data.read(0, _HEADER.size)
    )
    if magic != _MAGIC or machine != _EM_CUDA or kind not in {_RELOCATABLE_TYPE, _EXECUTABLE}:
        raise WheelError("it is not a cubin")
    if not count:  # too many for the header's field; then the first section has the count as its size
        count = _SECTION.unpack(data.read(table, _SECTION.size))[5]
    sections = list(_SECTION.iter_unpack(data.read(table, count * _SECTION.size)))
    held = [start + size for _, kind_, _, _, start, size, *_ in sections if kind_ not in _WITHOUT_BYTES]
    end = max(table + count * _SECTION.size, segments + segment_count * _SEGMENT_SIZE, *held)
    data.part(0, end)
    tools, accelerated = _read_notes(data, sections, names)
    releases = frozenset(found.decode() for found in _RELEASE.findall(tools))
    targets = {(int(number), suffix.decode()) for number, suffix in _TARGET.findall(tools)}
    if abi == _OLD_ABI:
        architecture = flags & 0xFF
        accelerated = bool(flags & _OLD_ACCELERATED) and architecture >= _FIRST_ACCELERATED
        releases = frozenset({f"{version // 10}.{version % 10}"})
    elif abi == _NEW_ABI:
        architecture = flags >> 8 & 0xFFFF
        accelerated |= bool(flags & _NEW_ACCELERATED)
    else:
        raise WheelError(f"its ABI {abi:#x} is unknown")
    if not releases:
        raise WheelError("it does not name the toolkit that made it")
    suffix = "a" if accelerated else "f" if (architecture, "f") in targets else ""
    return Cubin(
        capability=capability(architecture, suffix),
        family_known=abi == _OLD_ABI or bool(targets),
        linked=kind == _EXECUTABLE,
        releases=releases,
        size=end,
    )


def _read_notes(data: FileSlice, sections: list[tuple[int, ...]], names: int) -> tuple[bytes, bool]:
    """Return the notes about the tools that made a cubin, and True if it runs on one architecture only."""
    if names >= len(sections):
        raise WheelError("its sections have no names")
    texts = data.read(sections[names][4], sections[names][5])
    tools, accelerated = b"", False
    for name, _, _, _, start, size, *_ in sections:
        if texts.startswith(b".note.nv.tkinfo\0", name):
            tools += data.read(start, size)
        elif texts.startswith(b".nv.compat\0", name):
            accelerated |= _is_accelerated(data.read(start, size))
    return tools, accelerated


def _is_accelerated(compat: bytes) -> bool:
    at = 0
    while at + _ATTRIBUTE.size <= len(compat):
        form, number, value = _ATTRIBUTE.unpack_from(compat, at)
        if number == _ACCELERATOR_TARGET and form != _SIZED:
            return bool(value & 0xFF == 1)
        at += _ATTRIBUTE.size + (value if form == _SIZED else 0)
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    kind: int
    version: str
    label: str
    flags: int
    size: int
    stored: FileSlice
    linked: bool

    def content(self) -> FileSlice:
        """Return the decompressed content."""
        if not self.flags & (_LZ4 | _ZSTANDARD):
            return self.stored
        data = _decompress(self.stored.read(0, self.stored.size), self.size, self.flags)
        return FileSlice(file=io.BytesIO(data), start=0, size=len(data))


def read_container(data: FileSlice) -> Container:
    """Read the container at the beginning of a slice. Its ``codes`` contain any mistakes."""
    codes: list[GpuCode] = []
    size = _CONTAINER.size
    try:
        codes += (_read_entry(entry, offset) for offset, entry in _read_entries(data))
        size += _CONTAINER.unpack(data.read(0, _CONTAINER.size))[3]
    except WheelError as error:
        codes.append(GpuCode(mistakes=(f"a fatbin: {error.message}",)))
    return Container(size=size, codes=tuple(codes))


def _read_entries(data: FileSlice) -> Iterator[tuple[int, _Entry]]:
    _, _, at, size = _CONTAINER.unpack(data.read(0, _CONTAINER.size))
    if not size:
        raise WheelError("it is empty")
    data = data.part(0, at + size)
    while at < data.size:
        kind, version, header, padded, packed, minor, major, arch, flags, _, unpacked_size = _ENTRY.unpack(
            data.read(at, _ENTRY.size)
        )
        if version != _ENTRY_VERSION or header < _ENTRY.size or not padded:
            raise WheelError(f"its entry at {at:#x} is not valid")
        stored = data.part(at + header, packed or padded)
        entry = _Entry(
            kind=kind,
            version=f"{major}.{minor}",
            label=capability(arch, "a" if flags & _ACCELERATED else "f" if flags & _FAMILY else ""),
            flags=flags,
            size=unpacked_size or padded,
            stored=stored,
            linked=kind != _RELOCATABLE_PTX and _TO_BE_LINKED not in data.read(at, header),
        )
        yield at, entry
        at += header + padded


def _read_entry(entry: _Entry, offset: int) -> GpuCode:
    try:
        if entry.kind == _ELF:
            return _read_machine_code(entry)
        if entry.kind in {_PTX, _RELOCATABLE_PTX}:
            return _read_ptx_entry(entry)
        if entry.kind in {_NVVM, _TILE_IR}:
            return GpuCode(intermediate=frozenset({entry.label}))
        mistake = f"its kind {entry.kind:#x} is unknown"
    except WheelError as error:
        mistake = error.message
    return GpuCode(mistakes=(f"code labelled {entry.label}, entry at {offset:#x} of a fatbin: {mistake}",))


def _read_machine_code(entry: _Entry) -> GpuCode:
    cubin = read_cubin(entry.content())
    own = cubin.capability
    if own != entry.label and (cubin.family_known or f"{own}f" != entry.label):
        raise WheelError(f"the cubin itself is for {own}")
    return cubin.code(entry.label)


def _read_ptx_entry(entry: _Entry) -> GpuCode:
    content = entry.content()
    ptx = read_ptx(content.read(0, content.size))
    if ptx is None:
        raise WheelError("it is not PTX: it does not begin with .version and .target")
    if entry.label not in ptx.ptx:
        raise WheelError(f"the PTX itself is for {', '.join(ptx.ptx)}")
    if entry.version not in ptx.ptx_versions:
        raise WheelError(f"its entry is for PTX {entry.version}, but the PTX itself is {', '.join(ptx.ptx_versions)}")
    return ptx if entry.linked else GpuCode(relocatable=ptx.ptx, ptx_versions=ptx.ptx_versions)


def read_ptx(text: bytes) -> GpuCode | None:
    """Return the target and version of a PTX module, or None if the text does not begin like one."""
    comments = _COMMENTS.match(text)
    head = PTX_HEAD.match(text, comments.end() if comments else 0)
    return ptx_from_head(head) if head else None


def ptx_from_head(head: re.Match[bytes]) -> GpuCode:
    """Return the target and version in the directives of PTX.

    :param head: match of ``PTX_HEAD``.
    """
    made_for = capability(int(head[2]), head[3].decode())
    return GpuCode(ptx=frozenset({made_for}), ptx_versions=frozenset({head[1].decode()}))


def _decompress(stored: bytes, size: int, flags: int) -> bytes:
    """Decompress the content of an entry.

    :raises WheelError: it cannot be decompressed, or its size differs from the entry's.
    """
    data = decompress_lz4(stored, size) if flags & _LZ4 else decompress_zstandard(stored, size)
    if len(data) != size:
        raise WheelError(f"it decompresses to {counted(len(data), 'byte')}, not to {size} as in its entry")
    return data
