"""What the loader reads of a library, and what else could be read instead."""

from __future__ import annotations

import struct
from copy import deepcopy

from forge import TORCH_STREAM, Wheel, legal, legals, lie, lies
from forge_elf import (
    DT_AUDIT,
    DT_AUXILIARY,
    DT_DEPAUDIT,
    DT_FILTER,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_NEEDED,
    DT_RELR,
    DT_RELRENT,
    DT_RELRSZ,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMENT,
    DT_SYMTAB,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERSYM,
    EM_386,
    EM_AARCH64,
    EM_RISCV,
    EM_X86_64,
    ET_CORE,
    ET_EXEC,
    ET_REL,
    PF_R,
    PF_W,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_STACK,
    PT_LOAD,
    PT_NOTE,
    PT_NULL,
    Image,
    Library,
    Symbol,
)
from forge_gpu import code

_AWAY = 0x10000


def with_cuda(library: Library) -> Library:
    """Let a library need CUDA 13 and hold code for it."""
    library.needed[:0] = ["libc10_cuda.so", "libcudart.so.13"]
    library.import_(TORCH_STREAM, kind=0)
    library.import_("cudaLaunchKernel", version=("libcudart.so.13", "libcudart.so.13"))
    library.fatbin = code("80")
    return library


def _innocent(wheel: Wheel) -> Library:
    return deepcopy(wheel.library)


# --- segments against sections ------------------------------------------------------------------------------


@lie("compute", "CUDA 13 code as +cpu: without section headers, a reader of sections sees nothing", base="cpu")
def cuda_without_sections(wheel: Wheel) -> None:
    with_cuda(wheel.library).sections = False


@lie("compute elf", "CUDA 13 code as +cpu: the sections have other names", base="cpu")
def cuda_in_renamed_sections(wheel: Wheel) -> None:
    names = {".nv_fatbin": ".eh_fram", ".dynamic": ".dynamit", ".dynsym": ".symdyn", ".gnu.version_r": ".r"}
    with_cuda(wheel.library).section_names = names


@lie("compute elf", "CUDA 13 code as +cpu: the sections show a library that needs none", base="cpu")
def cuda_behind_a_witness(wheel: Wheel) -> None:
    wheel.library.witness = _innocent(wheel)
    with_cuda(wheel.library)


@lie("platform", "glibc 2.38 as manylinux_2_17, without section headers")
def new_glibc_without_sections(wheel: Wheel) -> None:
    wheel.tag(platform=f"manylinux_2_17_{wheel.arch}")
    wheel.library.import_("strlcpy", version=("libc.so.6", "GLIBC_2.38"))
    wheel.library.sections = False


@lie("platform elf", "glibc 2.38 behind sections that show an old one")
def new_glibc_behind_a_witness(wheel: Wheel) -> None:
    wheel.library.witness = _innocent(wheel)
    wheel.library.import_("strlcpy", version=("libc.so.6", "GLIBC_2.38"))


@lie("symbols elf", "a symbol that nobody has, behind sections that do not show it")
def missing_symbol_behind_a_witness(wheel: Wheel) -> None:
    wheel.library.witness = _innocent(wheel)
    wheel.library.import_("nowhere")


@lie("libraries elf", "a library that nobody has, behind sections that do not show it")
def missing_library_behind_a_witness(wheel: Wheel) -> None:
    wheel.library.witness = _innocent(wheel)
    wheel.library.needed.append("libevil.so.1")


@lie("search-path elf", "a search path, behind sections that do not show it")
def search_path_behind_a_witness(wheel: Wheel) -> None:
    wheel.library.witness = _innocent(wheel)
    wheel.library.runpath = "/home/build/lib"


@lie("elf libraries symbols platform abi3", "sections that show more than the loader reads: the two disagree")
def witness_that_says_more(wheel: Wheel) -> None:
    witness = _innocent(wheel)
    witness.needed.append("libm.so.6")
    witness.import_("PyErr_Clear", kind=0)
    wheel.library.witness = witness


@lie("symbols", "a symbol that nobody has, without section headers")
def missing_symbol_without_sections(wheel: Wheel) -> None:
    wheel.library.import_("nowhere")
    wheel.library.sections = False


