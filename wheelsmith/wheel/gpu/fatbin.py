"""Read the containers that nvcc puts GPU code into.

The layout is not published; it is the same from CUDA 11 on, and the tests compare with NVIDIA's own cuobjdump, which
names the kinds.
"""

from __future__ import annotations

import io
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from wheelsmith.base.errors import WheelError
from wheelsmith.base.units import counted
from wheelsmith.wheel.gpu.code import FileSlice, GpuCode, capability
from wheelsmith.wheel.gpu.cubin import read_cubin

CONTAINER_MARK = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # magic, version, size of the container's header
# Two directives begin every module of PTX. In a string of another language, JSON's, ends of lines are two letters.
PTX_HEAD = re.compile(
    rb"\.version(?:\s|\\[nrt])*+(\d{1,2}\.\d{1,2})(?:\s|\\[nrt])*+"
    rb"\.target(?:\s|\\[nrt])*+sm_(\d{2,4})([af]?)(?![a-z\d])"
)
_COMMENTS = re.compile(rb"\s*+(?:(?://[^\n]*\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)\s*+)*+")
_CONTAINER = struct.Struct("<IHHQ")  # …, bytes after the header
# Kind, version, header size, padded size, compressed size, …, minor, major, arch, …, flags, …, size before compression.
_ENTRY = struct.Struct("<HHIQI4xHHI8xQQQ")
_ENTRY_VERSION = 0x101
_PTX, _ELF, _NVVM, _RELOCATABLE_PTX, _TILE_IR = 1, 2, 8, 0x40, 0x80
_LZ4, _ZSTANDARD, _ACCELERATED, _FAMILY = 0x2000, 0x8000, 0x100000, 0x200000  # flags
_TO_BE_LINKED = b"--compile-only"  # an option of ptxas, which stands in the header of PTX that nvcc -rdc=true made


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container.

    :param size: in bytes, with its header; of a broken one, the header's alone.
    :param codes: the GPU code of each entry.
    """

    size: int
    codes: tuple[GpuCode, ...]


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
        """Return the content, unpacked."""
        if not self.flags & (_LZ4 | _ZSTANDARD):
            return self.stored
        data = _unpack(self.stored.read(0, self.stored.size), self.size, self.flags)
        return FileSlice(file=io.BytesIO(data), start=0, size=len(data))


def read_container(data: FileSlice) -> Container:
    """Read the container at the beginning of a slice; its ``codes`` tell what is wrong with it."""
    codes: list[GpuCode] = []
    size = _CONTAINER.size
    try:
        codes += (_read(entry, offset) for offset, entry in _entries(data))
        size += _CONTAINER.unpack(data.read(0, _CONTAINER.size))[3]
    except WheelError as error:
        codes.append(GpuCode(mistakes=(f"a fatbin: {error.message}",)))
    return Container(size=size, codes=tuple(codes))


def _entries(data: FileSlice) -> Iterator[tuple[int, _Entry]]:
    _, _, at, size = _CONTAINER.unpack(data.read(0, _CONTAINER.size))
    if not size:
        raise WheelError("it holds nothing")
    data = data.part(0, at + size)
    while at < data.size:
        kind, version, header, padded, packed, minor, major, arch, flags, _, whole = _ENTRY.unpack(
            data.read(at, _ENTRY.size)
        )
        if version != _ENTRY_VERSION or header < _ENTRY.size or not padded:
            raise WheelError(f"its entry at {at:#x} is none")
        stored = data.part(at + header, packed or padded)
        entry = _Entry(
            kind=kind,
            version=f"{major}.{minor}",
            label=capability(arch, "a" if flags & _ACCELERATED else "f" if flags & _FAMILY else ""),
            flags=flags,
            size=whole or padded,
            stored=stored,
            linked=kind != _RELOCATABLE_PTX and _TO_BE_LINKED not in data.read(at, header),
        )
        yield at, entry
        at += header + padded


def _read(entry: _Entry, offset: int) -> GpuCode:
    try:
        if entry.kind == _ELF:
            return _machine_code(entry)
        if entry.kind in {_PTX, _RELOCATABLE_PTX}:
            return _ptx(entry)
        if entry.kind in {_NVVM, _TILE_IR}:
            return GpuCode(intermediate=frozenset({entry.label}))
        wrong = f"it is of kind {entry.kind:#x}, which is not known"
    except WheelError as error:
        wrong = error.message
    return GpuCode(mistakes=(f"code labelled {entry.label}, entry at {offset:#x} of a fatbin: {wrong}",))


def _machine_code(entry: _Entry) -> GpuCode:
    cubin = read_cubin(entry.content())
    own = cubin.capability
    if own != entry.label and (cubin.family_known or f"{own}f" != entry.label):
        raise WheelError(f"the cubin itself is for {own}")
    return cubin.code(entry.label)


def _ptx(entry: _Entry) -> GpuCode:
    content = entry.content()
    ptx = read_ptx(content.read(0, content.size))
    if ptx is None:
        raise WheelError("it does not begin as PTX does, with .version and .target")
    if entry.label not in ptx.ptx:
        raise WheelError(f"the PTX itself is for {', '.join(ptx.ptx)}")
    if entry.version not in ptx.ptx_versions:
        raise WheelError(f"its entry says PTX {entry.version}, the PTX itself {', '.join(ptx.ptx_versions)}")
    return ptx if entry.linked else GpuCode(relocatable=ptx.ptx, ptx_versions=ptx.ptx_versions)


def read_ptx(text: bytes) -> GpuCode | None:
    """Return what a module of PTX was written for; None if the text does not begin as one."""
    comments = _COMMENTS.match(text)
    head = PTX_HEAD.match(text, comments.end() if comments else 0)
    return ptx_code(head) if head else None


def ptx_code(head: re.Match[bytes]) -> GpuCode:
    """Return what PTX with this head was written for."""
    made_for = capability(int(head[2]), head[3].decode())
    return GpuCode(ptx=frozenset({made_for}), ptx_versions=frozenset({head[1].decode()}))


def _unpack(stored: bytes, size: int, flags: int) -> bytes:
    """Decompress the content of an entry.

    :raises WheelError: it has another size than its entry says.
    """
    data = _lz4(stored, size) if flags & _LZ4 else _zstandard(stored, size)
    if len(data) != size:
        raise WheelError(f"it unpacks to {counted(len(data), 'byte')}, not to the {size} that its entry says")
    return data


def _lz4(stored: bytes, size: int) -> bytes:
    module = import_module("lz4.block")
    try:
        return bytes(module.decompress(stored, uncompressed_size=size))
    except (module.LZ4BlockError, OverflowError, ValueError) as error:
        raise WheelError(f"it cannot be decompressed: {error}") from None


def _zstandard(stored: bytes, size: int) -> bytes:
    # The standard library has it from Python 3.14 on; before, the same code comes as a package.
    module = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    try:
        return bytes(module.ZstdDecompressor().decompress(stored, max_length=size))
    except (module.ZstdError, OverflowError) as error:
        raise WheelError(f"it cannot be decompressed: {error}") from None
