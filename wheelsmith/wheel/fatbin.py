"""Which GPU code a binary really holds, read from the containers that nvcc puts into it.

The layout is not published; it is the same from CUDA 11 on, and the tests compare what is read here with what NVIDIA's
own cuobjdump lists.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wheelsmith.errors import WheelError
from wheelsmith.facts import cuda_toolkits
from wheelsmith.wheel.cubin import assemblers

_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, bytes after the header
# Kind, version, header size, padded size, compressed size, …, minor, major, arch, …, flags, …, size before compression.
_ENTRY = struct.Struct("<HHIQI4xHHI8xQQQ")
_PTX, _MACHINE_CODE = 1, 2
_ARCH_SPECIFIC, _FAMILY_SPECIFIC = 0x100000, 0x200000


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCode:
    """What a binary holds, as capabilities: ``8.0``, ``9.0a``, and what made it, as toolkits: ``12.4``.

    :param assemblers: toolkits whose ptxas made the machine code.
    :param ptx_versions: of the PTX, e.g. ``8.4``: all that is left of what it says of itself.
    """

    machine_code: frozenset[str]
    ptx: frozenset[str]
    assemblers: frozenset[str]
    ptx_versions: frozenset[str]

    @property
    def front_ends(self) -> frozenset[str]:
        """Give the known toolkits that write PTX of these versions."""
        return frozenset(name for name, toolkit in cuda_toolkits().items() if toolkit.ptx in self.ptx_versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    kind: int
    version: str
    arch: int
    flags: int
    stored: bytes
    size: int

    @property
    def capability(self) -> str:
        suffix = "a" if self.flags & _ARCH_SPECIFIC else "f" if self.flags & _FAMILY_SPECIFIC else ""
        return f"{self.arch // 10}.{self.arch % 10}{suffix}"


def read_fatbins(section: bytes) -> GpuCode:
    """Read a ``.nv_fatbin`` section.

    :raises WheelError: it is not laid out as nvcc lays it out.
    """
    try:
        entries = list(_entries(section))
    except struct.error:
        raise WheelError("the binary's .nv_fatbin section is cut short") from None
    machine = [entry for entry in entries if entry.kind == _MACHINE_CODE]
    ptx = [entry for entry in entries if entry.kind == _PTX]
    made = [assemblers(entry.stored, flags=entry.flags, size=entry.size) for entry in machine]
    return GpuCode(
        machine_code=frozenset(entry.capability for entry in machine),
        ptx=frozenset(entry.capability for entry in ptx),
        assemblers=frozenset[str]().union(*made),
        ptx_versions=frozenset(entry.version for entry in ptx),
    )


def _entries(section: bytes) -> Iterator[_Entry]:
    offset = 0
    while offset + _CONTAINER.size <= len(section):
        magic, _, header, size = _CONTAINER.unpack_from(section, offset)
        if magic != _MAGIC:
            offset += 8  # containers are padded to eight bytes
            continue
        position, end = offset + header, offset + header + size
        while position < end:
            kind, _, entry_header, padded, packed, minor, major, arch, flags, _, whole = _ENTRY.unpack_from(
                section, position
            )
            start = position + entry_header
            if kind in {_PTX, _MACHINE_CODE}:
                yield _Entry(
                    kind=kind,
                    version=f"{major}.{minor}",
                    arch=arch,
                    flags=flags,
                    stored=section[start : start + (packed or padded)],
                    size=whole or padded,
                )
            if entry_header + padded == 0:
                raise WheelError("the binary's .nv_fatbin section has an empty entry")
            position = start + padded
        offset = end