@lie("libraries", "a library that nobody has, without section headers")
def missing_library_without_sections(wheel: Wheel) -> None:
    wheel.library.needed.append("libevil.so.1")
    wheel.library.sections = False


@lie("search-path", "a search path, without section headers")
def search_path_without_sections(wheel: Wheel) -> None:
    wheel.library.rpath = "/home/build/lib"
    wheel.library.sections = False


@lie("abi3", "a symbol outside the stable ABI, without section headers")
def outside_abi3_without_sections(wheel: Wheel) -> None:
    wheel.library.import_("_PyObject_GetDictPtr", kind=0)
    wheel.library.sections = False


@lie("elf symbols", "a .dynsym section that is shorter than the table")
def short_dynsym(wheel: Wheel) -> None:
    wheel.library.import_("nowhere")
    wheel.library.change = lambda image: image.pack("<Q", image.section(".dynsym") + 32, 24)


@lie("elf libraries", "a .dynamic section whose type hides it")
def dynamic_of_another_type(wheel: Wheel) -> None:
    wheel.library.needed.append("libevil.so.1")
    wheel.library.change = lambda image: image.pack("<I", image.section(".dynamic") + 4, 1)


@lie(
    "elf symbols platform libraries", "a version table of sections that is empty: strlcpy of glibc 2.38 has no version"
)
def empty_version_section(wheel: Wheel) -> None:
    wheel.library.import_("strlcpy", version=("libc.so.6", "GLIBC_2.38"))

    def change(image: Image) -> None:
        image.pack("<I", image.section(".gnu.version_r") + 44, 0)
        image.pack("<I", image.section(".gnu.version") + 4, 1)

    wheel.library.change = change


def _other_dynamic(image: Image, name: str) -> int:
    """Write a copy of the dynamic segment into ``.data``, with a library more; return its address."""
    at = image.at[".dynamic"]
    size = image._block(".dynamic").data  # the writer's own test data
    table = struct.pack("<QQ", DT_NEEDED, image.tables.strings.data.index(name.encode())) + size
    image.data[image.at[".data"] : image.at[".data"] + len(table)] = table
    assert at
    return image.at[".data"] + _AWAY


def _two_dynamics(wheel: Wheel) -> None:
    wheel.library.writable = bytes(1024)
    # Its name is in the string table, and nothing refers to it.
    wheel.library.exports.append(Symbol(name="libevil.so.1"))


@lie("elf libraries", "a PT_DYNAMIC whose place in the file and address are of two tables: the loader goes by address")
def dynamic_by_address(wheel: Wheel) -> None:
    _two_dynamics(wheel)

    def change(image: Image) -> None:
        image.pack("<Q", image.segment(PT_DYNAMIC) + 16, _other_dynamic(image, "libevil.so.1"))

    wheel.library.change = change


@lie("elf libraries", "two PT_DYNAMIC: the loader takes the last")
def two_dynamic_segments(wheel: Wheel) -> None:
    _two_dynamics(wheel)

    def change(image: Image) -> None:
        where = _other_dynamic(image, "libevil.so.1")
        row = (PT_DYNAMIC, 6, where - _AWAY, where, where, 512, 512, 8)
        struct.pack_into("<IIQQQQQQ", image.data, image.segment(PT_NULL), *row)

    wheel.library.change = change


@lie("elf libraries", "a PT_DYNAMIC of 16 bytes: the loader reads on to DT_NULL")
def short_dynamic_segment(wheel: Wheel) -> None:
    wheel.library.needed.append("libevil.so.1")
    wheel.library.change = lambda image: image.pack("<QQ", image.segment(PT_DYNAMIC) + 32, 16, 16)


@lie("elf libraries symbols", "no PT_DYNAMIC: the sections alone say what is needed")
def no_dynamic_segment(wheel: Wheel) -> None:
    wheel.library.change = lambda image: image.pack("<I", image.segment(PT_DYNAMIC), PT_NULL)


