import io
import re
import struct

import gpu_code as make
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.wheel.gpu import GpuCodeMarks, UnpackBudget, read_gpu_code, scan


def read(data):
    return read_gpu_code(io.BytesIO(data), len(data), UnpackBudget(len(data)))


SM90 = make.code(make.cubin(90), 90)
BOTH = make.fatbin(SM90, make.text(make.ptx("sm_90a"), 90, flags=make.ZSTANDARD | make.ACCELERATED | 0x11))


@pytest.mark.parametrize("before", [0, 1, 2, 4, 8, 4000, 4096, (4 << 20) - 80, (4 << 20) - 4, (4 << 20) + 3, 9 << 20])
@pytest.mark.parametrize("what", ["fatbin", "cubin"])
def test_code_is_found_at_any_place(before, what):
    piece = BOTH if what == "fatbin" else make.cubin(90)
    code = read(b"\x01" * before + piece + b"\x02" * 5000)
    assert (code.machine_code, code.mistakes) == ({"9.0"}, ())
    assert code.ptx == ({"9.0a"} if what == "fatbin" else set())


@pytest.mark.parametrize("before", [64, 4000, (4 << 20) - 64 - 20])
def test_ptx_in_a_programs_data_is_found(before):
    code = read(make.library(b"\x01" * before, b"\0" + make.ptx("sm_70") + b"\0", b"and so on"))
    assert (code.ptx, code.ptx_versions, code.mistakes) == ({"7.0"}, {"9.0"}, ())


@pytest.mark.parametrize(
    "data",
    [
        make.ptx("sm_70"),
        b"/* of\nmine */\n" + make.ptx("sm_70") + b"\0",
        make.cubin(70),
        make.fatbin(make.code(make.cubin(70), 70)),
    ],
)
def test_a_file_may_be_gpu_code(data):
    code = read(data)
    assert (code.machine_code | code.ptx, code.mistakes) == ({"7.0"}, ())


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
        b"",
    ],
)
def test_what_only_speaks_of_gpu_code_is_none(piece):
    assert not read(make.library(piece)).present


def test_source_code_with_ptx_in_it_is_none():
    text = b"PTX = '''\n" + make.ptx() + b"'''\n"
    for name in ("k.py", "k.CU", "k.md", "k-1.dist-info/METADATA"):
        assert not read_gpu_code(io.BytesIO(text), len(text), UnpackBudget(len(text)), name).present
    assert read(text).ptx


def test_containers_follow_one_another():
    code = read(
        make.library(
            BOTH, make.fatbin(make.code(make.cubin(80), 80)), b"\1" * 99, make.fatbin(make.code(make.cubin(86), 86))
        )
    )
    assert (code.machine_code, code.mistakes) == ({"8.0", "8.6", "9.0"}, ())


def test_what_lies_within_other_code_is_found():
    inner = make.fatbin(make.code(make.cubin(80), 80))
    code = read(make.library(make.fatbin(make.code(make.cubin(90, more=[(".nv.constant2", 1, inner)]), 90))))
    assert (code.machine_code, code.mistakes) == ({"8.0", "9.0"}, ())
    code = read(make.library(make.fatbin(make.code(make.cubin(90, more=[(".nv.constant2", 1, make.cubin(75))]), 90))))
    assert (code.machine_code, code.mistakes) == ({"7.5", "9.0"}, ())


def test_what_has_yet_to_be_linked_is_told_apart():
    options = struct.pack("<II", 0x48, 16) + b"--compile-only  "
    code = read(
        make.fatbin(
            make.code(make.cubin(80, linked=False), 80),
            make.text(make.ptx("sm_86"), 86, options=options),
            make.entry(make.RELOCATABLE_PTX, 89, make.ptx("sm_89")),
            make.entry(make.NVVM, 90, b"no one can read it"),
            make.entry(make.TILE_IR, 100, b"\x7fTileIR\0"),
        )
    )
    assert (code.machine_code, code.ptx, code.mistakes) == (set(), set(), ())
    assert (code.relocatable, code.intermediate) == ({"8.0", "8.6", "8.9"}, {"9.0", "10.0"})


