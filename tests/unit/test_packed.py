"""What is packed within a file: all of it is seen, however it comes in pieces, and never more than the bounds."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import zipfile

import pytest

from wheelsmith.wheel.archive.compressions import UnseenError
from wheelsmith.wheel.archive.packed import PackedAllowance, Unpacker
from wheelsmith.wheel.cpu_code import CpuCodeMarks

_ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 3, 62, 1) + bytes(40)
_HEADER = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, 0, 0, 0, 1, 0) + b"a"


class _Seen:
    def __init__(self):
        self.data = b""

    def update(self, piece):
        self.data += piece


def _zip(files, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def _within(data, size=1 << 20, allowance=None):
    found = {}
    unpacker = Unpacker("x.gz", lambda name: found.setdefault(name, _Seen()), allowance or PackedAllowance(len(data)))
    for at in range(0, len(data), size):
        unpacker.update(data[at : at + size])
    return {name: seen.data for name, seen in found.items()}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 29, 31, 64, 1 << 20])
def test_pieces_of_any_size_show_the_same(size):
    text = bytes(range(256)) * 3
    assert _within(gzip.compress(text), size) == {"x.gz/x": text}
    assert _within(bz2.compress(text), size) == {"x.gz/x": text}
    assert _within(lzma.compress(text), size) == {"x.gz/x": text}
    files = {"a": b"one", "b/c": text, "d": b""}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        found = _within(b"#!" + _zip(files, method), size)
        assert {name: data for name, data in found.items() if data} == {"x.gz/a": b"one", "x.gz/b/c": text}
    assert text in _within(gzip.compress(_zip({"a.gz": gzip.compress(text)})), size).values()


def test_streams_behind_one_another_are_one_file():
    assert _within(gzip.compress(b"one") + gzip.compress(b"two")) == {"x.gz/x": b"onetwo"}
    found = _within(gzip.compress(b"one") + _zip({"a": b"two" * 99}))
    assert found == {"x.gz/x": b"one", "x.gz/a": b"two" * 99}


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"text" * 99)[:-9], b"\x1f\x8b\x08" + bytes(99), b"BZh9" + bytes(99), b"PK\3\4", _HEADER * 9, b"P"],
    ids=["cut gzip", "no gzip", "no bzip2", "half a header", "headers alone", "half a magic"],
)
def test_what_is_broken_ends_there(data):
    assert all(isinstance(found, bytes) for found in _within(data).values())


def test_what_cannot_be_looked_through_is_said():
    deep = _ELF
    for _ in range(5):
        deep = gzip.compress(deep)
    with pytest.raises(UnseenError, match="more than 4 times over"):
        _within(deep)
    with pytest.raises(UnseenError, match="more than can be looked through"):
        _within(gzip.compress(bytes(40 << 20)))
    with pytest.raises(UnseenError, match="more than 20000 packed files"):
        _within(gzip.compress(b"") * 20_001)
    with pytest.raises(UnseenError, match="cannot be unpacked"):
        _within(lzma.compress(b"text")[:12] + b"\1" * 99)
    with pytest.raises(UnseenError, match="cannot be unpacked"):
        _within(lzma.compress(b"text", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}]))


@pytest.mark.parametrize("size", [1, 5, 19, 63, 64, 65, 4096])
@pytest.mark.parametrize("before", [0, 1, 62, 4090])
def test_machine_code_is_found_at_any_place_in_pieces_of_any_size(size, before):
    marks, data = CpuCodeMarks("x.dat"), b"\n" * before + _ELF + bytes(80)
    for at in range(0, len(data), size):
        marks.update(data[at : at + size])
    assert marks.found == "machine code in an ELF file"


@pytest.mark.parametrize("machine", [190, 224, 247])
def test_code_for_gpus_and_kernels_is_not_for_the_cpu(machine):
    marks = CpuCodeMarks("x.dat")
    marks.update(b"\n" + _ELF[:18] + struct.pack("<H", machine) + _ELF[20:])
    assert marks.found is None
