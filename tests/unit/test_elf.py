"""ELF files are read as the loader reads them; what makes no sense is refused, and nothing is endless."""

import io
import struct
import tracemalloc

import elf_writer as w
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.elf import NeededVersion, Reference, is_for_the_cpu, read_extension

BOTH = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
RICH = w.Elf(
    soname="libk.so",
    needed=("libc.so.6", "libtorch.so"),
    runpath="$ORIGIN/../torch/lib:$ORIGIN",
    symbols=(
        *w.undefined("malloc@GLIBC_2.17@libc.so.6", "free", "log@GLIBC_2.29@libm.so.6"),
        *w.undefined("may_be_absent", weak=True),
        *w.defined("PyInit_k", "one@V1", "two@V2"),
    ),
    hashes=("gnu", "sysv"),
)


def read(data: bytes):
    return read_extension("k.so", io.BytesIO(data))


def changed(elf: w.Elf, section: str, at: int, layout: str, *values: int) -> bytes:
    data = bytearray(w.write_elf(elf))
    struct.pack_into(layout, data, w.places(elf)[section].start + at, *values)
    return bytes(data)


def refused(data: bytes, match: str) -> None:
    with pytest.raises(WheelError, match=match):
        read(data)


@BOTH
@pytest.mark.parametrize("sections", [True, False])
@pytest.mark.parametrize("hashes", [("gnu",), ("sysv",), ("gnu", "sysv"), ()])
def test_all_is_read_with_and_without_sections(machine, sections, hashes):
    found = read(w.write_elf(w.replace(RICH, machine=machine, sections=sections, hashes=hashes)))
    assert found.arch == machine
    assert (found.soname, found.needed) == ("libk.so", ("libc.so.6", "libtorch.so"))
    assert found.search_paths == ("$ORIGIN/../torch/lib", "$ORIGIN")
    assert Reference(name="malloc", version="GLIBC_2.17", library="libc.so.6") in found.references
    assert Reference(name="free") in found.references
    assert Reference(name="may_be_absent", weak=True) in found.references
    assert NeededVersion(library="libm.so.6", name="GLIBC_2.29") in found.needed_versions
    assert found.defined_versions == {"V1", "V2"}
    # Without a table of hashes nothing can be found in a library, and only relocations say how long the table is.
    assert found.exported == ({"PyInit_k", "one", "two"} if hashes else set())
    assert not found.executable_stack
    assert not found.text_relocations


def test_what_a_hidden_symbol_offers_nobody_can_have():
    elf = w.replace(RICH, symbols=(w.Symbol(name="inner", defined=True, hidden=True), *w.defined("outer")))
    assert read(w.write_elf(elf)).exported == {"outer"}


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        (w.DT_AUXILIARY, "DT_AUXILIARY libevil.so"),
        (w.DT_FILTER, "DT_FILTER libevil.so"),
        (w.DT_AUDIT, "DT_AUDIT libevil.so"),
        (w.DT_DEPAUDIT, "DT_DEPAUDIT libevil.so"),
    ],
)
def test_libraries_that_the_loader_puts_in_between(tag, said):
    assert read(w.write_elf(w.extension(strings=((tag, "libevil.so"),)))).hooks == (said,)


@pytest.mark.parametrize("stack", [None, w.PF_R | w.PF_W | w.PF_X, w.PF_X])
def test_an_executable_stack(stack):
    assert read(w.write_elf(w.extension(stack=stack))).executable_stack


@pytest.mark.parametrize("number", [(w.DT_TEXTREL, 0), (w.DT_FLAGS, 4)])
def test_relocations_in_code(number):
    assert read(w.write_elf(w.extension(numbers=(number,)))).text_relocations


def test_objects_and_programs_are_told_apart_from_libraries():
    assert read(w.write_elf(w.Elf(kind=w.ET_REL))).kind == "object"
    assert read(w.write_elf(w.extension(kind=w.ET_EXEC))).kind == "program"
    assert read(w.write_elf(w.extension(numbers=((w.DT_FLAGS_1, 0x08000000),)))).kind == "program"
    assert read(w.write_elf(w.extension(numbers=((w.DT_FLAGS_1, 0x40),)))).not_to_open


def test_gpu_code_is_data():
    assert not is_for_the_cpu(w.write_elf(w.Elf(kind=w.ET_REL, machine="cuda")))
    assert is_for_the_cpu(w.write_elf(w.Elf(machine="i386")))
    refused(w.write_elf(w.Elf(machine="riscv64")), "machine with the number 243")


@pytest.mark.parametrize("section", [".dynsym", ".gnu.version_r", ".dynamic", ".gnu.version", ".gnu.hash", ".dynstr"])
def test_a_renamed_section_is_another_story(section):
    refused(w.write_elf(w.extension(renamed={section: ".other"})), "sections?|loader")


@pytest.mark.parametrize("nth", range(1, 9))
@pytest.mark.parametrize(("field", "what"), [(16, "address"), (24, "offset")])
def test_a_moved_section_is_another_story(nth, field, what):
    data = changed(w.replace(RICH, hashes=("gnu",)), "shdr", 64 * nth + field, "<Q", 0x40)
    names = [
        ".dynsym",
        ".gnu.hash",
        ".gnu.version",
        ".gnu.version_r",
        ".gnu.version_d",
        ".rela.dyn",
        ".dynamic",
        ".dynstr",
    ]
    if names[nth - 1] == ".rela.dyn":
        return
    refused(data, "loader")


def test_another_number_of_symbols_in_the_section():
    refused(changed(RICH, "shdr", 64 + 32, "<Q", 48), "symbols")


