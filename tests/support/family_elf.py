"""ELF files: what the loader refuses, search paths, needed libraries, and oddities of the format that are legal."""

from __future__ import annotations

import struct
from collections.abc import Callable

from forge import TORCH_STREAM, Wheel, legal, legals, lie, lies
from forge_elf import (
    DF_1_PIE,
    DT_AUDIT,
    DT_AUXILIARY,
    DT_DEPAUDIT,
    DT_FILTER,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_RELRSZ,
    DT_TEXTREL,
    EM_386,
    EM_AARCH64,
    EM_RISCV,
    EM_X86_64,
    ET_EXEC,
    ET_REL,
    PT_GNU_STACK,
    PT_INTERP,
    PT_NOTE,
    PT_TLS,
    Library,
    Segment,
    Symbol,
)
from forge_gpu import code

_OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}
_OWN = "forged.libs/libhelp-0123abcd.so.1"


def with_cuda(library: Library) -> Library:
    """Let a library need CUDA 13 and hold code for it."""
    library.needed[:0] = ["libc10_cuda.so", "libcudart.so.13"]
    library.import_(TORCH_STREAM, kind=0)
    library.import_("cudaLaunchKernel", version=("libcudart.so.13", "libcudart.so.13"))
    library.fatbin = code("80")
    return library


# --- without section headers, as `strip --strip-section-headers` leaves it ------------------------------------------


@lie("compute", "CUDA 13 code as +cpu, without section headers", base="cpu")
def cuda_without_sections(wheel: Wheel) -> None:
    with_cuda(wheel.library).sections = False


# --- one file by itself ---------------------------------------------------------------------------------------------


def _library(says: str, name: str, judges: str = "elf", **fields: object) -> None:
    def change(wheel: Wheel) -> None:
        vars(wheel.library).update(fields)

    lie(judges, says, family="elf", name=name)(change)


def _ident(place: int, value: int) -> bytes:
    ident = bytearray(Library().ident)
    ident[place] = value
    return bytes(ident)


for _tag, _name in {
    DT_AUXILIARY: "DT_AUXILIARY",
    DT_FILTER: "DT_FILTER",
    DT_AUDIT: "DT_AUDIT",
    DT_DEPAUDIT: "DT_DEPAUDIT",
}.items():
    _library("the loader searches another library", _name, dynamic=[(_tag, "libother.so.1")])
