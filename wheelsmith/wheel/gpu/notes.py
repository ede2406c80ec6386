"""What a cubin's notes and attributes say: who made it, for which GPU, and where its kernels end.

None of this is published. The layouts are what cuobjdump prints, and the tests compare the two.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError

EXIT_OFFSETS = 0x1C  # EIATTR_EXIT_INSTR_OFFSETS
ACCELERATED = 0x09  # EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET: the "a" of sm_90a

_NOTE = struct.Struct("<III")
_TOOLKIT_NOTE = 2000
_RELEASE = re.compile(rb"release (\d+\.\d+), V\d")
_TARGET = re.compile(rb"(?:^|[\s\0])--?(?:arch|gpu-name|gpu-architecture)[ =](?:sm|compute)_(\d+)([af]?)(?=[\s\0]|$)")
_SIZED = 4  # the format of an attribute that is followed by so many bytes as it says
_FORMATS = frozenset({1, 2, 3, _SIZED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolmarks:
    """What the tools wrote that made a cubin.

    :param releases: of their toolkits, as ``major.minor``.
    :param targets: the architectures on their command lines: number and suffix.
    """

    releases: frozenset[str]
    targets: frozenset[tuple[int, str]]


def read_toolmarks(section: bytes) -> Toolmarks:
    """Read ``.note.nv.tkinfo``: one note for each tool.

    :raises WheelError: it is not a list of notes.
    """
    releases: set[str] = set()
    targets: set[tuple[int, str]] = set()
    at = 0
    while at < len(section):
        if at + _NOTE.size > len(section):
            raise WheelError("its notes are cut short")
        owner, size, kind = _NOTE.unpack_from(section, at)
        start = at + _NOTE.size + (owner + 3 & ~3)
        at = start + (size + 3 & ~3)
        if start + size > len(section):
            raise WheelError("its notes are cut short")
        if kind == _TOOLKIT_NOTE:
            words = section[start : start + size]
            releases.update(found.decode() for found in _RELEASE.findall(words))
            targets.update((int(number[:6]), suffix.decode()) for number, suffix in _TARGET.findall(words))
    return Toolmarks(releases=frozenset(releases), targets=frozenset(targets))


def attributes(section: bytes) -> Iterator[tuple[int, bytes]]:
    """Read the attributes of ``.nv.info``, ``.nv.info.<kernel>`` or ``.nv.compat``: number and value.

    :raises WheelError: they are not a list of attributes.
    """
    at = 0
    while at < len(section):
        if at + 4 > len(section):
            raise WheelError("its attributes are cut short")
        form, number = section[at], section[at + 1]
        if form not in _FORMATS:
            raise WheelError(f"its attributes have the format {form:#x}, which is not known")
        size = int.from_bytes(section[at + 2 : at + 4], "little") if form == _SIZED else 0
        if at + 4 + size > len(section):
            raise WheelError("its attributes are cut short")
        yield number, section[at + 4 : at + 4 + size] if form == _SIZED else section[at + 2 : at + 4]
        at += 4 + size