@lie("elf libraries", "two segments at one address: the later replaces the first page, and with it the names")
def overlapping_segments(wheel: Wheel) -> None:
    page = 0x1000 if wheel.arch == "x86_64" else 0x10000

    def change(image: Image) -> None:
        shown = bytes(image.data[: image.boundary])
        image.data.extend(bytes(-len(image.data) % page))
        start = len(image.data)
        image.data.extend(shown.replace(b"libc.so.6", b"evil.so.6"))
        first = image.segment(PT_LOAD)
        second = bytes(image.data[first + 56 : first + 112])
        free = image.segment(PT_NULL)
        image.data[free : free + 56] = second
        row = (PT_LOAD, PF_R | PF_X, start, 0, 0, len(shown), len(shown), page)
        struct.pack_into("<IIQQQQQQ", image.data, first + 56, *row)

    wheel.library.change = change


def _second_strings(wheel: Wheel, *, first: bool) -> None:
    wheel.library.constants = bytes(1024)
    entry = (DT_STRTAB, 0)
    (wheel.library.dynamic_first if first else wheel.library.dynamic).append(entry)

    def change(image: Image) -> None:
        names = bytes(image.tables.strings.data)
        at = image.at[".rodata"]
        other = names.replace(b"libc.so.6", b"evil.so.6")
        mine = image.dynamic_entry(DT_STRTAB)
        ours = mine if first else _last(image, DT_STRTAB)
        image.data[at : at + len(names)] = names if first else other
        if first:
            place = image.at[".dynstr"]
            image.data[place : place + len(names)] = other
        image.pack("<QQ", ours, DT_STRTAB, at)

    wheel.library.change = change


def _last(image: Image, tag: int) -> int:
    at, found = image.at[".dynamic"], 0
    while (entry := struct.unpack_from("<Q", image.data, at)[0]) != 0:
        found = at if entry == tag else found
        at += 16
    return found


@lie("elf libraries", "DT_STRTAB twice: the loader takes the last, whose names are others")
def strings_twice_last(wheel: Wheel) -> None:
    _second_strings(wheel, first=False)


@lie("elf libraries", "DT_STRTAB twice: the first is innocent")
def strings_twice_first(wheel: Wheel) -> None:
    _second_strings(wheel, first=True)


@lie("elf symbols", "DT_SYMTAB twice: the last names symbols that nobody has")
def symbols_twice(wheel: Wheel) -> None:
    wheel.library.constants = bytes(1024)
    wheel.library.exports.append(Symbol(name="nowhere"))
    wheel.library.dynamic.append((DT_SYMTAB, 0))

    def change(image: Image) -> None:
        start, count = image.at[".dynsym"], len(image.tables.symbols) + 1
        table = bytearray(image.data[start : start + 24 * count])
        name = struct.unpack_from("<I", image.data, image.symbol("nowhere"))[0]
        struct.pack_into("<I", table, 24, name)
        struct.pack_into("<I", table, image.symbol("nowhere") - start, 0)
        image.data[image.at[".rodata"] : image.at[".rodata"] + len(table)] = table
        image.pack("<QQ", _last(image, DT_SYMTAB), DT_SYMTAB, image.at[".rodata"])

    wheel.library.change = change


@lie("elf platform", "DT_VERNEED twice: the last needs glibc 2.38")
def needed_versions_twice(wheel: Wheel) -> None:
    library = wheel.library
    library.constants = bytes(1024)
    library.exports.append(Symbol(name="GLIBC_2.38"))
    library.dynamic.append((DT_VERNEED, 0))

    def change(image: Image) -> None:
        table = bytearray(image.tables.needed)
        struct.pack_into("<I", table, 16 + 8, image.tables.strings.data.index(b"GLIBC_2.38"))
        struct.pack_into("<I", table, 16, 0x69691B8)
        image.data[image.at[".rodata"] : image.at[".rodata"] + len(table)] = table
        image.pack("<QQ", _last(image, DT_VERNEED), DT_VERNEED, image.at[".rodata"])

    library.change = change


# --- entries that the loader heeds --------------------------------------------------------------------------


def _entry(tag: int, name: str) -> None:
    def change(wheel: Wheel) -> None:
        wheel.library.dynamic.append((tag, "libevil.so.1"))

    lie("libraries elf search-path", f"{name} makes the loader load another library", family="elf", name=name)(change)


for _tag, _name in (
    (DT_AUXILIARY, "DT_AUXILIARY"),
    (DT_FILTER, "DT_FILTER"),
    (DT_AUDIT, "DT_AUDIT"),
    (DT_DEPAUDIT, "DT_DEPAUDIT"),
):
    _entry(_tag, _name)


