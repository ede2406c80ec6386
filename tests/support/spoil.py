"""Wheels spoiled at random, always the same for the same seed."""

from __future__ import annotations

import random
from pathlib import Path

from zips import Entry, changed, wheel_entries, write_zip

METADATA = (
    b"Metadata-Version: 2.4\nName: kernel\nVersion: 1+cu130.torch2.11\nSummary: a kernel\nRequires-Python: >=3.9\n"
    b"Requires-Dist: torch==2.11.*\nRequires-Dist: numpy>=1.2; python_version < '3.12' and extra == 'x'\n"
    b"Provides-Extra: x\nLicense-Expression: MIT OR Apache-2.0\nDescription-Content-Type: text/markdown\n\nText.\n"
)
WHEEL = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
POINTS = b"[console_scripts]\nrun-kernel = kernel:main\n"
# What parsers trip over.
PIECES = (
    *(b"\r", b"\n", b"\r\n", b"\n\n", b" ", b"\t", b"\0", b"\x0b", b"\x1c", b"\x85"),
    *(b"\xe2\x80\xa8", b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf"),
    *(b'"', b",", b";", b":", b"=", b"==", b"===", b"~=", b"(", b")", b"[", b"]", b"@", b"%", b"!", b"+", b"-"),
    *(b".", b"*", b"'", b"\\", b" torch", b"extra", b"or ", b"and not in ", b"../", b"sha256=", b"md5=", b"\nFrom me"),
    *(b"\nName: torch", b"\nVersion: 2", b"\nRequires-Dist: ", b"\nTag: ", b"\nBuild: 1"),
    *(b"9" * 50, b"9" * 5000, b"(((("),
)
FIELDS = ("needed", "flags", "method", "crc", "packed", "size", "attributes", "start")
NUMBERS = (0, 1, 8, 12, 0x800, 0x801, 0xFF, 0x7FFF, 0xFFFF, 0xFFFE)
NAME = "kernel-1+cu130.torch2.11-py3-none-any.whl"


def spoiled_wheel(folder: Path, seed: int) -> Path:
    """Write a wheel with a few things spoiled, and give its path."""
    chance = random.Random(seed)
    texts = {"metadata": METADATA, "wheel": WHEEL, "points": POINTS, "record": None}
    path = folder / NAME
    way = chance.randrange(5)
    if way in {0, 1}:
        key = chance.choice(("metadata", "metadata", "metadata", "wheel", "points"))
        for _ in range(chance.choice((1, 1, 2, 5))):
            texts[key] = spoil_text(texts[key], chance)
    entries = wheel_entries(
        {"kernel-1+cu130.torch2.11.dist-info/entry_points.txt": texts["points"], "kernel/é.py": b"x"},
        version="1+cu130.torch2.11",
        metadata=texts["metadata"],
        wheel=texts["wheel"],
    )
    if way == 2:
        entries = changed(entries, len(entries) - 1, data=spoil_text(entries[-1].data, chance))
    if way == 3:
        entries = [spoil_entry(entry, chance) if chance.random() < 0.3 else entry for entry in entries]
    write_zip(path, entries, comment=chance.choice((b"", b"", b"hello")), zip64=chance.choice((None, None, {})))
    if way == 4:
        data = bytearray(path.read_bytes())
        for _ in range(chance.choice((1, 2, 4, 8))):
            spoil_bytes(data, chance)
        path.write_bytes(data)
    return path


def spoil_text(data: bytes, chance: random.Random) -> bytes:
    at, end = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
    end = min(end, at + chance.choice((0, 0, 1, 3, 20)))
    piece = chance.choice((*PIECES, data[at:end] * 3, bytes([chance.randrange(256)])))
    return data[:at] + piece + data[end:]


def spoil_entry(entry: Entry, chance: random.Random) -> Entry:
    side = chance.choice(("local", "central"))
    field = chance.choice(FIELDS)
    value = chance.choice((*NUMBERS, chance.randrange(1 << 16)))
    return changed([entry], 0, **{side: {field: value}})[0]


def spoil_bytes(data: bytearray, chance: random.Random) -> None:
    # The headers at the end are where most of an archive's meaning is.
    at = chance.choice((chance.randrange(len(data)), max(0, len(data) - 1 - chance.randrange(700))))
    how = chance.randrange(4)
    if how == 0:
        data[at] = chance.choice((0, 1, 255, chance.randrange(256)))
    elif how == 1:
        data[at] ^= 1 << chance.randrange(8)
    elif how == 2:
        del data[at : at + chance.choice((1, 4, 22))]
    else:
        data[at:at] = chance.choice((b"PK\5\6", b"PK\1\2", b"PK\3\4", b"\0", data[at : at + 40]))