def test_a_version_chain_without_an_end():
    # The second need follows the first by one byte, and so on: every count says the same, and none fits.
    refused(changed(RICH, ".gnu.version_r", 12, "<I", 1), "more or fewer versions")
    refused(changed(RICH, ".gnu.version_r", 2, "<H", 0xFFFF), "chain")


def test_a_hash_that_is_not_its_versions():
    refused(changed(RICH, ".gnu.version_r", 16, "<I", 1), "wrong about GLIBC_2.17")


def test_a_symbol_beyond_the_hashes_is_read_when_a_relocation_asks_for_it():
    elf = w.replace(RICH, hashes=(), symbols=(*w.undefined("a", "b", "absent"),), sections=False)
    assert [r.name for r in read(w.write_elf(elf)).references] == ["a", "b", "absent"]


def test_a_symbol_that_no_table_of_this_size_has_takes_no_memory():
    elf = w.replace(RICH, hashes=(), symbols=w.undefined("a"), sections=False)
    data = bytearray(w.write_elf(elf))
    struct.pack_into("<I", data, w.places(elf)[".rela.dyn"].start + 12, 1 << 24)
    tracemalloc.start()
    refused(bytes(data), "nothing of the file is mapped")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**20


def test_names_that_share_everything():
    # A thousand symbols whose names all end at the end of one long name: linkers share ends, but not like this.
    text = "a" * 60_000
    count = 1000
    elf = w.Elf(symbols=tuple(w.undefined(*(f"s{n}" for n in range(count)))), soname=text, sections=False)
    data = bytearray(w.write_elf(elf))
    table, strings = w.places(elf)[".dynsym"].start, data.find(b"a" * 60_000)
    first = w.places(elf)[".dynstr"].start
    for number in range(1, count + 1):
        struct.pack_into("<I", data, table + 24 * number, strings - first + number)
    refused(bytes(data), "much longer than the table")


@pytest.mark.parametrize(
    ("at", "layout", "value", "match"),
    [
        (4, "B", 1, "64-bit"),
        (5, "B", 2, "little-endian"),
        (7, "B", 9, "operating system"),
        (16, "<H", 4, "neither a library nor a program"),
        (54, "<H", 32, "program headers are of 32"),
        (56, "<H", 0xFFFF, "program headers"),
        (32, "<Q", 2**63, "cut off"),
        (40, "<Q", 2**63, "cut off"),
        (58, "<H", 40, "section headers are of 40"),
        (62, "<H", 99, "names of its sections"),
    ],
)
def test_headers_that_no_loader_takes(at, layout, value, match):
    data = bytearray(w.write_elf(RICH))
    struct.pack_into(layout, data, at, value)
    refused(bytes(data), match)


def test_segments_over_each_other():
    elf = w.replace(RICH, interpreter="/lib/ld.so", sections=False)
    data = bytearray(w.write_elf(elf))
    headers = w.places(elf)["phdr"].start
    data[headers : headers + 56] = data[headers + 56 : headers + 112]
    refused(bytes(data), "over each other")


@pytest.mark.parametrize("gap", [0, 4096])
def test_a_table_may_lie_in_two_segments_that_follow_each_other(gap):
    names = [f"s{number}" for number in range(300)]
    elf = w.extension(symbols=w.undefined(*names), sections=False)
    data, symbols = bytearray(w.write_elf(elf)), w.places(elf)[".dynsym"]
    assert symbols.start < 4096 < symbols.stop
    # The header of the stack becomes a second segment, as patchelf splits what it rewrites.
    first, size = w.places(elf)["phdr"].start, len(data) - 4096
    data[first + 112 : first + 168] = struct.pack("<IIQQQQQQ", 1, 6, 4096, 4096 + gap, 4096 + gap, size, size, 4096)
    struct.pack_into("<QQ", data, first + 32, 4096, 4096)
    if gap:
        refused(bytes(data), "broken ELF file")
    else:
        assert [reference.name for reference in read(bytes(data)).references] == names


def test_a_dynamic_table_at_two_places():
    elf = w.replace(RICH, sections=False)
    refused(changed(elf, "phdr", 56 + 8, "<Q", 0), "one place in the file and at another in memory")


def test_a_tag_that_says_two_things():
    refused(w.write_elf(w.extension(numbers=((w.DT_STRSZ, 1),))), "twice")


def test_a_dynamic_table_without_an_end():
    elf = w.replace(RICH, sections=False)
    size = len(w.places(elf)[".dynamic"])
    refused(changed(elf, ".dynamic", size - 16, "<Q", 30), "does not end")


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=6), st.booleans())
def test_damaged_files_are_read_or_refused(changes, sections):
    data = bytearray(w.write_elf(w.replace(RICH, sections=sections)))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        found = read(bytes(data))
    except WheelError:
        return
    assert found.arch in {"x86_64", "aarch64"}


@given(st.binary(max_size=300))
def test_noise_is_refused(noise):
    refused(b"\x7fELF" + noise, "is (a broken|an) ELF file")


@pytest.mark.parametrize(
    ("at", "value", "match"),
    [
        (4, 1, "k.so is an ELF file for another machine: it is not for a 64-bit"),
        (5, 2, "k.so is an ELF file for another machine: it is not for a 64-bit"),
        (18, 3, "k.so is an ELF file for another machine: .* number 3, neither"),
        (4, 7, "k.so is a broken ELF file: it is not for a 64-bit"),
    ],
)
def test_a_file_for_another_machine_is_not_called_broken(at, value, match):
    data = bytearray(w.write_elf(RICH))
    data[at] = value
    with pytest.raises(WheelError, match=match):
        read_extension("k.so", io.BytesIO(data))
