"""The GPU code of a file is found at any place, and read: capabilities, PTX and the CUDA that made it."""

import io
import re

import pytest
from forge_gpu import CUBIN, LZ4, PTX, ZSTANDARD, code, cubin, entry, fatbin, library, ptx, registration, zstandard
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.wheel.gpu import read_gpu_code
from wheelsmith.wheel.rules import compute_platform

BOTH = code("90", "90a+PTX")


def read(data, name=""):
    return read_gpu_code(io.BytesIO(data), len(data), name)


def release(number):
    return f"Cuda compilation tools, release {number}, V{number}.9"


@pytest.mark.parametrize("toolkit", ["12.4", "12.8", "13.0"])
@pytest.mark.parametrize("compression", [0, LZ4, ZSTANDARD], ids=["none", "lz4", "zstd"])
def test_what_the_code_is_for_and_what_made_it_is_read(toolkit, compression):
    found = read(code("80", "90a", "90a+PTX", toolkit=toolkit, compress=compression))
    assert (found.machine_code, found.ptx, found.mistakes) == ({"8.0", "9.0a"}, {"9.0a"}, ())
    assert (found.assemblers, found.ptx_toolkits) == ({toolkit}, {toolkit})
    assert found.machine_capabilities == ("8.0", "9.0a+PTX")


@pytest.mark.parametrize("architecture", [50, 61, 70, 75, 80, 86, 89, 90, 100, 103, 110, 120, 121, 130])
@pytest.mark.parametrize("suffix", ["", "a", "f"])
@pytest.mark.parametrize("relocatable", [False, True])
def test_a_bare_cubin_says_what_it_is(architecture, suffix, relocatable):
    found = read(cubin(f"{architecture}{suffix}", relocatable=relocatable))
    own = {f"{architecture // 10}.{architecture % 10}{suffix}"}
    assert (found.machine_code, found.relocatable) == ((set(), own) if relocatable else (own, set()))
    assert (found.assemblers, found.mistakes) == ({"13.0"}, ())


def test_a_cubin_that_was_linked_of_others_names_every_toolkit():
    assert read(cubin("90", words=f"{release('12.9')} {release('12.8')}")).assemblers == {"12.8", "12.9"}


def test_cuda_12_8_has_the_a_in_the_header():
    assert read(cubin("100", flags=0x06006408 | 2, note_arch="100a")).machine_code == {"10.0a"}


def test_a_family_that_nothing_records_is_believed():
    assert read(fatbin(entry(CUBIN, "100f", cubin("100", options="")))).machine_code == {"10.0f"}


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        ([entry(PTX, "90a", ptx("90"))], "the PTX itself is for 9.0"),
        ([entry(PTX, "90", ptx("90", toolkit="12.4"))], "its entry is for PTX 9.0, but the PTX itself is 8.4"),
        ([entry(CUBIN, "90", cubin("90")[:-100])], "truncated"),
        ([entry(CUBIN, "90", cubin("90").replace(b"\x7fELF\2\1\1\x41", b"\x7fELF\2\1\1\x40"))], "ABI 0x40"),
        ([entry(CUBIN, "90", cubin("90"), compress=ZSTANDARD, size=1 << 63)], "decompressed"),
        ([entry(CUBIN, "90", b"", compress=LZ4, size=99, stored=b"no block")], "decompressed"),
        ([code("90")[16:], bytes(64)], "entry at .* is not valid"),
        ([code("90")[16:], bytes(8)], "truncated"),
    ],
)
def test_what_is_wrong_with_a_container_is_said(entries, wrong):
    mistakes = read(b"x" * 72 + fatbin(*entries)).mistakes
    assert mistakes[0].startswith("at byte 0x48: ")
    assert re.search(wrong, mistakes[0])


