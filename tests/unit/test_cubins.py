import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.errors import WheelError
from wheelsmith.wheel.cubin import LZ4, ZSTANDARD, assemblers, decompress
from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.fatbin import read_fatbins
from wheelsmith.wheel.gpu_code import gpu_findings

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PTX, CUBIN = 1, 2


def old_cubin(toolkit):
    """A cubin as ptxas made them before ABI 8: the toolkit stands in the header."""
    return struct.pack("<4s5B7xHHI40x", b"\x7fELF", 2, 1, 1, 0x33, 7, 2, 190, toolkit)


def new_cubin(*tools):
    """A cubin of ABI 8, with one note a tool."""
    names = b"\0.shstrtab\0.note.nv.tkinfo\0"
    notes = b""
    for tool in tools:
        words = f"\0ptxas\0Cuda compilation tools, release {tool}, V{tool}.9\0Build x\0".encode()
        words += b"\0" * (-len(words) % 4)
        notes += struct.pack("<III12s", 12, len(words), 2000, b"NVIDIA Corp\0") + words
    strings_at, notes_at = 64, 64 + len(names)
    sections_at = notes_at + len(notes)
    section = struct.Struct("<IIQQQQIIQQ")
    return (
        struct.pack(
            "<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0x41, 8, 2, 190, 1, 0, 0, sections_at, 0, 64, 0, 0, 64, 3, 1
        )
        + names
        + notes
        + bytes(64)
        + section.pack(1, 3, 0, 0, strings_at, len(names), 0, 0, 1, 0)
        + section.pack(11, 7, 0, 0, notes_at, len(notes), 0, 0, 4, 0)
    )


def entry(kind, arch, stored, *, version=(8, 4), flags=0x11, size=0):
    padded = stored + b"\0" * (-len(stored) % 8)
    packed = len(stored) if size else 0
    major, minor = version
    head = struct.pack("<HHIQI4xHHI8xQQQ", kind, 0x101, 64, len(padded), packed, minor, major, arch, flags, 0, size)
    return head + padded


def fatbin(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def literals(data):
    """LZ4 that compresses nothing."""
    rest = len(data) - 15
    return bytes([0xF0, *[255] * (rest // 255), rest % 255]) + data


def test_what_made_the_code_is_read():
    code = read_fatbins(
        fatbin(entry(CUBIN, 80, old_cubin(124)), entry(PTX, 90, b"not read", version=(8, 4)))
        + fatbin(entry(CUBIN, 100, new_cubin("12.8", "12.9"), flags=0x100011))
    )
    assert (code.machine_code, code.ptx) == ({"8.0", "10.0a"}, {"9.0"})
    assert code.assemblers == {"12.4", "12.8", "12.9"}
    assert (code.ptx_versions, code.front_ends) == ({"8.4"}, {"12.4"})


@pytest.mark.parametrize("cubin", [old_cubin(128), new_cubin("12.8")], ids=["old", "new"])
@pytest.mark.parametrize(("flag", "compress"), [(LZ4, literals), (ZSTANDARD, zstd.compress)], ids=["lz4", "zstd"])
def test_compressed_code_is_read(cubin, flag, compress):
    code = read_fatbins(fatbin(entry(CUBIN, 90, compress(cubin), flags=0x11 | flag, size=len(cubin))))
    assert code.assemblers == {"12.8"}


def test_lz4_repeats():
    # "ab", then 7 bytes from 2 back; then the literal "c".
    assert decompress(b"\x23ab\x02\x00\x10c", flags=LZ4, size=10) == b"ababababac"
    # A match of 15 + 4 + 255 + 1 bytes from 1 back.
    assert decompress(b"\x1fa\x01\x00\xff\x01\x00", flags=LZ4, size=999) == b"a" * 276
    assert decompress(b"\x23ab\x02\x00\x10c", flags=LZ4, size=3) == b"aba"


@pytest.mark.parametrize(
    ("stored", "flags", "size"),
    [
        (b"", 0, 64),
        (b"\x7fELF", 0, 64),
        (b"text" * 20, 0, 64),
        (old_cubin(124)[:7] + b"\x07" + old_cubin(124)[8:], 0, 64),
        (new_cubin(), 0, 64),
        (new_cubin("13.0")[:-64], 0, 64),
        (b"\x10a\x00\x00", LZ4, 64),
        (b"\x10a\x05\x00", LZ4, 64),
        (b"\xff\xff", LZ4, 64),
        (b"(\xb5/\xfd", ZSTANDARD, 64),
        (b"no frame", ZSTANDARD, 64),
        (zstd.compress(new_cubin("13.0")), ZSTANDARD, 1 << 40),
    ],
)
def test_broken_code_is_one_error(stored, flags, size):
    with pytest.raises(WheelError):
        assemblers(stored, flags=flags, size=size)


@given(st.binary(max_size=200), st.sampled_from([0, LZ4, ZSTANDARD]))
def test_anything_is_an_answer_or_that_error(data, flags):
    try:
        assemblers(data, flags=flags, size=500)
    except WheelError:
        pass


def toolkit(compute, *entries):
    section = fatbin(*entries)
    extension = Extension(
        arch="x86_64",
        needed=(f"libcudart.so.{compute[2:4]}",),
        fatbins=section,
    )
    return {f.rule: f for f in gpu_findings("k.so", extension, read_fatbins(section), compute)}["toolkit"]


def test_the_version_names_what_made_the_code():
    code = [entry(CUBIN, 80, old_cubin(124)), entry(PTX, 90, b"", version=(8, 4))]
    good = toolkit("cu124", *code)
    assert (good.ok, good.message) == (True, "machine code by CUDA 12.4; PTX 8.4 as of CUDA 12.4")
    bad = toolkit("cu128", *code)
    assert (bad.ok, bad.message) == (False, "the version says CUDA 12.8, CUDA 12.4 made code of k.so")
    # ptxas alone may be newer than the rest of nvcc; the other way round, no driver of that CUDA reads the PTX.
    assert toolkit("cu128", entry(CUBIN, 80, old_cubin(128)), code[1]).ok
    newer = toolkit("cu124", code[0], entry(PTX, 90, b"", version=(8, 7)))
    assert (newer.ok, newer.message) == (False, "CUDA 12.4 reads PTX up to 8.4, k.so has PTX 8.7")