@lie("libraries elf search-path", "DT_FILTER with a library of torch's: its symbols are taken instead")
def filter_with_a_known_name(wheel: Wheel) -> None:
    wheel.library.dynamic_first.append((DT_FILTER, "libc.so.6"))


@lie("elf", "DF_1_NOOPEN: dlopen refuses it, so Python cannot import it")
def must_not_be_opened(wheel: Wheel) -> None:
    wheel.library.dynamic.append((DT_FLAGS_1, 0x40))


@lie("elf", "DF_1_PIE: dlopen refuses a program")
def is_a_program(wheel: Wheel) -> None:
    wheel.library.dynamic.append((DT_FLAGS_1, 0x08000000))


@lie("elf platform", "DT_RELR without GLIBC_ABI_DT_RELR: a loader before glibc 2.36 passes over the relocations")
def packed_relocations(wheel: Wheel) -> None:
    wheel.library.writable = bytes(16)
    wheel.library.constants = bytes(16)
    wheel.library.dynamic += [(DT_RELR, 0), (DT_RELRSZ, 8), (DT_RELRENT, 8)]

    def change(image: Image) -> None:
        image.pack("<Q", image.at[".rodata"], image.at[".data"] + _AWAY)
        image.set_dynamic(DT_RELR, image.at[".rodata"])

    wheel.library.change = change


@lie("elf", "an executable stack: glibc 2.41 refuses to load it")
def executable_stack(wheel: Wheel) -> None:
    wheel.library.stack = PF_R | PF_W | PF_X


@lie("elf", "no PT_GNU_STACK: the loader takes an executable stack to be wanted")
def stack_not_said(wheel: Wheel) -> None:
    wheel.library.stack = None


@lie("elf", "two PT_GNU_STACK: the loader takes the last, which is executable")
def two_stacks(wheel: Wheel) -> None:
    wheel.library.segments.append((PT_GNU_STACK, 7, 0, 0, 0, 0, 0, 16))


@lie("elf", "an executable stack in a library beside the extension", base="bundled")
def executable_stack_of_a_bundled_library(wheel: Wheel) -> None:
    list(wheel.files.values())[-1].stack = 7


def _type(number: int, name: str) -> None:
    def change(wheel: Wheel) -> None:
        wheel.library.type = number

    lie("elf", f"a file of type {name} cannot be loaded", family="elf", name=name)(change)


for _tag, _name in ((ET_REL, "ET_REL"), (ET_EXEC, "ET_EXEC"), (ET_CORE, "ET_CORE"), (0, "ET_NONE")):
    _type(_tag, _name)


def _ident(place: int, value: int, says: str, name: str) -> None:
    def change(wheel: Wheel) -> None:
        ident = bytearray(wheel.library.ident)
        ident[place] = value
        wheel.library.ident = bytes(ident)

    lie("elf architecture", says, family="elf", name=name)(change)


_ident(4, 1, "32 bits: no 64-bit Python loads it", "thirty-two bits")
_ident(5, 2, "the other byte order", "big endian")
_ident(6, 2, "an ELF version that does not exist", "ELF version 2")
_ident(7, 9, "the ABI of FreeBSD: the loader refuses it", "FreeBSD")
_ident(8, 9, "an ABI version that the loader refuses", "ABI version 9")


def _machine(number: int, name: str, arches: tuple[str, ...]) -> None:
    def change(wheel: Wheel) -> None:
        wheel.library.machine = number

    lie("architecture elf", f"machine code for {name}", arches=arches, family="elf", name=f"for {name}")(change)


_machine(EM_AARCH64, "aarch64", ("x86_64",))
_machine(EM_X86_64, "x86_64", ("aarch64",))
_machine(EM_386, "i386", ("x86_64",))
_machine(EM_RISCV, "riscv", ("x86_64", "aarch64"))


@lie("architecture elf", "a second library for the other architecture", base="bundled")
def second_library_for_another_machine(wheel: Wheel) -> None:
    other = "aarch64" if wheel.arch == "x86_64" else "x86_64"
    wheel.files["forged/extra.so"] = Library(arch=other, needed=["libc.so.6"], exports=[Symbol(name="extra")])