@pytest.mark.parametrize("before", [0, 1, 4, 4000, (4 << 20) - 80, (4 << 20) - 4, (4 << 20) + 3, 9 << 20])
@pytest.mark.parametrize("piece", [BOTH, cubin("90"), b"\0" + ptx("90") + b"\0"], ids=["fatbin", "cubin", "ptx"])
def test_code_is_found_at_any_place(before, piece):
    found = read(b"\x01" * before + piece + b"\x02" * 5000 + code("80") + b"\x02" * 5000)
    assert found.mistakes == ()
    assert found.machine_code | found.ptx == {"8.0", "9.0"} | found.ptx
    assert found.ptx == ({"9.0a"} if piece == BOTH else {"9.0"} if b"target" in piece else set())


@pytest.mark.parametrize("text", [ptx("70"), b"/* of\nmine */\n" + ptx("70")])
def test_a_file_may_be_ptx(text):
    assert (read(text, "k.txt").ptx, read(text).ptx_versions) == ({"7.0"}, {"9.0"})


@pytest.mark.parametrize(
    "piece",
    [
        b"\x81\x3f\x50\xed\x55\xba\x75\xf1\x66\x83\x7f\x04\x01\x41\x0f\x94",  # cmp dword [rdi], 0xba55ed50
        b"\xb8\xb1\x43\x62\x46\x01\x00\x00\x00",  # and of what registers: not where a pointer can follow
        b".version %d.%d\n.target sm_%d\n.address_size 64\n",  # of a compiler
        b".version 7.0\0.target sm_70\0.entry",
        b".version 7.0\n.target sm_70\n",  # a heading, and nothing under it
        b"PTX compiled for .target sm_70 or higher",
        b"\x7fELF\x02\x01\x01" + bytes(60),
        # Of cmake 3.31 and of ptxas 12.0, which compare with the number.
        b"\x81\x39\x7fELF" + bytes.fromhex("0f8574ffffff31ed41bc00100000") + b"\xbe\0",
        b"\x81\x39\x7fELF" + bytes.fromhex("4889ef7542e89a00000066817812") + b"\xbe\0",
    ],
)
def test_what_only_speaks_of_gpu_code_is_none(piece):
    assert not read(library(piece)).present


def test_source_code_with_ptx_in_it_is_none():
    text = b"PTX = '''\n" + ptx("90") + b"'''\n"
    assert not any(read(text, name).present for name in ("k.py", "k.CU", "k.md", "k-1.dist-info/METADATA"))
    assert read(text).ptx


def test_a_container_that_is_registered_is_there():
    assert read(library(registration(), registration(2), BOTH, BOTH)).mistakes == ()
    unknown = library(registration(), registration(2), BOTH, b"\x50\xed\x55\xbb" + BOTH[4:])
    assert read(unknown).machine_code == {"9.0"}
    assert read(unknown).mistakes == ("it registers 2 fatbins, but contains only 1",)


@given(st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=6))
def test_any_change_is_an_answer(changes):
    data = bytearray(library(registration(), BOTH, cubin("80", toolkit="12.4"), ptx("90")))
    for at, value in changes:
        data[at % len(data)] = value
    read(bytes(data))


@given(st.binary(max_size=200), st.sampled_from([b"", BOTH[:16], BOTH[:80], b"\x7fELF", cubin("90")[:64]]))
def test_any_bytes_are_an_answer(data, head):
    read(head + data)


def test_a_small_entry_that_unpacks_to_much_is_no_more_than_it_says():
    bomb = fatbin(entry(CUBIN, "90", b"", compress=ZSTANDARD, size=4096, stored=zstandard(bytes(1 << 28))))
    assert "it is not a cubin" in read(bomb).mistakes[0]


def test_a_version_that_names_cuda_needs_its_runtime():
    found = compute_platform.compare("k.so", ("libc.so.6",), read(library(BOTH)), "cu130")
    assert (found.ok, found.message) == (False, "the version is for cu130, but k.so does not need libcudart.so.13")
    runtime = b"CUDA driver version is insufficient for CUDA runtime version\0"
    assert compute_platform.compare("k.so", ("libc.so.6",), read(library(BOTH, runtime)), "cu130").ok
    assert compute_platform.compare("k.so", ("libcudart.so.13",), read(library(BOTH)), "cu130").ok
    assert compute_platform.compare("k.fatbin", None, read(BOTH), "cu130").ok
    assert compute_platform.compare("k.so", (), read(library(b"x")), "cu130").ok
