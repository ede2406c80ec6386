"""The records at the end of a zip archive, which say where its directory is (APPNOTE.TXT 4.3.14 to 4.3.16)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

from wheelsmith.base.errors import WheelError

_RECORD = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_RECORD64 = struct.Struct("<4sQ2H2L4Q")
_MAGIC, _LOCATOR_MAGIC, _MAGIC64 = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
_LONGEST_COMMENT = 0xFFFF
_FULL = (0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)  # a field with this value has its true one in the zip64 record
_LEADING = 12  # bytes of a zip64 record that its own size field does not count


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """Where the central directory is.

    :param count: of its entries.
    :param start: its first byte, counted from the beginning of the file.
    :param size: in bytes.
    """

    count: int
    start: int
    size: int


def find_directory(file: BinaryIO, length: int) -> Directory:
    """Return where the one central directory of an archive is.

    :param length: of the file, in bytes.
    :raises WheelError: there is none, or two readers may find two.
    """
    end, values = _end_record(file, length)
    count, size, start = values[1:]
    if located := _zip64(file, end, values):
        end, (count, size, start) = located
    elif any(value == full for value, full in zip(values, _FULL, strict=True)):
        raise WheelError("its end record refers to a zip64 record, and there is none")
    if start + size != end:
        raise WheelError(
            f"its end record says that the directory ends at byte {start + size}, and it ends at byte {end}: "
            "something stands before the archive, or there are two archives in one file"
        )
    return Directory(count=count, start=start, size=size)


def _end_record(file: BinaryIO, length: int) -> tuple[int, tuple[int, int, int, int]]:
    """Return where the end record is, and its counts, size and offset."""
    first = max(0, length - _RECORD.size - _LONGEST_COMMENT)
    file.seek(first)
    tail = file.read(length - first)
    at = len(tail) - _RECORD.size
    if at < 0 or tail[at : at + 4] != _MAGIC or tail[-2:] != b"\0\0":
        at = tail.rfind(_MAGIC)
        if at < 0 or at + _RECORD.size > len(tail):
            raise WheelError("not a readable zip archive: it has no end record")
    _, disk, directory_disk, here, count, size, start, comment = _RECORD.unpack_from(tail, at)
    behind = len(tail) - at - _RECORD.size
    if behind != comment:
        raise WheelError(f"not a readable zip archive: {behind} bytes follow its end record, which says {comment}")
    # uv refuses those that look like a part of an archive.
    text = tail[at + _RECORD.size :]
    if b"PK" in text or not (text.isascii() and text.decode().isprintable()):
        raise WheelError("its comment holds another archive's records, or is no plain text")
    if (disk, directory_disk) != (0, 0) or here != count:
        raise WheelError("it is one of several parts of an archive")
    return first + at, (here, count, size, start)


def _zip64(file: BinaryIO, end: int, values: tuple[int, ...]) -> tuple[int, tuple[int, int, int]] | None:
    """Return where the zip64 end record is with its count, size and offset; None where there is none.

    Readers that know zip64 believe this record wherever there is one, others the plain one: both must say the same.
    """
    if end < _LOCATOR.size + _RECORD64.size:
        return None
    file.seek(end - _LOCATOR.size)
    magic, disk, at, disks = _LOCATOR.unpack(file.read(_LOCATOR.size))
    if magic != _LOCATOR_MAGIC:
        return None
    if disk != 0 or disks > 1 or at != end - _LOCATOR.size - _RECORD64.size:
        raise WheelError("its zip64 end record is not where its locator says")
    file.seek(at)
    magic, size, _, _, one, other, here, count, directory, start = _RECORD64.unpack(file.read(_RECORD64.size))
    if magic != _MAGIC64 or size != _RECORD64.size - _LEADING or (one, other) != (0, 0):
        raise WheelError("its zip64 end record is broken")
    for plain, full, true in zip(values, _FULL, (here, count, directory, start), strict=True):
        if plain not in {full, true}:
            raise WheelError("its end record and its zip64 end record say different things")
    if here != count:
        raise WheelError("it is one of several parts of an archive")
    return at, (count, directory, start)
