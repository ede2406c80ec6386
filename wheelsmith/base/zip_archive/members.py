"""The members of a zip archive: central directory and local headers, which must say the same, with nothing between."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from wheelsmith.base.errors import WheelError
from wheelsmith.base.units import counted
from wheelsmith.base.zip_archive.end import Directory
from wheelsmith.base.zip_archive.extra import ExtraFields, read_extra, true_values

STORED, DEFLATED = 0, 8

_CENTRAL = struct.Struct("<4s4B4HL2L5H2L")
_LOCAL = struct.Struct("<4s2B4HL2L2H")
_DESCRIPTOR, _DESCRIPTOR64 = struct.Struct("<3L"), struct.Struct("<L2Q")
_CENTRAL_MAGIC, _LOCAL_MAGIC, _DESCRIPTOR_MAGIC = b"PK\x01\x02", b"PK\x03\x04", b"PK\x07\x08"
_BEHIND, _UTF8 = 1 << 3, 1 << 11
_FLAGS = _BEHIND | _UTF8 | 0b110  # the two others say how hard the compressor tried
_LABEL, _FOLDER = 0x08, 0x10  # of the attributes of DOS, which every entry has beside its Unix mode
_NEWEST = 63  # the version of APPNOTE.TXT that readers know: zipfile refuses later ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file or folder of an archive.

    :param name: as the archive has it; a folder's ends with a slash.
    :param method: how it is packed: ``STORED`` or ``DEFLATED``.
    :param packed: its size in the archive, in bytes.
    :param size: in bytes.
    :param header: where its local header begins.
    :param start: where its data begins.
    :param mode: its Unix mode, 0 where the archive has none.
    """

    name: str
    method: int
    crc: int
    packed: int
    size: int
    header: int
    start: int
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the central directory."""

    raw: bytes
    name: str
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    header: int
    mode: int


def read_entries(file: BinaryIO, directory: Directory, most: int) -> list[Entry]:
    """Return the entries of a central directory, in its order.

    :param most: entries that are read.
    :raises WheelError: one is not what is read.
    """
    if directory.count > most:
        raise WheelError(f"it unpacks to more than {most} files: it says {directory.count}")
    file.seek(directory.start)
    return list(_entries(file.read(directory.size), directory.count))


def read_members(file: BinaryIO, entries: list[Entry], end: int) -> tuple[Member, ...]:
    """Return the member of each entry.

    :param end: where the central directory begins.
    :raises WheelError: two readers would see two things.
    """
    starts = _data_starts(file, entries, end)
    return tuple(
        Member(
            name=entry.name,
            method=entry.method,
            crc=entry.crc,
            packed=entry.packed,
            size=entry.size,
            header=entry.header,
            start=starts[entry.header],
            mode=entry.mode,
        )
        for entry in entries
    )


def _entries(data: bytes, count: int) -> Iterator[Entry]:
    at = 0
    for number in range(count):
        if len(data) - at < _CENTRAL.size or data[at : at + 4] != _CENTRAL_MAGIC:
            raise WheelError(f"not a readable zip archive: its directory breaks off after {number} of {count} entries")
        fields = _CENTRAL.unpack_from(data, at)
        at += _CENTRAL.size
        lengths = fields[12:15]
        raw, extra, comment = _split(data[at : at + sum(lengths)], lengths)
        at += sum(lengths)
        entry = _entry(fields, raw, extra)
        if comment:
            # uv up to 0.9.5 took it for the next entry: https://advisories.gitlab.com/pkg/pypi/uv/
            raise WheelError(f"{entry.name!r} has a comment in the directory, which some readers take for an entry")
        yield entry
    if at != len(data):
        raise WheelError(f"its directory has {counted(len(data) - at, 'byte')} more than its {count} entries")


def _split(data: bytes, lengths: tuple[int, ...]) -> tuple[bytes, bytes, bytes]:
    if len(data) != sum(lengths):
        raise WheelError("not a readable zip archive: its directory is cut short")
    name, extra = lengths[:2]
    return data[:name], data[name : name + extra], data[name + extra :]


def _entry(fields: tuple[int, ...], raw: bytes, data: bytes) -> Entry:
    _, _, _, needed, _, flags, method, _, _, crc, packed, size, *_, disk, _, attributes, header = fields
    name = _name(raw, flags)
    if needed > _NEWEST or method not in {STORED, DEFLATED}:
        raise WheelError(f"{name!r} is packed by method {method} (version {needed}): 0 and 8 are read")
    if flags & ~_FLAGS:
        raise WheelError(f"not a readable zip archive: {name!r} is encrypted or patched, its flags are {flags:#06x}")
    if disk not in {0, 0xFFFF}:
        raise WheelError(f"{name!r} lies in another part of the archive")
    if attributes & _LABEL:
        raise WheelError(f"{name!r} is the label of a disk by its attributes, and some readers pass over those")
    if attributes & _FOLDER and not name.endswith("/"):
        raise WheelError(f"{name!r} is a folder by its attributes, and a file by its name")
    extra = _extra(name, data, raw)
    try:
        size, packed, header = true_values(extra, size, packed, header)
    except WheelError as error:
        raise WheelError(f"{name!r}: {error.message}") from None
    mode = attributes >> 16
    return Entry(
        raw=raw, name=name, flags=flags, method=method, crc=crc, packed=packed, size=size, header=header, mode=mode
    )


def _name(raw: bytes, flags: int) -> str:
    """Return a name; without the flag for UTF-8, readers choose a code page each for all but ASCII."""
    try:
        return raw.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError:
        raise WheelError(f"not a readable zip archive: the name {raw!r} is neither ASCII nor marked as UTF-8") from None


def _extra(name: str, data: bytes, raw: bytes) -> ExtraFields:
    try:
        extra = read_extra(data)
    except WheelError as error:
        raise WheelError(f"{name!r}: {error.message}") from None
    if extra.path not in {None, raw}:
        raise WheelError(f"{name!r} has a second name, in a Unicode path field: {extra.path!r}")
    return extra


def _data_starts(file: BinaryIO, entries: list[Entry], end: int) -> dict[int, int]:
    """Return where each member's data begins, by where its local header does.

    Readers of streams see local headers only: each must say what the directory says, and follow upon the last one.
    """
    ordered = sorted(entries, key=lambda entry: entry.header)
    first = ordered[0].header if ordered else end
    if first != 0:
        raise WheelError(f"the first {first} bytes are no member's: something stands before the archive")
    places = [*(entry.header for entry in ordered), end]
    return {entry.header: _local(file, entry, following) for entry, following in zip(ordered, places[1:], strict=True)}


def _local(file: BinaryIO, entry: Entry, following: int) -> int:
    """Return where a member's data begins, when its local header and all up to the next one is in order."""
    name = entry.name
    if entry.method == STORED and entry.packed != entry.size:
        raise WheelError(f"{name!r} is stored as it is, in {entry.packed} bytes, and has {entry.size}")
    file.seek(entry.header)
    head = file.read(_LOCAL.size)
    if len(head) < _LOCAL.size or head[:4] != _LOCAL_MAGIC:
        raise WheelError(f"{name!r} has no local header at byte {entry.header}")
    _, _, _, flags, method, _, _, crc, packed, size, length, more = cast("tuple[int, ...]", _LOCAL.unpack(head))
    raw, extra = file.read(length), _extra(name, file.read(more), entry.raw)
    if raw != entry.raw:
        raise WheelError(f"{name!r} is called {raw!r} in its local header")
    if method != entry.method or flags & ~_FLAGS or (flags ^ entry.flags) & _BEHIND:
        raise WheelError(f"{name!r} is packed another way, says its local header")
    if (flags ^ entry.flags) & _UTF8 and not raw.isascii():
        raise WheelError(f"{name!r} has another encoding, says its local header")
    try:
        size, packed, _ = true_values(extra, size, packed)
    except WheelError as error:
        raise WheelError(f"{name!r}: {error.message}") from None
    told, true = (crc, packed, size), (entry.crc, entry.packed, entry.size)
    if told != true and not (flags & _BEHIND and told == (0, 0, 0)):
        raise WheelError(
            f"{name!r} has checksum {crc:08x} and {size} bytes in {packed}, says its local header; the directory says "
            f"{entry.crc:08x} and {entry.size} in {entry.packed}"
        )
    start = entry.header + _LOCAL.size + length + more
    _check_gap(file, entry, following - start - entry.packed, wide=extra.zip64 is not None)
    return start


def _check_gap(file: BinaryIO, entry: Entry, gap: int, *, wide: bool) -> None:
    """Refuse anything between a member's data and the next header but the descriptor that its flags announce."""
    name = entry.name
    if gap < 0:
        raise WheelError(f"{name!r} reaches {-gap} bytes into what follows it")
    if not entry.flags & _BEHIND:
        if gap:
            raise WheelError(f"{gap} bytes behind {name!r} are no member's")
        return
    form = _DESCRIPTOR64 if wide else _DESCRIPTOR
    file.seek(file.tell() + entry.packed)
    data = file.read(gap) if gap <= form.size + len(_DESCRIPTOR_MAGIC) else b""
    if len(data) == form.size + len(_DESCRIPTOR_MAGIC) and data[:4] == _DESCRIPTOR_MAGIC:
        data = data[4:]
    if len(data) != form.size or form.unpack(data) != (entry.crc, entry.packed, entry.size):
        raise WheelError(f"the sizes behind {name!r} are not those of the directory")
