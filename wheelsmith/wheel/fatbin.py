"""Which GPU code a binary really holds, read from the containers that nvcc puts into it.

The layout is not published; it is the same from CUDA 11 on, and the tests compare what is read here with what NVIDIA's
own cuobjdump lists.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wheelsmith.errors import WheelError

_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, bytes after the header
_ENTRY = struct.Struct("<HHIQIIHHIIIQ")  # kind, version, header size, padded size, …, arch, …, flags
_PTX, _MACHINE_CODE = 1, 2
_ARCH_SPECIFIC, _FAMILY_SPECIFIC = 0x100000, 0x200000


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCode:
    """What a binary holds, as capabilities: ``8.0``, ``9.0a``."""

    machine_code: frozenset[str]
    ptx: frozenset[str]


def read_fatbins(section: bytes) -> GpuCode:
    """Read a ``.nv_fatbin`` section.

    :raises WheelError: it is not laid out as nvcc lays it out.
    """
    machine: set[str] = set()
    ptx: set[str] = set()
    try:
        for kind, arch, flags in _entries(section):
            suffix = "a" if flags & _ARCH_SPECIFIC else "f" if flags & _FAMILY_SPECIFIC else ""
            capability = f"{arch // 10}.{arch % 10}{suffix}"
            (machine if kind == _MACHINE_CODE else ptx).add(capability)
    except struct.error:
        raise WheelError("the binary's .nv_fatbin section is cut short") from None
    return GpuCode(machine_code=frozenset(machine), ptx=frozenset(ptx))


def _entries(section: bytes) -> Iterator[tuple[int, int, int]]:
    offset = 0
    while offset + _CONTAINER.size <= len(section):
        magic, _, header, size = _CONTAINER.unpack_from(section, offset)
        if magic != _MAGIC:
            offset += 8  # containers are padded to eight bytes
            continue
        position, end = offset + header, offset + header + size
        while position < end:
            entry = _ENTRY.unpack_from(section, position)
            kind, entry_header, padded, arch, flags = entry[0], entry[2], entry[3], entry[8], entry[11]
            if kind in {_PTX, _MACHINE_CODE}:
                yield kind, arch, flags
            if entry_header + padded == 0:
                raise WheelError("the binary's .nv_fatbin section has an empty entry")
            position += entry_header + padded
        offset = end
