import io
import struct

import gpu_code as make
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.gpu import GpuCode, UnpackBudget, read_gpu_code
from wheelsmith.wheel.gpu.compression import LZ4, ZSTANDARD, unpack
from wheelsmith.wheel.gpu.cubin import read_cubin
from wheelsmith.wheel.gpu.extent import extent_of
from wheelsmith.wheel.rules import compute_platform, toolkit


def read(data):
    return read_gpu_code(io.BytesIO(data), len(data), UnpackBudget(len(data)))


def mistakes(data):
    return "; ".join(read(data).mistakes)


def test_what_made_the_code_is_read():
    linked = [("nvlink", "12.9", "-arch sm_100a -m 64 "), ("ptxas", "12.8", "-arch sm_100a -c ")]
    code = read(
        make.fatbin(
            make.code(make.cubin(80, abi=make.OLD_ABI, toolkit="12.4"), 80),
            make.text(make.ptx("sm_90", "8.4"), 90, version=(8, 4)),
        )
        + make.fatbin(make.code(make.cubin(100, "a", tools=linked), 100, flags=make.ACCELERATED | 0x11))
    )
    assert code.mistakes == ()
    assert (code.machine_code, code.ptx) == ({"8.0", "10.0a"}, {"9.0"})
    assert code.assemblers == {"12.4", "12.8", "12.9"}
    assert (code.ptx_versions, code.front_ends) == ({"8.4"}, {"12.4"})


@pytest.mark.parametrize("abi", [make.OLD_ABI, make.NEW_ABI], ids=["old", "new"])
@pytest.mark.parametrize("flag", [0, LZ4, ZSTANDARD], ids=["none", "lz4", "zstd"])
def test_compressed_code_is_read(abi, flag):
    cubin = make.cubin(90, "a", abi=abi, toolkit="12.8")
    code = read(make.fatbin(make.code(cubin, 90, flags=0x11 | flag | make.ACCELERATED)))
    assert (code.machine_code, code.assemblers, code.mistakes) == ({"9.0a"}, {"12.8"}, ())


@pytest.mark.parametrize("architecture", [50, 61, 70, 75, 80, 86, 89, 90, 100, 103, 110, 120, 121, 130])
@pytest.mark.parametrize("suffix", ["", "a", "f"])
@pytest.mark.parametrize("linked", [True, False])
def test_a_cubin_says_what_it_is(architecture, suffix, linked):
    cubin = read_cubin(extent_of(data := make.cubin(architecture, suffix, linked=linked)))
    assert cubin.capability == f"{architecture // 10}.{architecture % 10}{suffix}"
    assert (cubin.linked, cubin.releases, cubin.size) == (linked, {"13.0"}, len(data))


def test_before_cuda_13_the_header_says_what_it_is():
    assert read_cubin(extent_of(make.cubin(90, "a", abi=make.OLD_ABI))).capability == "9.0a"
    assert read_cubin(extent_of(make.cubin(90, abi=make.OLD_ABI))).capability == "9.0"
    # Of CUDA 12.8, which had the new ABI and not yet its attributes.
    early = bytearray(make.cubin(100, "a", compat=0))
    early[48] |= 0x8
    assert read_cubin(extent_of(bytes(early))).capability == "10.0a"


@pytest.mark.parametrize(
    ("cubin", "label", "flags"),
    [
        (make.cubin(80), 90, 0),
        (make.cubin(80, abi=make.OLD_ABI), 90, 0),
        (make.cubin(90), 90, make.ACCELERATED),
        (make.cubin(90, abi=make.OLD_ABI), 90, make.ACCELERATED),
        (make.cubin(90, "a"), 90, 0),
        (make.cubin(90, "a", abi=make.OLD_ABI), 90, 0),
        (make.cubin(100), 100, make.FAMILY),
        (make.cubin(100, "f"), 100, 0),
        (make.cubin(100, "f"), 100, make.ACCELERATED),
        (make.cubin(100, "a"), 100, make.FAMILY),
        (make.cubin(100, "f"), 103, make.FAMILY),
        (make.cubin(80), 180, 0),
    ],
)
@pytest.mark.parametrize("compression", [0, LZ4, ZSTANDARD])
def test_a_label_that_is_not_the_cubins_own_is_found(cubin, label, flags, compression):
    own = read_cubin(extent_of(cubin)).capability
    code = read(make.library(make.fatbin(make.code(cubin, label, flags=flags | compression | 0x11))))
    assert [f"the cubin itself is for {own}" in mistake for mistake in code.mistakes] == [True]


