"""Where an exception finds its way out of a function: PT_GNU_EH_FRAME, as libgcc's unwinder reads it.

Layout: the LSB, "Exception Frames"; libgcc, ``unwind-dw2-fde-dip.c``. What it does not find ends the process.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator

from wheelsmith.wheel.elf.image import PF_X, PT_GNU_EH_FRAME, ElfError, ElfImage, Segment

_HEAD = struct.Struct("<BBBB")
_VERSION = 1
_OMITTED = 0xFF
_COUNT, _SORTED = 0x03, 0x3B  # udata4; datarel and sdata4, the only table that is searched
_FROM_HERE = 0x10  # pcrel
# Formats of pointers that libgcc reads, but for those of no fixed size.
_FORMATS = {0x00: "<Q", 0x03: "<I", 0x04: "<Q", 0x0B: "<i", 0x0C: "<q"}
_PAIR, _FRAME, _COMMON = struct.Struct("<ii"), struct.Struct("<II"), struct.Struct("<IIB")
_COMMON_VERSIONS = {1, 3, 4}
_ALIGN = 4  # bytes; libgcc passes over a table that lies otherwise
_WIDE = 0xFFFFFFFF  # a length of 64 bits follows
_MOST_FRAMES = 4096  # that are looked at one by one


def check_unwinding(image: ElfImage) -> None:
    """Refuse a table for exceptions that the unwinder cannot follow.

    :raises ElfError: whoever throws through the file ends the process.
    """
    tables = [segment for segment in image.segments if segment.kind == PT_GNU_EH_FRAME]
    if len(tables) > 1:
        raise ElfError("it has two tables for exceptions (PT_GNU_EH_FRAME)")
    for table in tables:
        _check_table(image, table)


def has_unwinding(image: ElfImage) -> bool:
    """Say whether an exception finds any way through the file's functions."""
    return any(segment.kind == PT_GNU_EH_FRAME for segment in image.segments)


def _check_table(image: ElfImage, table: Segment) -> None:
    start = table.address
    if image.room(start) < _HEAD.size:
        raise _wrong("lies in no segment")
    version, pointer, count, kind = _HEAD.unpack(image.mapped(start, _HEAD.size))
    if version != _VERSION:
        raise _wrong(f"is of the version {version}")
    frames, at = _pointer(image, pointer, start + _HEAD.size)
    if frames is not None and not image.room(frames):
        raise _wrong(f"leads to {frames:#x}, where nothing is mapped")
    if kind != _SORTED or count == _OMITTED:
        return  # every frame is looked at in turn
    if count != _COUNT or at % _ALIGN:
        raise _wrong("counts its rows in a way that no linker writes")
    rows = struct.unpack("<I", image.mapped(at, 4))[0]
    _check_rows(image, start, at + 4, rows)


def _pointer(image: ElfImage, encoding: int, at: int) -> tuple[int | None, int]:
    """Return where a pointer leads, and what follows it; None where no linker encodes one so."""
    if encoding == _OMITTED:
        return None, at
    layout = _FORMATS.get(encoding & 0x0F)
    if layout is None:
        raise _wrong(f"has a pointer of the format {encoding:#x}")
    size = struct.calcsize(layout)
    value = struct.unpack(layout, image.mapped(at, size))[0]
    base = {0: 0, _FROM_HERE: at}.get(encoding & 0xF0)
    return (None if base is None else base + value), at + size


def _check_rows(image: ElfImage, start: int, at: int, rows: int) -> None:
    if image.room(at) < rows * _PAIR.size:
        raise _wrong(f"has {rows} rows, more than are mapped")
    pairs = array("i", image.mapped(at, rows * _PAIR.size))
    places, frames = pairs[::2], pairs[1::2]
    if sorted(places) != list(places):
        raise _wrong("is not in order, and is searched as if it were")
    code = [(s.address, s.address + s.memory_size) for s in image.loaded if s.flags & PF_X]
    for row in _some(rows):
        place = start + places[row]
        if not any(first <= place < last for first, last in code):
            raise _wrong(f"has a row for {place:#x}, where no code is")
        _check_frame(image, start + frames[row])


def _some(rows: int) -> Iterator[int]:
    """Return rows of the whole table: all of them, where they are not too many."""
    return iter(range(0, rows, 1 + rows // _MOST_FRAMES))


def _check_frame(image: ElfImage, frame: int) -> None:
    """Refuse what is no frame (FDE) of a common one (CIE)."""
    if image.room(frame) < _FRAME.size:
        raise _wrong(f"leads to a frame at {frame:#x}, where nothing is mapped")
    length, back = _FRAME.unpack(image.mapped(frame, _FRAME.size))
    common = frame + 4 - back
    if length == _WIDE:
        return
    if not back or image.room(frame) < length + 4 or image.room(common) < _COMMON.size:
        raise _wrong(f"leads to {frame:#x}, where no frame is")
    _, identity, version = _COMMON.unpack(image.mapped(common, _COMMON.size))
    if identity or version not in _COMMON_VERSIONS:
        raise _wrong(f"leads to {frame:#x}, a frame that belongs to none")


def _wrong(why: str) -> ElfError:
    return ElfError(f"its table for exceptions (PT_GNU_EH_FRAME) {why}: whoever throws ends the process")
