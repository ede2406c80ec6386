"""ELF files: what is read of them, and that corrupt ones are refused with one sentence."""

import contextlib
import io
import random

import pytest
from forge_elf import HIDDEN, WEAK, Library, Symbol

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.elf import NeededVersion, Reference, is_cpu_elf, read_extension

BOTH = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


def rich(**fields):
    library = Library(
        soname="libk.so",
        needed=["libc.so.6", "libtorch.so"],
        runpath="$ORIGIN/../torch/lib:$ORIGIN",
        exports=[
            Symbol(name="PyInit_k"),
            Symbol(name="one", version=("", "V1")),
            Symbol(name="two", version=("", "V2")),
            Symbol(name="inner", visibility=HIDDEN),
        ],
        **fields,
    )
    library.import_("malloc", version=("libc.so.6", "GLIBC_2.17"))
    library.import_("log", version=("libm.so.6", "GLIBC_2.29"))
    library.import_("free")
    library.import_("may_be_absent", bind=WEAK)
    return library


def read(library):
    return read_extension("k.so", io.BytesIO(library if isinstance(library, bytes) else library.build()))


@BOTH
@pytest.mark.parametrize("sections", [True, False])
@pytest.mark.parametrize("old_hash", [True, False])
def test_a_library_is_read_with_and_without_sections(machine, sections, old_hash):
    found = read(rich(arch=machine, sections=sections, gnu_hash=not old_hash, sysv_hash=old_hash))
    assert (found.arch, found.kind, found.dynamic) == (machine, "library", True)
    assert (found.soname, found.needed) == ("libk.so", ("libc.so.6", "libtorch.so"))
    assert found.search_paths == ("$ORIGIN/../torch/lib", "$ORIGIN")
    assert set(found.references) == {
        Reference(name="malloc", version="GLIBC_2.17", library="libc.so.6"),
        Reference(name="log", version="GLIBC_2.29", library="libm.so.6"),
        Reference(name="free"),
        Reference(name="may_be_absent", weak=True),
    }
    assert NeededVersion(library="libm.so.6", name="GLIBC_2.29") in found.needed_versions
    assert (found.exported, found.defined_versions) == ({"PyInit_k", "one", "two"}, {"V1", "V2"})
    assert (found.executable_stack, found.text_relocations, found.interposed) == (False, False, ())


def test_a_symbol_is_offered_in_its_version():
    found = read(rich())
    assert found.provides(Reference(name="one"))
    assert found.provides(Reference(name="one", version="V1"))
    assert not found.provides(Reference(name="one", version="V2"))
    assert read(Library(exports=[Symbol(name="one")])).provides(Reference(name="one", version="V1"))


def test_imports_of_a_file_without_exports_are_read():
    library = Library()
    library.import_("nowhere")
    assert [reference.name for reference in read(library).references] == ["nowhere"]


def test_code_of_gpus_is_data():
    assert not is_cpu_elf(Library(machine=190).build())
    assert is_cpu_elf(Library(machine=3).build())


@pytest.mark.parametrize("data", [b"\x7fELF", b"\x7fELF" + bytes(200), rich().build()[:700], bytes(64)])
def test_what_is_no_elf_file_is_refused(data):
    with pytest.raises(WheelError, match=r"^k\.so cannot be read as an ELF file$"):
        read(data)


@pytest.mark.parametrize("sections", [True, False])
def test_damaged_files_are_read_or_refused(sections):
    whole = rich(sections=sections).build()
    for seed in range(300):
        chance = random.Random(seed)
        data = bytearray(whole)
        for _ in range(chance.choice((1, 2, 4))):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 255, chance.randrange(256)))
        with contextlib.suppress(WheelError):
            assert read(bytes(data)).arch in {"x86_64", "aarch64"}