_library("DF_1_PIE: dlopen refuses a program", "is a program", dynamic=[(DT_FLAGS_1, DF_1_PIE)])
_library("an object file cannot be loaded", "ET_REL", type=ET_REL)
_library("a program cannot be loaded", "ET_EXEC", type=ET_EXEC)
_library("code that was not compiled for a shared library", "text relocations", dynamic=[(DT_TEXTREL, 0)])
_library("the same by DT_FLAGS", "text relocations by a flag", dynamic=[(DT_FLAGS, 4)])
_library("loaders before glibc 2.36 ignore DT_RELR", "packed relocations", dynamic=[(DT_RELRSZ, 8)])
_library("an executable stack: glibc 2.41 refuses to load it", "executable stack", stack=7)
_library("no PT_GNU_STACK counts as an executable stack", "stack not said", stack=None)
_library(
    "cannot allocate memory in static TLS block",
    "much static TLS",
    dynamic=[(DT_FLAGS, 16)],
    segments=[Segment(kind=PT_TLS, memory=1 << 20)],
)
_library("no 64-bit Python loads it", "thirty-two bits", ident=_ident(4, 1))
_library("the other byte order", "big endian", ident=_ident(5, 2))
_library("the ABI of FreeBSD", "FreeBSD", ident=_ident(7, 9))
_library("half of a library", "truncated", change=lambda data: data.__delitem__(slice(len(data) // 2, None)))
_library("four bytes", "only magic", change=lambda data: data.__delitem__(slice(4, None)))
_library(
    "no PT_DYNAMIC: the loader finds nothing",
    "no dynamic segment",
    change=lambda data: struct.pack_into("<I", data, 64 + 56, 0),
)


def _machine(number: int, name: str, arches: tuple[str, ...]) -> None:
    def change(wheel: Wheel) -> None:
        wheel.library.machine = number

    lie("architecture elf", f"machine code for {name}", arches=arches, family="elf", name=f"for {name}")(change)


_machine(EM_AARCH64, "aarch64", ("x86_64",))
_machine(EM_X86_64, "x86_64", ("aarch64",))
_machine(EM_386, "i386", ("x86_64",))
_machine(EM_RISCV, "riscv", ("x86_64", "aarch64"))


def _stranger(wheel: Wheel, name: str) -> None:
    library = Library(arch=_OTHER[wheel.arch], needed=["libc.so.6"], exports=[Symbol(name="extra")])
    wheel.files[f"forged/{name}"] = library


lies("architecture elf", "{} is for the other architecture", ["extra.so", "table.bin"], _stranger)


@lie("elf", "a program whose loader is on the machine that built it")
def interpreter_elsewhere(wheel: Wheel) -> None:
    program = Library(arch=wheel.arch, needed=["libc.so.6"], dynamic=[(DT_FLAGS_1, DF_1_PIE)])
    program.segments.append(Segment(kind=PT_INTERP, content=b"/nix/store/0123-glibc/lib/ld.so.2\0"))
    wheel.files["forged/tool"] = program


# --- notes ----------------------------------------------------------------------------------------------------------


@lie("elf", "a note that requires x86-64-v4: other CPUs refuse to load it", arches=("x86_64",))
def needs_a_new_cpu(wheel: Wheel) -> None:
    note = struct.pack("<III4sIIII", 4, 16, 5, b"GNU\0", 0xC0008002, 4, 8, 0)
    wheel.library.segments.append(Segment(kind=PT_NOTE, content=note))


def _asks(wheel: Wheel, text: str) -> None:
    platforms, release = text.split()
    version = map(int, release.split("."))
    build_id = struct.pack("<III4sI", 4, 4, 3, b"GNU\0", 1)
    note = build_id + struct.pack("<III4sIIII", 4, 16, 1, b"GNU\0", 0, *version)
    wheel.library.segments.append(Segment(kind=PT_NOTE, content=note, align=4))
    if platforms.startswith("musllinux"):
        wheel.library.needed = [f"libc.musl-{wheel.arch}.so.1"]
        for symbol in wheel.library.imports:
            symbol.version = None
    wheel.tag(platform=".".join(f"{platform}_{wheel.arch}" for platform in platforms.split(".")))


lies(
    "platform",
    "glibc on an older Linux: ELF file OS ABI invalid ({})",
    ("manylinux_2_28 3.17.0", "manylinux2014 4.0.0", "manylinux_2_35 4.0.0", "manylinux_2_34.manylinux_2_36 4.0.0"),
    _asks,
    name="asks for Linux",
)
legals(
    "glibc itself asks for as much, or ignores it ({})",
    ("manylinux_2_28 3.2.0", "manylinux_2_17 2.6.32", "manylinux_2_36 6.1.0", "linux 6.1.0", "musllinux_1_2 6.1.0"),
    _asks,
    name="asks for Linux",
)
lies("platform", "later than glibc asks", ("manylinux_2_28 3.7.0",), _asks, arches=("x86_64",), name="Linux 3.7 on")
legals("the first Linux for arm64", ("manylinux_2_17 3.7.0",), _asks, arches=("aarch64",), name="Linux 3.7 on")


# --- DT_NEEDED ------------------------------------------------------------------------------------------------------


def _needed(wheel: Wheel, name: str) -> None:
    wheel.library.needed.insert(0, name)


lies(
    "libraries",
    "DT_NEEDED {!r} is no library of the platform, of torch or of CUDA",
    [
        *("/tmp/other.so", "$ORIGIN/other.so", "torch/lib/libc10.so", "libtorch_other.so", "libtorch.so.1"),
        *("libgomp.so.2", "libc.so.7", "libstdc++.so.5", "libpython3.11.so.1.0", "libcurl.so.4", "libtorch_hip.so"),
    ],
    _needed,
    base="cpu",
)
lies(
    "libraries compute",
    "{!r} in a wheel for CUDA 13.0",
    [
        *("libcublas.so.12", "libcublas.so", "libcudart.so.12", "libcudart.so.14", "libcusparse.so.11"),
        *("libnccl.so.1", "libcudnn.so.8", "libnvToolsExt.so.1", "libtorch_cuda.so.13", "libcuda.so.2"),
    ],
    _needed,
    base="cuda",
    name="of CUDA",
)
lies(
    "compute libraries",
    "{!r} in a wheel for cpu",
    ["libcudart.so.13", "libcuda.so.1", "libtorch_cuda.so", "libc10_cuda.so", "libnccl.so.2", "libcupti.so.13"],
    _needed,
    base="cpu",
    name="of a cpu wheel",
)
legals("torch has {!r}", ["libtorch_python.so", "libshm.so", "libtorch_global_deps.so"], _needed, base="cpu")
legals(
    "torch for CUDA has {!r}, or brings it",
    [
        *("libcaffe2_nvrtc.so", "libtorch_cuda_linalg.so", "libcublas.so.13", "libcuda.so.1", "libnvrtc.so.13"),
        *("libcufft.so.12", "libcurand.so.10", "libcudnn.so.9", "libnccl.so.2", "libnvJitLink.so.13"),
        *("libcupti.so.13", "libcufile.so.0", "libnvidia-ml.so.1"),
    ],
    _needed,
    base="cuda",
)
legals("{!r} is on every glibc machine", ["libm.so.6", "libpthread.so.0", "libgcc_s.so.1", "libz.so.1"], _needed)


@legal("the loader itself may be needed: __tls_get_addr is its own")
def the_loader_itself(wheel: Wheel) -> None:
    name, version, symbol = {
        "x86_64": ("ld-linux-x86-64.so.2", "GLIBC_2.3", "__tls_get_addr"),
        "aarch64": ("ld-linux-aarch64.so.1", "GLIBC_2.17", "__stack_chk_guard"),
    }[wheel.arch]
    _needed(wheel, name)
    wheel.library.import_(symbol, version=(name, version), kind=0)


# --- search paths and libraries of the wheel's own ------------------------------------------------------------------


def _runpath(wheel: Wheel, path: str) -> None:
    wheel.library.runpath = path


lies(
    "search-path",
    "RUNPATH {!r} leads out of what the wheel installs",
    [
        *("/usr/local/cuda/lib64", "", "$ORIGIN:", "lib", ".", "$ORIGIN/../../../../tmp"),
        *("$ORIGIN/../forged.libs:/tmp/build", "$LIB", "$ORIGIN/$LIB", "$ORIGINAL/lib", "${ORIGIN}/../../../tmp"),
    ],
    _runpath,
    base="bundled",
)


def _bundled(judges: str, says: str) -> Callable[[Callable[[Wheel, Library], object]], None]:
    """Register a lie about the library that the wheel brings."""

    def register(change: Callable[[Wheel, Library], object]) -> None:
        def forge(wheel: Wheel) -> None:
            own = wheel.files[_OWN]
            assert isinstance(own, Library)
            change(wheel, own)

        lie(judges, says, base="bundled", family="elf", name=change.__name__.strip("_").replace("_", " "))(forge)

    return register


@lie("search-path", "DT_RPATH of the build machine", base="bundled")
def rpath_of_the_build_machine(wheel: Wheel) -> None:
    wheel.library.rpath = "/__w/_temp/conda/lib"


@_bundled("search-path", "a bundled library looks on the build machine")
def _runpath_of_a_bundled_library(wheel: Wheel, own: Library) -> None:
    own.runpath = "/opt/build"


@_bundled("libraries symbols", "the library that is needed is not in the wheel")
def _bundled_library_is_missing(wheel: Wheel, own: Library) -> None:
    del wheel.files[_OWN]


@_bundled("libraries symbols", "the wheel's own library lies where RUNPATH does not look")
def _bundled_library_elsewhere(wheel: Wheel, own: Library) -> None:
    wheel.move(_OWN, "forged/lib/libhelp-0123abcd.so.1")


@_bundled("libraries symbols", "the wheel's own library, and no RUNPATH")
def _bundled_library_without_a_path(wheel: Wheel, own: Library) -> None:
    wheel.library.runpath = None


@_bundled("libraries symbols", "the right soname in a file of another name: the loader goes by file names")
def _bundled_library_by_soname(wheel: Wheel, own: Library) -> None:
    wheel.move(_OWN, "forged.libs/libother.so.1")


@_bundled("elf libraries", "the library that is needed is a program")
def _bundled_library_is_a_program(wheel: Wheel, own: Library) -> None:
    own.dynamic = [(DT_FLAGS_1, DF_1_PIE)]


legals(
    "RUNPATH {!r} lies in what the wheel installs",
    [
        *("$ORIGIN/../forged.libs", "${ORIGIN}/../forged.libs", "$ORIGIN:$ORIGIN/../forged.libs/"),
        *("$ORIGIN//../forged.libs", "$ORIGIN/./../forged.libs/.", "$ORIGIN/../nothing:$ORIGIN/../forged.libs"),
    ],
    _runpath,
    base="bundled",
)
legals("torch's libraries lie in {!r}", ["$ORIGIN/../torch/lib", "$ORIGIN/../torch/lib:$ORIGIN"], _runpath, base="cpu")


@legal("DT_RPATH does what RUNPATH does", base="bundled")
def rpath_to_bundled(wheel: Wheel) -> None:
    wheel.library.runpath, wheel.library.rpath = None, "$ORIGIN/../forged.libs"


@legal("bundled libraries may need each other", base="bundled")
def bundled_in_a_circle(wheel: Wheel) -> None:
    first = wheel.files[_OWN]
    assert isinstance(first, Library)
    first.needed.insert(0, "libmore.so")
    first.runpath = "$ORIGIN"
    first.import_("more")
    more = Library(arch=wheel.arch, needed=["libhelp-0123abcd.so.1"], soname="libmore.so", runpath="$ORIGIN")
    more.exports = [Symbol(name="more")]
    wheel.files["forged.libs/libmore.so"] = more


# --- oddities of the format -----------------------------------------------------------------------------------------


def _oddity(says: str, name: str, **fields: object) -> None:
    def change(wheel: Wheel) -> None:
        vars(wheel.library).update(fields)

    legal(says, family="elf", name=name)(change)


_oddity("the loader reads no section headers", "no sections", sections=False)
_oddity("the old hash table beside the new one", "both hashes", sysv_hash=True)
_oddity("the old hash table alone", "only the old hash", sysv_hash=True, gnu_hash=False)
_oddity("the same without section headers", "the old hash, no sections", sysv_hash=True, gnu_hash=False, sections=False)
for _name, _tag, _value in (
    ("DF_BIND_NOW", DT_FLAGS, 8),
    ("DF_STATIC_TLS", DT_FLAGS, 16),
    ("DF_1_NODELETE", DT_FLAGS_1, 8),
    ("DT_DEBUG", 21, 0),
    ("two DT_NULL", 0, 0),
):
    _oddity(f"{_name} is harmless", _name, dynamic=[(_tag, _value)])
_oddity(
    "linkers write OSABI 3 for unique symbols and ifuncs",
    "GNU ABI",
    ident=_ident(7, 3),
    exports=[Symbol(name="PyInit__ops"), Symbol(name="only_once", bind=10, kind=1)],
)
_oddity(
    "exports with versions of their own",
    "own versions",
    soname="_ops.abi3.so",
    exports=[Symbol(name="PyInit__ops"), Symbol(name="run", version=("", "FORGED_1"))],
)
_oddity("a second PT_GNU_STACK", "two stacks", segments=[Segment(kind=PT_GNU_STACK, flags=6)])
_oddity("an empty PT_TLS", "empty TLS", segments=[Segment(kind=PT_TLS)])
_oddity("a .comment that no segment loads", "comment", loose=(".comment", b"GCC: (GNU) 14\0"))
