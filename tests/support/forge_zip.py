"""Write zip archives byte by byte: local headers, central directory and its end, each for itself.

The layout is APPNOTE.TXT 6.3.10. What is written without a change is what every unzipper reads alike.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

STORED, DEFLATED, BZIP2, LZMA = 0, 8, 12, 14
ENCRYPTED, DESCRIPTOR, PATCHED, STRONG, UTF8, MASKED = 1, 8, 0x20, 0x40, 0x800, 0x2000
DOS, UNIX = 0, 3
FILE, FOLDER, LINK, FIFO = 0o100644, 0o040755, 0o120777, 0o010644
_LOCAL, _CENTRAL, _END = "<IHHHHHIIIHH", "<IHHHHHHIIIHHHHHII", "<IHHHHIIH"
_END64, _LOCATOR = "<IQHHIIQQQQ", "<IIQI"
_FULL = 0xFFFFFFFF


@dataclass(kw_only=True)
class Member:
    """One file of an archive; ``local`` and ``central`` replace fields of one header alone.

    Their keys: ``version``, ``flags``, ``method``, ``time``, ``date``, ``crc``, ``packed``, ``size``, ``name``,
    ``extra``, and for the central directory ``disk``, ``internal``, ``external``, ``offset``, ``comment``, ``made``.
    """

    name: bytes
    data: bytes = b""
    method: int = DEFLATED
    flags: int = 0
    mode: int = FILE
    system: int = UNIX
    extra: bytes = b""
    comment: bytes = b""
    version: int = 20
    local: dict[str, int | bytes] = field(default_factory=dict)
    central: dict[str, int | bytes] = field(default_factory=dict)
    stored: bytes | None = None
    zip64: bool = False
    listed: bool = True
    written: bool = True
    before: bytes = b""
    after: bytes = b""


@dataclass(kw_only=True)
class Archive:
    """An archive.

    :param end: replaces fields of the end record: ``disk``, ``first``, ``here``, ``count``, ``size``, ``offset``,
        ``comment``.
    :param zip64: whether a zip64 end record stands before the end record.
    :param change: the last word on the finished bytes.
    """

    members: list[Member] = field(default_factory=list)
    prefix: bytes = b""
    shifted: bool = True
    suffix: bytes = b""
    comment: bytes = b""
    before_end: bytes = b""
    before_central: bytes = b""
    zip64: bool = False
    end64: dict[str, int] = field(default_factory=dict)
    end: dict[str, int | bytes] = field(default_factory=dict)
    central_order: Callable[[list[Member]], list[Member]] = list
    change: Callable[[bytearray], bytes | bytearray] | None = None

    def member(self, name: str) -> Member:
        """Return the member of that name."""
        return next(m for m in self.members if m.name == name.encode())

    def add(self, name: str | bytes, data: bytes = b"", **how: object) -> Member:
        """Add a file that RECORD does not know."""
        raw = name if isinstance(name, bytes) else name.encode()
        self.members.append(Member(name=raw, data=data, **how))
        return self.members[-1]

    def build(self) -> bytes:
        """Return the archive's bytes."""
        out = bytearray(self.prefix)
        shift = 0 if self.shifted else len(self.prefix)
        offsets: dict[int, int] = {}
        for member in self.members:
            out += member.before
            offsets[id(member)] = len(out) - shift
            if member.written:
                out += _local(member)
            out += member.after
        out += self.before_central
        start = len(out)
        listed = [member for member in self.central_order(self.members) if member.listed]
        for member in listed:
            out += _central(member, offsets[id(member)])
        size = len(out) - start
        out += self.before_end
        if self.zip64:
            out += self._end64(len(out) - shift, len(listed), size, start - shift)
        out += self._end(len(listed), size, start - shift) + self.suffix
        return bytes(self.change(out) if self.change else out)

    def _end64(self, at: int, count: int, size: int, start: int) -> bytes:
        values = {"count": count, "size": size, "offset": start, "at": at, **self.end64}
        head = struct.pack(
            *(_END64, 0x06064B50, 44, 45, 45, 0, 0),
            *(values["count"], values["count"], values["size"], values["offset"]),
        )
        return head + struct.pack(_LOCATOR, 0x07064B50, 0, values["at"], 1)

    def _end(self, count: int, size: int, start: int) -> bytes:
        plain = {"count": count, "size": size, "offset": start}
        if self.zip64:
            plain = {"count": 0xFFFF, "size": _FULL, "offset": _FULL}
        values = {"disk": 0, "first": 0, "here": plain["count"], "comment": len(self.comment), **plain, **self.end}
        fields = (values[key] for key in ("disk", "first", "here", "count", "size", "offset", "comment"))
        return struct.pack(_END, 0x06054B50, *fields) + self.comment


def _packed(member: Member) -> bytes:
    if member.stored is not None:
        return member.stored
    if member.method == DEFLATED:
        squeeze = zlib.compressobj(6, zlib.DEFLATED, -15)
        return squeeze.compress(member.data) + squeeze.flush()
    return member.data


def _plain(member: Member) -> dict[str, int | bytes]:
    packed = _packed(member)
    return {
        "version": member.version,
        "flags": member.flags,
        "method": member.method,
        "time": 0,
        "date": 0x5821,
        "crc": zlib.crc32(member.data),
        "packed": len(packed),
        "size": len(member.data),
        "name": member.name,
        "extra": member.extra,
    }


def _local(member: Member) -> bytes:
    values = _plain(member)
    packed = _packed(member)
    tail = b""
    if member.flags & DESCRIPTOR:
        tail = struct.pack("<IIII", 0x08074B50, values["crc"], len(packed), len(member.data))
        values.update(crc=0, packed=0, size=0)
    if member.zip64:
        values["extra"] = struct.pack("<HHQQ", 1, 16, len(member.data), len(packed)) + member.extra
        values.update(packed=_FULL, size=_FULL, version=45)
    values.update(member.local)
    head = struct.pack(
        *(_LOCAL, 0x04034B50, values["version"], values["flags"], values["method"], values["time"], values["date"]),
        *(values["crc"], values["packed"], values["size"], len(values["name"]), len(values["extra"])),
    )
    return head + values["name"] + values["extra"] + packed + tail


def _central(member: Member, offset: int) -> bytes:
    values = {
        **_plain(member),
        "made": member.system << 8 | 20,
        "disk": 0,
        "internal": 0,
        "external": member.mode << 16,
        "offset": offset,
        "comment": member.comment,
    }
    if member.system == DOS:
        values["external"] = 0
    if member.zip64:
        values["extra"] = struct.pack("<HHQQQ", 1, 24, values["size"], values["packed"], offset) + member.extra
        values.update(packed=_FULL, size=_FULL, offset=_FULL, version=45)
    values.update(member.central)
    head = struct.pack(
        *(_CENTRAL, 0x02014B50, values["made"], values["version"], values["flags"], values["method"]),
        *(values["time"], values["date"], values["crc"], values["packed"], values["size"], len(values["name"])),
        *(len(values["extra"]), len(values["comment"]), values["disk"], values["internal"], values["external"]),
        values["offset"],
    )
    return head + values["name"] + values["extra"] + values["comment"]