def test_a_family_that_nothing_records_is_believed():
    quiet = make.cubin(100, tools=[("ptxas", "13.0", "")])
    assert read(make.fatbin(make.code(quiet, 100, flags=make.FAMILY | 0x11))).machine_code == {"10.0f"}


@pytest.mark.parametrize(
    ("cubin", "wrong"),
    [
        (make.cubin(90, tools=[("ptxas", "13.0", "-arch sm_80 ")]), "its header says sm_90, the tools .* told sm_80"),
        (make.cubin(90, tools=[("ptxas", "13.0", "-arch=sm_90a ")]), "its header says sm_90, the tools .* told sm_90a"),
        (make.cubin(90, "a", tools=[("nvrtc", "13.0", "--gpu-architecture=sm_90 ")]), "header says sm_90a"),
        (make.cubin(90, tools=[]), "does not say which toolkit made it"),
        (make.cubin(90, code=b""), "'.text.k' holds no whole instructions"),
        (make.cubin(90, code=make.instructions(make.EXIT) + b"\0" * 8), "no whole instructions"),
        (make.cubin(90, code=b"\xff" * 64), "holds what is no instruction"),
        (make.cubin(90, code=bytes(64)), "holds what is no instruction"),
        (make.cubin(90, code=make.instructions(make.EXIT) + bytes(16)), "holds what is no instruction"),
        (make.cubin(90, code=make.instructions(make.NOP) * 4), "does not exit where it says"),
        (make.cubin(61, code=bytes(32)), "does not exit where it says"),
        (make.cubin(90, exit_at=16), "does not exit where it says"),
        (make.cubin(90, exit_at=1 << 20), "does not exit where it says"),
        (make.cubin(90, more=[(".nv.info", 0x70000000, b"\x04\x11\xff\x00")]), "attributes are cut short"),
        (make.cubin(90, more=[(".nv.info", 0x70000000, b"\x09\x11\x00\x00")]), "format 0x9, which is not known"),
        (make.cubin(90, more=[(".note.nv.tkinfo", 7, b"\xff" * 12)]), "notes are cut short"),
        (make.cubin(90)[:-1], "cut short"),
        (make.cubin(90)[:60], "cut short"),
        (make.cubin(90).replace(b"\x7fELF\x02\x01\x01\x41", b"\x7fELF\x02\x01\x01\x40"), "ABI 0x40"),
    ],
)
def test_what_is_wrong_with_a_cubin_is_said(cubin, wrong):
    with pytest.raises(WheelError, match=wrong):
        read_cubin(extent_of(cubin))


@pytest.mark.parametrize(
    "code", ["0f8574ffffff31ed41bc00100000", "753141be0070020041bd00100000", "4889ef7542e89a00000066817812"]
)
def test_code_that_looks_for_elf_files_is_no_cubin(code):
    # Of cmake 3.31 (twice) and of ptxas 12.0: a comparison with the number, and two bytes of a later instruction.
    assert not read(b"\x90" * 99 + b"\x81\x39\x7fELF" + bytes.fromhex(code) + b"\xbe\0" + b"\x90" * 99).present


@pytest.mark.parametrize("at", [4, 5])
def test_a_cubin_whose_first_bytes_were_changed_is_found(at):
    cubin = bytearray(make.cubin(80))
    cubin[at] = 0x66
    assert "a cubin: " in mistakes(bytes(99) + bytes(cubin))


@pytest.mark.parametrize(
    ("offset", "layout", "value"),
    [
        (4, "<B", 1),  # 32 bits
        (5, "<B", 2),  # big-endian
        (16, "<H", 3),  # a shared library
        (32, "<Q", 1 << 40),
        (32, "<Q", 64),  # not where the table says of itself
        (56, "<H", 3),
        (40, "<Q", 0),
        (40, "<Q", 1 << 63),
        (52, "<H", 52),
        (58, "<H", 40),
        (60, "<H", 0xFFF0),
        (60, "<H", 1),
        (62, "<H", 60),
        (62, "<H", 2),
    ],
)
def test_a_broken_header_is_found(offset, layout, value):
    cubin = bytearray(make.cubin(90))
    struct.pack_into(layout, cubin, offset, value)
    with pytest.raises(WheelError):
        read_cubin(extent_of(bytes(cubin)))