@pytest.mark.parametrize(
    ("container", "wrong"),
    [
        (make.fatbin(), "it holds nothing"),
        (make.fatbin(SM90)[:-8], "cut short"),
        (make.fatbin(SM90 + bytes(8)), "ends within an entry"),
        (make.fatbin(SM90 + bytes(64)), "entry at .* is none"),
        (make.fatbin(make.code(make.cubin(90), 90, entry_version=0x102)), "is none"),
        (make.fatbin(make.code(make.cubin(90), 90, padded=1 << 40)), "cut short"),
        (make.fatbin(make.code(make.cubin(90), 90, padded=0)), "cut short"),
        (make.fatbin(make.code(make.cubin(90), 90, packed=80)), "contradict"),
        (make.fatbin(make.code(make.cubin(90), 90, size=80)), "contradict"),
        (make.fatbin(make.code(make.cubin(90), 90, flags=make.LZ4, size=0)), "contradict"),
        (make.fatbin(make.code(make.cubin(90), 90, flags=make.LZ4, size=99)), "decompressed"),
        (make.fatbin(make.code(make.cubin(90), 90, flags=make.ZSTANDARD, size=99)), "unpacks to more"),
        (make.fatbin(make.code(make.cubin(90), 90, flags=make.ZSTANDARD, size=9999)), "unpacks to"),
        (make.fatbin(make.code(make.cubin(90), 90, flags=make.ZSTANDARD, size=1 << 60)), "more than 100 times"),
        (make.fatbin(make.code(make.cubin(90, "a"), 90, flags=make.ACCELERATED | make.FAMILY)), "at once"),
        (make.fatbin(make.entry(16, 90, b"x" * 64)), "of kind 0x10, which is not known"),
        (make.fatbin(make.code(b"noise" * 100, 90)), "it is no cubin"),
        (make.fatbin(make.code(make.cubin(90) + b"\1" * 24, 90)), "does not fill its entry"),
        (make.fatbin(make.text(b"noise" * 100)), "does not begin as PTX"),
        (make.fatbin(make.text(make.ptx("sm_80"), 90)), "the PTX itself is for 8.0"),
        (make.fatbin(make.text(make.ptx("sm_90a"), 90)), "the PTX itself is for 9.0a"),
        (make.fatbin(make.text(make.ptx("sm_90"), 90, flags=make.ACCELERATED)), "the PTX itself is for 9.0"),
        (make.fatbin(make.text(make.ptx("sm_100f"), 100)), "the PTX itself is for 10.0f"),
        (make.fatbin(make.text(make.ptx("sm_90", "8.4"), 90)), "its entry says PTX 9.0, the PTX itself 8.4"),
    ],
)
def test_what_is_wrong_with_a_container_is_said(container, wrong):
    code = read(make.library(b"x" * 8, container))
    assert code.mistakes
    assert code.mistakes[0].startswith("at byte 0x48: ")
    assert re.search(wrong, code.mistakes[0])


def test_a_container_that_is_registered_is_there():
    good = make.library(make.registration(), make.registration(2), BOTH, BOTH)
    assert read(good).mistakes == ()
    gone = make.library(
        make.registration(), make.registration(2), BOTH, BOTH.replace(b"\x50\xed\x55\xba", b"\x50\xed\x55\xbb")
    )
    # What is bare in the unreadable container is still found.
    assert read(gone).machine_code == {"9.0"}
    assert read(gone).mistakes == ("it registers 2 fatbins, and 1 can be found in it",)


def test_reading_stops_where_all_is_wrong():
    code = read(make.fatbin() * 5000)
    assert 0 < len(code.mistakes) < 50


def test_a_wheel_holds_only_so_many_pieces(monkeypatch):
    monkeypatch.setattr("wheelsmith.wheel.gpu.allowance._MOST_ITEMS", 3)
    assert read(make.library(*[make.cubin(90)] * 3)).mistakes == ()
    assert "more than 3 pieces" in read(make.library(*[make.cubin(90)] * 4)).mistakes[0]


@given(st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=6))
def test_any_change_is_an_answer(changes):
    data = bytearray(make.library(make.registration(), BOTH, make.cubin(80), make.ptx()))
    for at, value in changes:
        data[at % len(data)] = value
    read(bytes(data))


@given(st.binary(max_size=200), st.sampled_from([b"", make.fatbin(SM90)[:16], make.fatbin(SM90)[:80], b"\x7fELF"]))
def test_any_bytes_are_an_answer(data, head):
    read(head + data)


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 1 << 20])
@pytest.mark.parametrize(
    ("data", "found"),
    [(BOTH, True), (make.cubin(90), True), (make.ptx(), True), (b"nothing", False), (make.library(b"x"), False)],
)
def test_a_file_that_is_read_in_pieces_is_worth_reading(data, found, size):
    marks = GpuCodeMarks()
    data = b"\1" * 500 + data + b"\1" * 500
    for at in range(0, len(data), size):
        marks.update(data[at : at + size])
    assert marks.found == found


def test_the_chunks_overlap_by_more_than_any_mark():
    assert scan._OVERLAP > 64
