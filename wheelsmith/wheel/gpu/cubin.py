"""What a cubin is: the ELF file for a GPU that ptxas makes.

The format is not published. Up to CUDA 12.9 most cubins have ABI 7, with the toolkit in the ELF header's version field,
and architecture and "a" in its flags. ABI 8, for the GPUs of CUDA 12.8 and later and for all from CUDA 13 on, has a
note that quotes each tool's own words, and from CUDA 13 on the "a" in ``.nv.compat``. The tests compare with cuobjdump.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.gpu.code import capability
from wheelsmith.wheel.gpu.extent import FileSlice
from wheelsmith.wheel.gpu.notes import ACCELERATED, EXIT_OFFSETS, Toolmarks, attributes, read_toolmarks
from wheelsmith.wheel.gpu.sections import (
    EXECUTABLE,
    HEADER,
    GpuSection,
    Header,
    check_symbols,
    read_header,
    read_sections,
)

_OLD_ABI, _NEW_ABI = 0x33, 0x41
_OLD_ACCELERATED, _NEW_ACCELERATED = 0x800, 0x8
_FIRST_ACCELERATED = 90  # the old flag meant something else before
# Instructions are 128 bits wide from Volta on; the last is the newest that was looked at.
_MAXWELL, _VOLTA, _NEWEST = 50, 70, 121
_WIDE, _NARROW = 16, 8  # bytes of an instruction
_WIDE_EXIT, _NARROW_EXIT = 0x94D, 0xE30  # opcodes: the lowest twelve bits, and the highest
_BELOW_TOP = bytes(
    range(64)
)  # what the last byte of a wide instruction can be: its two top bits are 0 in all that was looked at
_PIECE = 1 << 20  # bytes, of whole instructions


@dataclass(frozen=True, slots=True, kw_only=True)
class Cubin:
    """What a cubin says of itself.

    :param architecture: the number in ``sm_90``.
    :param suffix: ``a``, or ``f`` where its tools' command lines say so, or none.
    :param family_known: whether a missing ``f`` would show.
    :param linked: whether a GPU can run it as it is.
    :param releases: toolkits that made it, as ``major.minor``: one, unless nvlink joined others' code.
    :param size: in bytes.
    """

    architecture: int
    suffix: str
    family_known: bool
    linked: bool
    releases: frozenset[str]
    size: int

    @property
    def capability(self) -> str:
        """Return the compute capability that it is for: ``9.0a``."""
        return capability(self.architecture, self.suffix)


def read_cubin(cubin: FileSlice) -> Cubin:
    """Read a cubin that begins where the extent begins, and check all that its tables say.

    :raises WheelError: it is none, or it is broken.
    """
    header = read_header(cubin.read(0, min(HEADER, cubin.size)))
    if header.abi not in {_OLD_ABI, _NEW_ABI}:
        raise WheelError(f"it has the ABI {header.abi:#x}, which is not known")
    sections, size = read_sections(cubin, header)
    check_symbols(cubin, sections)
    marks, accelerated = _own_words(cubin, sections)
    if header.abi == _OLD_ABI:
        architecture = header.flags & 0xFF
        suffix = "a" if header.flags & _OLD_ACCELERATED and architecture >= _FIRST_ACCELERATED else ""
        releases = frozenset({f"{header.version // 10}.{header.version % 10}"})
    else:
        architecture = header.flags >> 8 & 0xFFFF
        suffix = "a" if accelerated or header.flags & _NEW_ACCELERATED else ""
        releases = marks.releases
        if not releases:
            raise WheelError("it does not say which toolkit made it")
    suffix = _agreed(architecture, suffix, marks)
    _check_code(cubin, sections, header, architecture)
    return Cubin(
        architecture=architecture,
        suffix=suffix,
        family_known=header.abi == _OLD_ABI or bool(marks.targets),
        linked=header.kind == EXECUTABLE,
        releases=releases,
        size=size,
    )


def _own_words(cubin: FileSlice, sections: list[GpuSection]) -> tuple[Toolmarks, bool]:
    """Read the notes, and whether the code is for one architecture only."""
    marks = Toolmarks(releases=frozenset(), targets=frozenset())
    accelerated = False
    for section in sections:
        if section.name == ".note.nv.tkinfo":
            marks = read_toolmarks(cubin.read(section.offset, section.size))
        elif section.name == ".nv.compat":
            words = cubin.read(section.offset, section.size)
            accelerated |= any(number == ACCELERATED and value[0] == 1 for number, value in attributes(words))
    return marks, accelerated


def _agreed(architecture: int, suffix: str, marks: Toolmarks) -> str:
    """Return the suffix, where the header and the tools' command lines say the same."""
    if not marks.targets:
        return suffix
    said = {other for number, other in marks.targets if number == architecture}
    if "f" in said and not suffix:
        return "f"
    if suffix not in said:
        named = ", ".join(f"sm_{number}{other}" for number, other in sorted(marks.targets))
        raise WheelError(f"its header says sm_{architecture}{suffix}, the tools that made it were told {named}")
    return suffix


def _check_code(cubin: FileSlice, sections: list[GpuSection], header: Header, architecture: int) -> None:
    width = _WIDE if architecture >= _VOLTA else _NARROW
    for section in sections:
        if section.executable:
            if not section.size or section.size % width:
                raise WheelError(f"its section {section.name!r} holds no whole instructions")
            if _VOLTA <= architecture <= _NEWEST:
                _check_instructions(cubin, section)
        elif section.name == ".nv.info":
            for _ in attributes(cubin.read(section.offset, section.size)):
                pass
        elif section.name.startswith(".nv.info."):
            _check_exits(cubin, section, sections, header, architecture)


def _check_instructions(cubin: FileSlice, section: GpuSection) -> None:
    for at in range(0, section.size, _PIECE):
        code = cubin.read(section.offset + at, min(_PIECE, section.size - at))
        if code[_WIDE - 1 :: _WIDE].translate(None, _BELOW_TOP) or _has_empty_instruction(code):
            raise WheelError(f"its section {section.name!r} holds what is no instruction")


def _has_empty_instruction(code: bytes) -> bool:
    at = code.find(bytes(_WIDE))
    while at >= 0 and at % _WIDE:
        at = code.find(bytes(_WIDE), at - at % _WIDE + _WIDE)
    return at >= 0


def _check_exits(
    cubin: FileSlice, info: GpuSection, sections: list[GpuSection], header: Header, architecture: int
) -> None:
    """Check that a kernel exits where its attributes say."""
    code = sections[info.info] if info.info < len(sections) else None
    if code is None or f".nv.info.{code.name.removeprefix('.text.')}"[: len(info.name)] != info.name:
        raise WheelError(f"its section {info.name!r} is for no kernel")
    for number, value in attributes(cubin.read(info.offset, info.size)):
        if number != EXIT_OFFSETS or header.kind != EXECUTABLE:
            continue
        if not code.executable or len(value) % 4 or len(value) > code.size:
            raise WheelError(f"its section {info.name!r} is for no kernel")
        for (offset,) in struct.iter_unpack("<I", value):
            if offset + _NARROW > code.size or not _exits(cubin.read(code.offset + offset, _NARROW), architecture):
                raise WheelError(f"the kernel in {code.name!r} does not exit where it says")


def _exits(instruction: bytes, architecture: int) -> bool:
    (word,) = struct.unpack("<Q", instruction)
    if _VOLTA <= architecture <= _NEWEST:
        return bool(word & 0xFFF == _WIDE_EXIT)
    if _MAXWELL <= architecture < _VOLTA:
        return bool(word >> 52 == _NARROW_EXIT)
    return True  # not known