def test_program_headers_that_are_none_are_found():
    cubin = make.cubin(90)
    for wrong in (cubin[:-56] + bytes(56), cubin[:-112] + bytes(112), cubin[:-24] + b"\xff" * 24):
        with pytest.raises(WheelError, match="program headers"):
            read_cubin(extent_of(wrong))


def section_field(cubin, number, field):
    """Where a field of a section's entry in the table lies."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    return table + 64 * number + {"name": 0, "kind": 4, "offset": 24, "size": 32, "link": 40, "info": 44}[field]


@pytest.mark.parametrize(
    ("number", "field", "layout", "value"),
    [
        (4, "offset", "<Q", 1 << 30),
        (4, "size", "<Q", 1 << 63),
        (4, "name", "<I", 1 << 20),
        (3, "link", "<I", 4),
        (3, "size", "<Q", 25),
        (5, "info", "<I", 3),
        (5, "info", "<I", 99),
        (4, "name", "<I", 12),
        (1, "kind", "<I", 1),
    ],
)
def test_a_broken_section_table_is_found(number, field, layout, value):
    cubin = bytearray(make.cubin(90))
    struct.pack_into(layout, cubin, section_field(cubin, number, field), value)
    with pytest.raises(WheelError):
        read_cubin(extent_of(bytes(cubin)))


def test_sections_over_one_another_are_found():
    cubin = bytearray(make.cubin(90, more=[(f".nv.info.{n}", 1, b"") for n in range(40)]))
    for number in range(8, 48):
        struct.pack_into("<QQ", cubin, section_field(cubin, number, "offset"), 0, len(cubin))
    with pytest.raises(WheelError, match="over one another"):
        read_cubin(extent_of(bytes(cubin)))


def test_a_symbol_outside_of_its_section_is_found():
    cubin = bytearray(make.cubin(90))
    (symbols,) = struct.unpack_from("<Q", cubin, section_field(cubin, 3, "offset"))
    struct.pack_into("<Q", cubin, symbols + 24 + 16, 1 << 20)
    with pytest.raises(WheelError, match="outside of its section"):
        read_cubin(extent_of(bytes(cubin)))


def test_what_unpacks_to_something_else_than_is_said_is_found():
    block = b"\x23ab\x02\x00\x70ccccccc"
    assert unpack(block, flags=LZ4, size=16) == b"ababababaccccccc"[:9] + b"ccccccc"
    for size in (15, 17, 1 << 20, 1 << 40):
        with pytest.raises(WheelError):
            unpack(block, flags=LZ4, size=size)
    frame = make.zstd.compress(b"x" * 1000)
    assert unpack(frame, flags=ZSTANDARD, size=1000) == b"x" * 1000
    for data, size in ((frame, 999), (frame, 1001), (frame[:-1], 1000), (frame + b"x", 1000), (b"no frame", 9)):
        with pytest.raises(WheelError):
            unpack(data, flags=ZSTANDARD, size=size)
    with pytest.raises(WheelError, match="two ways"):
        unpack(frame, flags=ZSTANDARD | LZ4, size=1000)


def test_a_small_file_cannot_unpack_to_much():
    bomb = make.zstd.compress(bytes(1 << 28))
    assert len(bomb) < 20_000
    head = make.entry(make.ELF, 90, bomb, packed=len(bomb), size=1 << 28, flags=ZSTANDARD)
    # Made by hand: entry() would compress it again.
    stored = bomb + b"\0" * (-len(bomb) % 8)
    head = head[:8] + struct.pack("<QI", len(stored), len(bomb)) + head[20:64]
    assert "unpacks to more than 100 times what the wheel weighs" in mistakes(make.fatbin(head + stored))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_cubin_or_that_error(data):
    for bytes_ in (data, make.cubin(90)[:64] + data):
        try:
            read_cubin(extent_of(bytes_))
        except WheelError:
            pass


@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=5), st.sampled_from([0, 1, 2])
)
def test_any_change_of_a_cubin_is_an_answer_or_that_error(changes, which):
    cubin = bytearray([make.cubin(90, "a"), make.cubin(61, abi=make.OLD_ABI), make.cubin(120, linked=False)][which])
    for at, value in changes:
        cubin[at % len(cubin)] = value
    try:
        read_cubin(extent_of(bytes(cubin)))
    except WheelError:
        pass


def made_by(compute, *entries):
    code = read(make.fatbin(*entries))
    assert compute_platform.compare("k.so", (f"libcudart.so.{compute[2:4]}",), code, compute).ok
    return toolkit.compare("k.so", code, f"{compute[2:4]}.{compute[4]}")


def test_the_version_names_what_made_the_code():
    old = make.text(make.ptx("sm_90", "8.4"), 90, version=(8, 4))
    cubin = make.code(make.cubin(80, abi=make.OLD_ABI, toolkit="12.4"), 80)
    good = made_by("cu124", cubin, old)
    assert (good.rule, good.ok, good.message) == ("toolkit", True, "machine code by CUDA 12.4; PTX 8.4 as of CUDA 12.4")
    bad = made_by("cu128", cubin, old)
    assert (bad.ok, bad.message) == (False, "the version says CUDA 12.8, CUDA 12.4 made code of k.so")
    # ptxas alone may be newer than the rest of nvcc; the other way round, no driver of that CUDA reads the PTX.
    assert made_by("cu128", make.code(make.cubin(80, abi=make.OLD_ABI, toolkit="12.8"), 80), old).ok
    newer = made_by("cu124", cubin, make.text(make.ptx("sm_90", "8.7"), 90, version=(8, 7)))
    assert (newer.ok, newer.message) == (False, "CUDA 12.4 reads PTX up to 8.4, k.so has PTX 8.7")


@pytest.mark.parametrize(
    ("compute", "library", "ok"),
    [
        ("cpu", "libcublas.so.13", False),
        ("cpu", "libcudart-1a359ba7.so.13.0.1", False),
        ("cpu", "libnvjpeg.4a0b5c81.so.13", False),
        ("cpu", "libcuda.so.1", False),
        ("cpu", "libc10_cuda.so", False),
        ("cpu", "libcurl.so.4", True),  # not everything that begins so is CUDA's
        ("cpu", "libnvme.so.1", True),
        ("cu130", "libcublas.so.12", False),
        ("cu130", "libcublas.so.13", True),
        ("cu130", "libcublasLt.so.12", False),
        ("cu130", "libcusolver.so.11", False),
        ("cu130", "libcusparse.so.12", True),
        ("cu130", "libcudart.so.12", False),
        ("cu130", "libcudart.so", False),
        ("cu130", "libcudnn.so.9", True),
        ("cu126", "libcublas.so.12", True),
        ("cu126", "libcusolver.so.11", True),
        ("cu126", "libnvrtc.so.13", False),
        (None, "libcublas.so.12", True),
    ],
)
def test_a_library_is_of_the_versions_cuda(compute, library, ok):
    found = compute_platform.compare("k.so", (library,), GpuCode(), compute)
    assert (found.rule, found.ok) == ("compute-platform", ok)
    assert ok or library in found.message


def test_a_version_that_names_cuda_needs_its_runtime():
    code = make.fatbin(make.code(make.cubin(90), 90))
    found = compute_platform.compare("k.so", ("libc.so.6",), read(make.library(code)), "cu130")
    assert (found.ok, found.message) == (False, "the version says cu130, k.so does not need libcudart.so.13")
    runtime = b"CUDA driver version is insufficient for CUDA runtime version\0"
    assert compute_platform.compare("k.so", ("libc.so.6",), read(make.library(code, runtime)), "cu130").ok
    assert compute_platform.compare("k.so", ("libcudart.so.13",), read(make.library(code)), "cu130").ok
    assert compute_platform.compare("k.fatbin", None, read(code), "cu130").ok
    assert compute_platform.compare("k.so", (), read(make.library(b"x")), "cu130").ok


def test_a_cpu_wheel_holds_no_gpu_code():
    cases = [make.cubin(90), make.ptx(), make.fatbin(make.entry(make.NVVM, 90, b"x" * 8)), make.fatbin()]
    for data in cases:
        found = compute_platform.compare("data.bin", None, read(data), "cpu")
        assert (found.ok, "holds GPU code" in found.message) == (False, True)
    assert compute_platform.compare("k.so", (), read(make.library(b"nothing")), "cpu").ok
