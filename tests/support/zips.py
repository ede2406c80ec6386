"""Zip archives written field by field, so that each field can lie."""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

STORED, DEFLATED = 0, 8
DESCRIPTOR, UTF8 = 8, 2048


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One member; ``local`` and ``central`` override fields of one of its headers."""

    name: str | bytes
    data: bytes = b""
    method: int = DEFLATED
    flags: int = 0
    mode: int = 0o100644
    needed: int = 20
    extra: bytes = b""
    local_extra: bytes | None = None
    comment: bytes = b""
    before: bytes = b""
    after: bytes = b""
    packed: bytes | None = None
    local: dict = field(default_factory=dict)
    central: dict = field(default_factory=dict)
    listed: bool = True
    written: bool = True


def packed(entry: Entry) -> bytes:
    if entry.packed is not None:
        return entry.packed
    if entry.method == DEFLATED:
        made = zlib.compressobj(9, zlib.DEFLATED, -15)
        return made.compress(entry.data) + made.flush()
    return entry.data


def write_zip(path: Path, entries, *, prefix=b"", suffix=b"", comment=b"", end=None, between=b"", zip64=None) -> Path:
    """Write an archive.

    :param end: overrides of the end record: count, here, size, start, comment, disk.
    :param zip64: overrides of the zip64 end record; None writes none.
    """
    out = bytearray(prefix)
    directory = bytearray()
    places = {}
    for number, entry in enumerate(entries):
        raw = entry.name if isinstance(entry.name, bytes) else entry.name.encode()
        flags = entry.flags | (0 if raw.isascii() or isinstance(entry.name, bytes) else UTF8)
        body = packed(entry)
        true = {
            "needed": entry.needed,
            "flags": flags,
            "method": entry.method,
            "crc": zlib.crc32(entry.data),
            "packed": len(body),
            "size": len(entry.data),
            "name": raw,
            "extra": entry.extra,
            "attributes": entry.mode << 16,
            "comment": entry.comment,
        }
        local = dict(true)
        if flags & DESCRIPTOR:
            local |= {"crc": 0, "packed": 0, "size": 0}
        if entry.local_extra is not None:
            local["extra"] = entry.local_extra
        local |= entry.local
        if entry.written:
            out += entry.before
            places[number] = len(out)
            out += struct.pack(
                "<4s5H3L2H",
                *(b"PK\3\4", local["needed"], local["flags"], local["method"], 0, 33),
                *(local["crc"], local["packed"], local["size"], len(local["name"]), len(local["extra"])),
            )
            out += local["name"] + local["extra"] + body
            if flags & DESCRIPTOR and not entry.after:
                out += struct.pack("<4s3L", b"PK\7\x08", true["crc"], true["packed"], true["size"])
            out += entry.after
        central = true | {"start": places.get(number, 0)} | entry.central
        if entry.listed:
            directory += struct.pack(
                "<4s6H3L5H2L",
                *(b"PK\1\2", 0x0314, central["needed"], central["flags"], central["method"], 0, 33),
                *(central["crc"], central["packed"], central["size"], len(central["name"]), len(central["extra"])),
                *(len(central["comment"]), 0, 0, central["attributes"], central["start"]),
            )
            directory += central["name"] + central["extra"] + central["comment"]
    out += between
    count = sum(entry.listed for entry in entries)
    values = {"disk": 0, "here": count, "count": count, "size": len(directory), "start": len(out), "comment": None}
    out += directory
    if zip64 is not None:
        wide = values | {"length": 44, "at": len(out)} | zip64
        out += struct.pack(
            "<4sQ2H2L4Q",
            b"PK\6\6",
            wide["length"],
            45,
            45,
            0,
            0,
            wide["here"],
            wide["count"],
            wide["size"],
            wide["start"],
        )
        out += struct.pack("<4sLQL", b"PK\6\7", 0, wide["at"], 1)
    values |= end or {}
    length = len(comment) if values["comment"] is None else values["comment"]
    out += struct.pack(
        "<4s4H2LH", b"PK\5\6", values["disk"], values["disk"], values["here"], values["count"], values["size"],
        values["start"], length,
    )  # fmt: skip
    path.write_bytes(bytes(out) + comment + suffix)
    return path


def wheel_entries(
    files=None, *, name="kernel", version="1", tag="py3-none-any", metadata=None, wheel=None, record=None
):
    """Return the entries of a wheel that is in order, RECORD last."""
    info = f"{name}-{version}.dist-info"
    contents = {
        f"{name}/__init__.py": b"VALUE = 1\n",
        **(files or {}),
        f"{info}/METADATA": metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": wheel
        or f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n{tag_lines(tag)}".encode(),
    }
    entries = [Entry(name=path, data=data) for path, data in contents.items()]
    rows = "".join(f"{path},{digest(data)},{len(data)}\n" for path, data in contents.items())
    return [*entries, Entry(name=f"{info}/RECORD", data=record or f"{rows}{info}/RECORD,,\n".encode())]


def tag_lines(tag: str) -> str:
    pythons, abis, platforms = (part.split(".") for part in tag.split("-"))
    return "".join(f"Tag: {p}-{a}-{o}\n" for p in pythons for a in abis for o in platforms)


def digest(data: bytes, kind: str = "sha256") -> str:
    return f"{kind}=" + base64.urlsafe_b64encode(hashlib.new(kind, data).digest()).rstrip(b"=").decode()


def changed(entries, number: int = 0, **fields):
    """Return the entries with one of them changed."""
    return [replace(entry, **fields) if place == number else entry for place, entry in enumerate(entries)]
