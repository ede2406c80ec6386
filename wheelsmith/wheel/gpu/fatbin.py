"""The containers that nvcc puts GPU code into.

The layout is not published; it is the same from CUDA 11 on, and the tests compare what is read here with what NVIDIA's
own cuobjdump lists, whose names the kinds have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.gpu.allowance import UnpackBudget
from wheelsmith.wheel.gpu.code import GpuCode, capability
from wheelsmith.wheel.gpu.compression import LZ4, ZSTANDARD, unpack
from wheelsmith.wheel.gpu.cubin import Cubin, read_cubin
from wheelsmith.wheel.gpu.extent import FileSlice, extent_of
from wheelsmith.wheel.gpu.ptx import read_ptx

BEGINNING = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # magic, version, size of the container's header
# What a program registers at its start, one for each container: magic, version (2 after nvlink), pointers.
REGISTRATION = struct.pack("<I", 0x466243B1)
REGISTRATION_VERSIONS = (struct.pack("<I", 1), struct.pack("<I", 2))
_CONTAINER = struct.Struct("<IHHQ")  # …, bytes after the header
# Kind, version, header size, padded size, compressed size, …, minor, major, arch, …, flags, …, size before compression.
_ENTRY = struct.Struct("<HHIQI4xHHI8xQQQ")
_ENTRY_VERSION = 0x101
_PTX, _ELF, _NVVM, _RELOCATABLE_PTX, _TILE_IR = 1, 2, 8, 0x40, 0x80
_ACCELERATED, _FAMILY = 0x100000, 0x200000
_TEXTS = frozenset({_PTX, _RELOCATABLE_PTX})
_TO_BE_LINKED = b"--compile-only"  # an option of ptxas, which stands in the header of PTX that nvcc -rdc=true made
_ALIGNED = 8
_LONGEST_HEADER = 64 << 10  # bytes of options that are looked at


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
        """Return what it holds, unpacked."""
        if not self.flags & (LZ4 | ZSTANDARD):
            return self.stored
        return extent_of(unpack(self.stored.read(0, self.stored.size), flags=self.flags, size=self.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container.

    :param size: in bytes, with its header; of a broken one, what of it makes sense.
    :param contents: offsets, from its beginning, of the code within it that is not compressed.
    :param codes: what each of its entries holds.
    """

    size: int
    contents: frozenset[int]
    codes: tuple[GpuCode, ...]


def read_container(extent: FileSlice, allowance: UnpackBudget) -> Container:
    """Read the container that begins where the extent begins; what is wrong with it is in what is given.

    :raises WheelError: the allowance is used up.
    """
    codes: list[GpuCode] = []
    contents: set[int] = set()
    size = len(BEGINNING)
    try:
        for offset, entry in _entries(extent):
            contents.add(entry.stored.start - extent.start)
            size = entry.stored.start - extent.start + entry.stored.size
            take = allowance.take_text if entry.kind in _TEXTS else allowance.take
            take(max(entry.size, entry.stored.size))
            codes.append(_read(entry, offset))
        (*_, after) = _CONTAINER.unpack(extent.read(0, _CONTAINER.size))
        size = _CONTAINER.size + after
    except WheelError as error:
        codes.append(GpuCode(mistakes=(f"a fatbin: {error.message}",)))
    return Container(size=size, contents=frozenset(contents), codes=tuple(codes))


def _entries(extent: FileSlice) -> Iterator[tuple[int, _Entry]]:
    if extent.size < _CONTAINER.size:
        raise WheelError("it is cut short")
    _, _, at, size = _CONTAINER.unpack(extent.read(0, _CONTAINER.size))
    end = at + size
    if end > extent.size:
        raise WheelError("it is cut short")
    if not size:
        raise WheelError("it holds nothing")
    while at < end:
        if at + _ENTRY.size > end:
            raise WheelError("it ends within an entry")
        kind, version, header, padded, packed, minor, major, arch, flags, _, whole = _ENTRY.unpack(
            extent.read(at, _ENTRY.size)
        )
        if version != _ENTRY_VERSION or header < _ENTRY.size or header % _ALIGNED:
            raise WheelError(f"its entry at {at:#x} is none")
        if not padded or at + header + padded > end:
            raise WheelError(f"its entry at {at:#x} is cut short")
        compressed = bool(flags & (LZ4 | ZSTANDARD))
        if (
            compressed != bool(packed)
            or compressed != bool(whole)
            or not padded - _ALIGNED < (packed or padded) <= padded
        ):
            raise WheelError(f"its entry at {at:#x} has sizes that contradict each other")
        if flags & _ACCELERATED and flags & _FAMILY:
            raise WheelError(f"its entry at {at:#x} is for one architecture and for its family at once")
        suffix = "a" if flags & _ACCELERATED else "f" if flags & _FAMILY else ""
        yield (
            at,
            _Entry(
                kind=kind,
                version=f"{major}.{minor}",
                label=capability(arch, suffix),
                flags=flags,
                size=whole or padded,
                stored=extent.part(at + header, packed or padded),
                linked=kind != _RELOCATABLE_PTX and _TO_BE_LINKED not in extent.read(at, min(header, _LONGEST_HEADER)),
            ),
        )
        at += header + padded


def _read(entry: _Entry, offset: int) -> GpuCode:
    try:
        if entry.kind == _ELF:
            return _machine_code(entry)
        if entry.kind in _TEXTS:
            return _text(entry)
        if entry.kind in {_NVVM, _TILE_IR}:
            return GpuCode(intermediate=frozenset({entry.label}))
        wrong = f"it is of kind {entry.kind:#x}, which is not known"
    except WheelError as error:
        wrong = error.message
    return GpuCode(mistakes=(f"code labelled {entry.label}, entry at {offset:#x} of a fatbin: {wrong}",))


def _machine_code(entry: _Entry) -> GpuCode:
    content = entry.content()
    cubin = read_cubin(content)
    if not content.size - _ALIGNED < cubin.size <= content.size:
        raise WheelError("the cubin does not fill its entry")
    own = cubin.capability
    if own != entry.label and (cubin.family_known or f"{own}f" != entry.label):
        raise WheelError(f"the cubin itself is for {own}")
    return of_cubin(cubin, entry.label)


def _text(entry: _Entry) -> GpuCode:
    content = entry.content()
    ptx = read_ptx(content.read(0, content.size))
    if ptx.capability != entry.label:
        raise WheelError(f"the PTX itself is for {ptx.capability}")
    if ptx.version != entry.version:
        raise WheelError(f"its entry says PTX {entry.version}, the PTX itself {ptx.version}")
    versions = frozenset({ptx.version})
    if not entry.linked:
        return GpuCode(relocatable=frozenset({entry.label}), ptx_versions=versions)
    return GpuCode(ptx=frozenset({entry.label}), ptx_versions=versions)


def of_cubin(cubin: Cubin, label: str) -> GpuCode:
    """Return a cubin as what a file holds."""
    made = frozenset({label})
    if cubin.linked:
        return GpuCode(machine_code=made, assemblers=cubin.releases)
    return GpuCode(relocatable=made, assemblers=cubin.releases)
