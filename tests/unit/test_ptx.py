import gpu_code as make
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.gpu.ptx import read_ptx

# As nvcc -G -lineinfo writes it: sections of numbers, and files in quotation marks.
DEBUGGED = (
    make.ptx("sm_80, debug")
    + b'\t.file\t1 "/tmp/a//b {odd}; \xc3\xbc.cu"\n'
    + b"\t.section\t.debug_abbrev\n\t{\n.b8 1 // DW_AT\n.b8 17\n.b64 debug_info\n.b8 0\n\t}\n"
    + b"\t.section\t.debug_macinfo\t{\t}\n"
)
VARIABLES = (
    b".version 9.0\n.target sm_90a\n.address_size 64\n"
    b".global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 0xff};\n.extern .shared .align 16 .b8 smem[];\n"
    b".global .align 1 .b8 $str[4] = {37, 100, 10};\n.weak .func (.param .b32 r) f(.param .b32 a);\n"
)
CALLS = (
    b".version 3.2.target sm_35.address_size 64 .entry f(){.reg .u32 a;\n"
    b"prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _);\n"
    b"$L_1: .branchtargets $L_2, $L_3;\n$L_2: $L_3: @!p bra $L_2;\n{ .reg .b32 t; { mov.b32 t, 0f3F800000; } }\n"
    b"/* } in a comment { */ exit;}\n"
)


@pytest.mark.parametrize(
    ("data", "version", "capability"),
    [
        (make.ptx(), "9.0", "9.0"),
        (make.ptx("sm_90a", "8.0"), "8.0", "9.0a"),
        (make.ptx("sm_100f", "8.8") + b"\0", "8.8", "10.0f"),
        (make.ptx("sm_121a, texmode_independent"), "9.0", "12.1a"),
        (make.ptx().replace(b"\n", b"\r\n"), "9.0", "9.0"),
        (DEBUGGED, "9.0", "8.0"),
        (VARIABLES, "9.0", "9.0a"),
        (CALLS, "3.2", "3.5"),
    ],
)
def test_ptx_says_what_it_is(data, version, capability):
    ptx = read_ptx(data)
    assert (ptx.version, ptx.capability) == (version, capability)


GOOD = make.ptx()


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "does not begin as PTX"),
        (GOOD.replace(b".target sm_90", b".target sm_90\n.target sm_100"), "two headings"),
        (GOOD + GOOD, "two headings"),
        (GOOD.replace(b".address_size 64", b".address_size 32"), "not of 64 bits"),
        (b"\0" * 8, "does not begin as PTX"),
        (bytes(range(256)) * 4, "no text"),
        (GOOD[:80] + bytes(range(200)), "no text"),
        (GOOD + b"\0" * 9, "goes on after its end"),
        (GOOD[:-2], "within a block"),
        (GOOD[: len(GOOD) // 2], "PTX"),
        (GOOD + b"}", "within a block"),
        (b"x" + GOOD, "does not begin as PTX"),
        (GOOD.replace(b".version", b"version"), "does not begin as PTX"),
        (GOOD.replace(b".target", b".targets"), "does not begin as PTX"),
        (GOOD.replace(b"sm_90", b"sm_x"), "does not begin as PTX"),
        (GOOD + b"lorem ipsum dolor", "no directive"),
        (GOOD.split(b".visible")[0] + b"lorem ipsum dolor sit amet; consectetur {adipisici} elit;", "no directive"),
        (make.ptx(body="0x48 0x65;"), "neither directive nor instruction"),
        (make.ptx(body="#!;"), "neither directive nor instruction"),
        (make.ptx(body="`rm`;"), "neither directive nor instruction"),
        (b".version 9.0\n.target sm_90\n.entry k() { add.s32 a, b, c; }", "kernel that does nothing"),
        (b".version 9.0\n.target sm_90\n.func k() " + b"{   " * 20 + b"ret;" + b"}   " * 20, "within a block"),
    ],
)
def test_what_is_no_ptx_is_found(data, wrong):
    with pytest.raises(WheelError, match=wrong):
        read_ptx(data)


@given(st.binary(max_size=300))
def test_noise_after_the_directives_is_no_ptx(data):
    # Random bytes that happen to be PTX are nothing but white space, comments and directives.
    try:
        read_ptx(b".version 9.0\n.target sm_90\n" + data)
    except WheelError:
        return
    assert not data.strip(b"\0 \t\r\n\v\f") or data.lstrip().startswith((b".", b"/", b";", b'"', b",", b"a", b"_"))


@given(st.text(alphabet='{};"/*\n.a @:$%', max_size=200))
def test_any_text_is_an_answer_or_that_error(text):
    try:
        read_ptx(b".version 9.0\n.target sm_90\n" + text.encode())
    except WheelError:
        pass


@pytest.mark.parametrize(
    "text", [b"{", b"a" * 1000 + b"{", b"/*", b'"', b"@a ", b"a:", b". ", b"{}", b"{;}", b"a;", b"{a", b"\n"]
)
def test_no_text_makes_reading_take_long(text):
    # 2 MB each: a pattern that went back and forth would not come to an end.
    try:
        read_ptx(b".version 9.0\n.target sm_90\n" + text * (2_000_000 // len(text)))
    except WheelError:
        pass
