"""Read a cubin: the ELF file for a GPU that ptxas makes.

The format is not published. Up to CUDA 12.9 most cubins have ABI 7, with the toolkit in the ELF header's version field,
and architecture and "a" in its flags. ABI 8, for the GPUs of CUDA 12.8 and later and for all from CUDA 13 on, has a
note with each tool's version and command line, and from CUDA 13 on the "a" in ``.nv.compat``. The tests compare with
cuobjdump. A cubin has hundreds of sections and a wheel thousands of cubins: pyelftools would take minutes.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.gpu.code import FileSlice, GpuCode, capability

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_EM_CUDA = 190
_RELOCATABLE, _EXECUTABLE = 1, 2  # e_type
# Magic, OS ABI, type, machine, version, program headers, sections, flags, counts of the two and the section of names.
_HEADER = struct.Struct("<6sxB8xHHI8xQQI4xHxxHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT_SIZE = 56
# SHT_NULL, SHT_NOBITS, and what ptxas has instead of the latter for the GPU's own kinds of memory.
_WITHOUT_BYTES = frozenset({0, 8, 0x70000007, 0x70000009, 0x7000000A, 0x70000015})
_OLD_ABI, _NEW_ABI = 0x33, 0x41
_OLD_ACCELERATED, _NEW_ACCELERATED = 0x800, 0x8  # flags
_FIRST_ACCELERATED = 90  # the old flag meant something else before
_ATTRIBUTE = struct.Struct("<BBH")  # format, number, and the value or its size
_SIZED = 4  # the format of an attribute that is followed by its value
_ACCELERATOR_TARGET = 0x09  # EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET: the "a" of sm_90a
_RELEASE = re.compile(rb"release (\d+\.\d+), V\d")
_TARGET = re.compile(rb"(?:^|[\s\0])--?(?:arch|gpu-name|gpu-architecture)[ =](?:sm|compute)_(\d+)([af]?)(?=[\s\0]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cubin:
    """A cubin's own description.

    :param capability: the compute capability that it is for: ``9.0a``.
    :param family_known: whether a missing ``f`` would show.
    :param linked: whether a GPU can run it as it is.
    :param releases: toolkits that made it, as ``major.minor``: one, unless nvlink joined others' code.
    :param size: in bytes.
    """

    capability: str
    family_known: bool
    linked: bool
    releases: frozenset[str]
    size: int

    def code(self, label: str) -> GpuCode:
        """Return it as GPU code.

        :param label: its capability, as its container has it.
        """
        made = frozenset({label})
        if self.linked:
            return GpuCode(machine_code=made, assemblers=self.releases)
        return GpuCode(relocatable=made, assemblers=self.releases)


def read_cubin(data: FileSlice) -> Cubin:
    """Read the cubin at the beginning of a slice.

    :raises WheelError: it is none, or it is broken.
    """
    magic, abi, kind, machine, version, segments, table, flags, segment_count, count, names = _HEADER.unpack(
        data.read(0, _HEADER.size)
    )
    if magic != _MAGIC or machine != _EM_CUDA or kind not in {_RELOCATABLE, _EXECUTABLE}:
        raise WheelError("it is no cubin")
    if not count:  # more than the header's field can count: then the first section does
        count = _SECTION.unpack(data.read(table, _SECTION.size))[5]
    sections = list(_SECTION.iter_unpack(data.read(table, count * _SECTION.size)))
    held = [start + size for _, kind_, _, _, start, size, *_ in sections if kind_ not in _WITHOUT_BYTES]
    end = max(table + count * _SECTION.size, segments + segment_count * _SEGMENT_SIZE, *held)
    data.part(0, end)
    tools, accelerated = _notes(data, sections, names)
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
        raise WheelError(f"it has the ABI {abi:#x}, which is not known")
    if not releases:
        raise WheelError("it does not say which toolkit made it")
    suffix = "a" if accelerated else "f" if (architecture, "f") in targets else ""
    return Cubin(
        capability=capability(architecture, suffix),
        family_known=abi == _OLD_ABI or bool(targets),
        linked=kind == _EXECUTABLE,
        releases=releases,
        size=end,
    )


def _notes(data: FileSlice, sections: list[tuple[int, ...]], names: int) -> tuple[bytes, bool]:
    """Return the notes of the tools that made a cubin, and whether it is for one architecture only."""
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