@lie("architecture elf", "a library for the other architecture under a name that says nothing")
def other_machine_in_a_data_file(wheel: Wheel) -> None:
    other = "aarch64" if wheel.arch == "x86_64" else "x86_64"
    wheel.files["forged/table.bin"] = Library(arch=other, needed=["libc.so.6"], exports=[Symbol(name="extra")])


def _broken(name: str, says: str, change: object) -> None:
    def forge(wheel: Wheel) -> None:
        wheel.library.change = change

    lie("elf", says, family="elf", name=name)(forge)


_broken("truncated", "half of a library", lambda image: image.data.__delitem__(slice(len(image.data) // 2, None)))
_broken("only magic", "four bytes", lambda image: image.data.__delitem__(slice(4, None)))
_broken("no program headers", "nothing to load", lambda image: image.pack("<H", 56, 0))
_broken("program headers elsewhere", "they lie beyond the end", lambda image: image.pack("<Q", 32, 1 << 40))
_broken("odd program headers", "they are of 57 bytes", lambda image: image.pack("<H", 54, 57))
_broken("no segment", "PT_LOAD is not there", lambda i: [i.pack("<I", i.segment(PT_LOAD), 0) for _ in range(2)])
_broken(
    "beyond the end",
    "a segment has more bytes than the file",
    lambda i: i.pack("<QQ", i.segment(PT_LOAD) + 32, 1 << 30, 1 << 30),
)
_broken("more file than memory", "a segment is larger in the file", lambda i: i.pack("<Q", i.segment(PT_LOAD) + 40, 8))
_broken("strings nowhere", "DT_STRTAB lies in no segment", lambda i: i.set_dynamic(DT_STRTAB, 1 << 40))
_broken("symbols nowhere", "DT_SYMTAB lies in no segment", lambda i: i.set_dynamic(DT_SYMTAB, 1 << 40))
_broken("no strings", "there is no DT_STRTAB", lambda i: i.set_dynamic(DT_STRTAB, 0, new_tag=0x6FFFF000))
_broken("odd symbols", "symbols of 48 bytes: the loader stops", lambda i: i.set_dynamic(DT_SYMENT, 48))
_broken("short strings", "names beyond DT_STRSZ", lambda i: i.set_dynamic(DT_STRSZ, 4))
_broken("versions nowhere", "DT_VERNEED lies in no segment", lambda i: i.set_dynamic(DT_VERNEED, 1 << 40))
_broken("symbol versions nowhere", "DT_VERSYM lies in no segment", lambda i: i.set_dynamic(DT_VERSYM, 1 << 40))
_broken(
    "version loop",
    "a needed version that is followed by itself",
    lambda i: i.pack("<I", i.at[".gnu.version_r"] + 12, 0xFFFFFFF0),
)
_broken(
    "hash of a version",
    "a version whose hash is another's: the loader does not find it",
    lambda i: i.pack("<I", i.at[".gnu.version_r"] + 16, 7),
)
_broken(
    "name beyond strings", "a symbol whose name lies nowhere", lambda i: i.pack("<I", i.at[".dynsym"] + 24, 1 << 30)
)


@lie("elf platform", "DT_VERNEEDNUM says one, and the loader goes on to glibc 2.38's libm")
def fewer_versions_than_there_are(wheel: Wheel) -> None:
    wheel.library.needed.append("libm.so.6")
    wheel.library.import_("fmod", version=("libm.so.6", "GLIBC_2.38"))
    wheel.library.change = lambda image: image.set_dynamic(DT_VERNEEDNUM, 1)


@lie("elf platform", "vn_cnt says one, and the loader goes on to GLIBC_2.38")
def fewer_auxiliaries_than_there_are(wheel: Wheel) -> None:
    wheel.library.import_("strlcpy", version=("libc.so.6", "GLIBC_2.38"))
    wheel.library.change = lambda image: image.pack("<H", image.at[".gnu.version_r"] + 2, 1)


@lie("elf platform architecture", "a note that asks for x86-64-v4: other CPUs refuse to load it", arches=("x86_64",))
def needs_a_new_cpu(wheel: Wheel) -> None:
    wheel.library.constants = struct.pack("<III4sIIII", 4, 16, 5, b"GNU\0", 0xC0008002, 4, 8, 0)

    def change(image: Image) -> None:
        at = image.at[".rodata"]
        row = (PT_NOTE, 4, at, at, at, 32, 32, 8)
        struct.pack_into("<IIQQQQQQ", image.data, image.segment(PT_NULL), *row)

    wheel.library.change = change


# --- DT_NEEDED ----------------------------------------------------------------------------------------------


def _needed(wheel: Wheel, name: str) -> None:
    wheel.library.needed.insert(0, name)


lies(
    "libraries",
    "DT_NEEDED {!r} is no library of the platform, of torch or of CUDA",
    [
        *(
            "libtorch/../../tmp/evil.so",
            "/tmp/evil.so",
            "./libc10.so",
            "../evil.so",
            "$ORIGIN/evil.so",
            "torch/lib/libc10.so",
        ),
        *(
            "libtorch_evil.so",
            "libtorchevil.so",
            "libtorch.so.1",
            "libtorch_cpu.so.2",
            "libc10_evil.so",
            "libc10.so.99",
        ),
        *("libshm_windows.so", "libgomp-evil.so.1", "libgomp.so.2", "libc.so.7", "libm.so.5", "libstdc++.so.5"),
        *(
            "LIBC.SO.6",
            "libc.so.6 ",
            " libc.so.6",
            "libc10.so\n",
            "",
            "lib\u044110.so",
            "libc10.so/",
            "libpython3.11.so.1.0",
        ),
        *("libcudart_evil.so.12", "libcurl.so.4", "libnvidia-evil.so", "linux-vdso.so.1", "libtorch_hip.so"),
    ],
    _needed,
    base="cpu",
)
lies(
    "libraries compute",
    "{!r} in a wheel for CUDA 13.0",
    [
        *("libcublas.so.12", "libcublasLt.so.12", "libcublas_evil.so.13", "libcublas.so", "libcublas.so.13.0.2"),
        *("libcudart.so.12", "libcudart.so", "libcudart.so.14", "libcudart-0123abcd.so.13", "libcudartx.so.13"),
        *("libnvrtc.so.12", "libcusparse.so.11", "libcusolver.so.11", "libcufft.so.11", "libcurand.so.9"),
        *(
            "libnvJitLink.so.12",
            "libnccl.so.1",
            "libcudnn.so.8",
            "libnvToolsExt.so.1",
            "libcuda.so.2",
            "libcuda.so.1evil",
        ),
        *("libcudnn_evil.so.9", "libtorch_cuda.so.13", "libc10_cuda.so.1"),
    ],
    _needed,
    base="cuda",
    name="of CUDA",
)
lies(
    "compute libraries",
    "{!r} in a wheel for cpu",
    [
        *("libcudart.so.13", "libcudart.so.12", "libcuda.so.1", "libtorch_cuda.so", "libc10_cuda.so", "libnvrtc.so.13"),
        *("libnccl.so.2", "libcublas.so.13", "libtorch_cuda_linalg.so", "libcupti.so.13", "libnvshmem_host.so.3"),
    ],
    _needed,
    base="cpu",
    name="of a cpu wheel",
)
legals("torch has {!r}", ["libtorch_python.so", "libshm.so", "libtorch_global_deps.so"], _needed, base="cpu")
legals(
    "torch for CUDA has {!r}, or brings it",
    [
        *("libcaffe2_nvrtc.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libcublas.so.13", "libcublasLt.so.13"),
        *(
            "libcuda.so.1",
            "libnvrtc.so.13",
            "libcusparse.so.12",
            "libcusolver.so.12",
            "libcufft.so.12",
            "libcurand.so.10",
        ),
        *("libcudnn.so.9", "libnccl.so.2", "libnvJitLink.so.13"),
    ],
    _needed,
    base="cuda",
)
legals(
    "{!r} is on every glibc machine",
    [
        "libm.so.6",
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
        "libutil.so.1",
        "libgcc_s.so.1",
        "libstdc++.so.6",
        "libz.so.1",
    ],
    _needed,
)


@legal("libmvec is part of glibc from 2.22 on", arches=("x86_64",))
def vector_mathematics(wheel: Wheel) -> None:
    _needed(wheel, "libmvec.so.1")
    wheel.library.import_("_ZGVbN2v_sin", version=("libmvec.so.1", "GLIBC_2.22"), kind=0)


@legal("the loader itself may be needed: __tls_get_addr is its own")
def the_loader_itself(wheel: Wheel) -> None:
    name = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}[wheel.arch]
    _needed(wheel, name)
    version = {"x86_64": "GLIBC_2.3", "aarch64": "GLIBC_2.17"}[wheel.arch]
    symbol = {"x86_64": "__tls_get_addr", "aarch64": "__stack_chk_guard"}[wheel.arch]
    wheel.library.import_(symbol, version=(name, version), kind=0)


@legal("the same library needed twice is loaded once")
def needed_twice(wheel: Wheel) -> None:
    wheel.library.needed.append("libc.so.6")


# --- search paths and libraries of the wheel's own ----------------------------------------------------------


def _runpath(wheel: Wheel, path: str) -> None:
    wheel.library.runpath = path


lies(
    "search-path",
    "RUNPATH {!r} leads out of what the wheel installs",
    [
        *("/home/build/lib", "/usr/local/cuda/lib64", "", ":", "$ORIGIN:", "lib", ".", "$ORIGIN/../../../../tmp"),
        *("$ORIGIN/../forged.libs:/tmp/evil", "$LIB", "/$LIB/x", "$PLATFORM", "$ORIGINAL/lib", "$ORIGIN/../../../etc"),
        *("${ORIGIN}/../../../../../tmp", "$origin/../forged.libs", "/proc/self/cwd", "$ORIGIN/../forged.libs\n/tmp"),
    ],
    _runpath,
    base="bundled",
)


@lie("search-path", "DT_RPATH of the build machine", base="bundled")
def rpath_of_the_build_machine(wheel: Wheel) -> None:
    wheel.library.rpath = "/__w/_temp/conda/lib"


@lie("search-path", "RPATH beside an innocent RUNPATH", base="bundled")
def rpath_and_runpath(wheel: Wheel) -> None:
    wheel.library.rpath = "/opt/evil"


@lie("search-path", "a second DT_RUNPATH: the loader takes the last", base="bundled")
def runpath_twice(wheel: Wheel) -> None:
    wheel.library.dynamic.append((29, "/opt/evil"))


@lie("search-path", "a bundled library looks on the build machine", base="bundled")
def runpath_of_a_bundled_library(wheel: Wheel) -> None:
    list(wheel.files.values())[-1].runpath = "/opt/evil"


@lie("libraries symbols", "the library that is needed is not in the wheel", base="bundled")
def bundled_library_is_missing(wheel: Wheel) -> None:
    del wheel.files["forged.libs/libhelp-0123abcd.so.1"]


@lie("libraries symbols search-path", "the wheel's own library lies where RUNPATH does not look", base="bundled")
def bundled_library_elsewhere(wheel: Wheel) -> None:
    wheel.move("forged.libs/libhelp-0123abcd.so.1", "forged/lib/libhelp-0123abcd.so.1")


@lie("libraries symbols search-path", "the wheel's own library, and no RUNPATH", base="bundled")
def bundled_library_without_a_path(wheel: Wheel) -> None:
    wheel.library.runpath = None


@lie("libraries symbols", "a file of the right name that is no library", base="bundled")
def bundled_library_is_text(wheel: Wheel) -> None:
    wheel.files["forged.libs/libhelp-0123abcd.so.1"] = b"INPUT(libhelp.so)\n"


@lie("libraries symbols", "the right soname in a file of another name: the loader goes by file names", base="bundled")
def bundled_library_by_soname(wheel: Wheel) -> None:
    wheel.move("forged.libs/libhelp-0123abcd.so.1", "forged.libs/libother.so.1")


@lie("libraries architecture symbols", "the bundled library is for the other architecture", base="bundled")
def bundled_library_for_another_machine(wheel: Wheel) -> None:
    other = "aarch64" if wheel.arch == "x86_64" else "x86_64"
    list(wheel.files.values())[-1].arch = other


@lie("libraries", "a bundled library needs what nobody has", base="bundled")
def bundled_library_needs_more(wheel: Wheel) -> None:
    list(wheel.files.values())[-1].needed.append("libevil.so.1")


@lie("libraries", "a bundled copy of libtorch: two torches in one process", base="cpu")
def bundled_torch(wheel: Wheel) -> None:
    wheel.library.runpath = "$ORIGIN/../forged.libs"
    _needed(wheel, "libtorch_evil.so")
    own = Library(arch=wheel.arch, needed=["libevil.so"], soname="libtorch_evil.so", exports=[Symbol(name="x")])
    wheel.files["forged.libs/libtorch_evil.so"] = own


@legal("a bundled library, as auditwheel leaves it", base="bundled")
def as_auditwheel_leaves_it(wheel: Wheel) -> None:
    del wheel


legals(
    "RUNPATH {!r} lies in what the wheel installs",
    [
        "${ORIGIN}/../forged.libs",
        "$ORIGIN/../forged.libs/",
        "$ORIGIN:$ORIGIN/../forged.libs",
        "$ORIGIN/./../forged.libs",
    ],
    _runpath,
    base="bundled",
)
legals("torch's libraries lie in {!r}", ["$ORIGIN/../torch/lib", "$ORIGIN/../torch/lib:$ORIGIN"], _runpath, base="cpu")


@legal("DT_RPATH does what RUNPATH does, and for what is needed by what is needed", base="bundled")
def rpath_to_bundled(wheel: Wheel) -> None:
    wheel.library.runpath, wheel.library.rpath = None, "$ORIGIN/../forged.libs"


@legal("a bundled library needs another one beside it", base="bundled")
def bundled_in_a_row(wheel: Wheel) -> None:
    first = list(wheel.files.values())[-1]
    first.needed.insert(0, "libmore.so")
    first.runpath = "$ORIGIN"
    first.import_("more")
    wheel.files["forged.libs/libmore.so"] = Library(
        arch=wheel.arch, needed=["libc.so.6"], soname="libmore.so", exports=[Symbol(name="more")]
    )


@legal("a library that other code opens need not be a module", base="plain")
def no_init(wheel: Wheel) -> None:
    wheel.library.exports = [Symbol(name="run")]


# --- oddities of the format ---------------------------------------------------------------------------------


@legal("section headers are for linkers and debuggers: a library without them loads")
def no_sections(wheel: Wheel) -> None:
    wheel.library.sections = False


@legal("the old hash table beside the new one")
def both_hashes(wheel: Wheel) -> None:
    wheel.library.sysv_hash = True


@legal("the old hash table alone")
def only_the_old_hash(wheel: Wheel) -> None:
    wheel.library.sysv_hash, wheel.library.gnu_hash = True, False


@legal("lazy binding: imports by DT_JMPREL")
def lazy_binding(wheel: Wheel) -> None:
    wheel.library.lazily = True


def _flag(tag: int, value: int, name: str) -> None:
    def change(wheel: Wheel) -> None:
        wheel.library.dynamic.append((tag, value))

    legal(f"{name} is heeded, and harmless", family="elf", name=name)(change)


for _tag, _value, _name in (
    (DT_FLAGS, 8, "DF_BIND_NOW"),
    (DT_FLAGS, 2, "DF_SYMBOLIC"),
    (DT_FLAGS, 16, "DF_STATIC_TLS"),
    (DT_FLAGS_1, 8, "DF_1_NODELETE"),
    (DT_FLAGS_1, 1, "DF_1_NOW"),
    (0x6FFFFFF9, 0, "DT_RELACOUNT"),
    (24, 0, "DT_BIND_NOW"),
    (0, 0, "more DT_NULL than one"),
):
    _flag(_tag, _value, _name)


@legal("OSABI 3 is GNU: linkers write it for unique symbols and ifuncs")
def gnu_abi(wheel: Wheel) -> None:
    wheel.library.ident = b"\x7fELF\x02\x01\x01\x03" + bytes(8)
    wheel.library.exports.append(Symbol(name="only_once", bind=10, kind=1))


@legal("exports with versions of their own")
def own_versions(wheel: Wheel) -> None:
    wheel.library.soname = "_ops.abi3.so"
    wheel.library.exports.append(Symbol(name="run", version=("", "FORGED_1")))


@legal("a stack that is not executable, said twice")
def two_harmless_stacks(wheel: Wheel) -> None:
    wheel.library.segments.append((PT_GNU_STACK, 6, 0, 0, 0, 0, 0, 16))


@legal("a .comment that no segment loads")
def comment(wheel: Wheel) -> None:
    wheel.library.loose = (".comment", b"GCC: (GNU) 14\0")
