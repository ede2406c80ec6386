"""What loaders and installers do that nobody thinks of: each lie was shown by glibc 2.36, pip 23.2 or uv 0.13."""

from __future__ import annotations

import struct
from collections.abc import Callable

from forge import Wheel, legal, lie
from forge_elf import (
    DT_FLAGS_1,
    ET_EXEC,
    PF_R,
    PF_W,
    PF_X,
    PT_DYNAMIC,
    PT_NOTE,
    Image,
    Library,
    Symbol,
)

Change = Callable[[Wheel], object]
_AWAY = 0x10000  # bytes between a writable byte's place in the file and its address
_PT_PHDR, _PT_SHLIB, _PT_TLS, _PT_OTHERS = 6, 5, 7, 0x65A3DBE6
_STATIC = {"x86_64": 18, "aarch64": 1030}  # R_X86_64_TPOFF64, R_AARCH64_TLS_TPREL
_RELATIVE = {"x86_64": 8, "aarch64": 1027}
_INIT, _FINI, _PREINIT = (25, 27), (26, 28), (32, 33)
_HELP = "forged.libs/libhelp-0123abcd.so.1"


def _lie(judges: str, name: str, says: str, *changes: Change, **how: object) -> None:
    lie(judges, says, family="third", name=name, **how)(_all(changes))


def _legal(name: str, says: str, *changes: Change, **how: object) -> None:
    legal(says, family="third", name=name, **how)(_all(changes))


def _all(changes: tuple[Change, ...]) -> Change:
    def change(wheel: Wheel) -> None:
        for one in changes:
            one(wheel)

    return change


def _library(**fields: object) -> Change:
    def change(wheel: Wheel) -> None:
        for name, value in fields.items():
            setattr(wheel.library, name, value)

    return change


def _file(path: str, data: bytes = b"x\n") -> Change:
    return lambda wheel: wheel.files.__setitem__(path.replace("DATA", "forged-1.0.data"), data)


def _raw(path: str, data: bytes) -> Change:
    return lambda wheel: wheel.raw.__setitem__(path, data)


def _requires(*lines: str) -> Change:
    return lambda wheel: wheel.requires("torch==2.11.*", *lines)


# --- The loader ---------------------------------------------------------------------------------------------


def _version_record(section: str, version: int) -> Change:
    return _library(change=lambda image: struct.pack_into("<H", image.data, image.at[section], version))


for _number in (0, 2):
    _lie("elf", f"needed versions, {_number}", "glibc: unsupported version", _version_record(".gnu.version_r", _number))
_lie(
    "elf",
    "own versions, 2",
    "glibc takes no such record",
    lambda w: setattr(w.library.exports[0], "version", ("", "V_1")),
    _version_record(".gnu.version_d", 2),
)


def _segments(image: Image) -> list[int]:
    count = struct.unpack_from("<H", image.data, 56)[0]
    return [64 + 56 * number for number in range(count)]


def _first(image: Image, kind: int) -> int:
    return next(at for at in _segments(image) if struct.unpack_from("<I", image.data, at)[0] == kind)


def _read_only(wheel: Wheel) -> None:
    wheel.library.load_flags = (PF_R | PF_X, PF_R)
    wheel.library.imports = []


def _say_read_only(wheel: Wheel) -> None:
    wheel.library.change = lambda image: struct.pack_into("<I", image.data, _first(image, PT_DYNAMIC) + 4, PF_R)


def _needs_glibc_2_35(wheel: Wheel) -> None:
    wheel.library.import_("_dl_find_object", version=("libc.so.6", "GLIBC_2.35"), bind=2, looked_up=False)
    wheel.tag(platform=f"manylinux_2_35_{wheel.arch}")


_lie("elf", "tables that cannot be read", "glibc dies", _library(load_flags=(PF_X, PF_R | PF_W)))
_lie("elf", "dynamic table that cannot be written", "glibc dies", _read_only)
_lie("elf", "dynamic table that says so", "glibc 2.28 dies", _read_only, _say_read_only)
_legal("dynamic table for glibc 2.35", "it is left as it is", _read_only, _say_read_only, _needs_glibc_2_35)


def _array(tags: tuple[int, int], value: int, *, relocated: bool = False) -> Change:
    """Have the loader call what stands in ``.data``."""

    def change(wheel: Wheel) -> None:
        wheel.library.writable = struct.pack("<Q", value)
        wheel.library.dynamic += [(tags[0], 0), (tags[1], 8)]

        def point(image: Image) -> None:
            place = image.at[".data"] + _AWAY
            at = image.at[".dynamic"]
            while struct.unpack_from("<Q", image.data, at)[0] != tags[0]:
                at += 16
            struct.pack_into("<Q", image.data, at + 8, place)
            if relocated:
                code = image.at[".text"]
                struct.pack_into("<QQQ", image.data, image.at[".rela.dyn"], place, _RELATIVE[wheel.arch], code)

        wheel.library.change = point

    return change


for _name, _tags in {"first": _INIT, "last": _FINI, "before all": _PREINIT}.items():
    _lie("elf", f"called {_name}, a number", "glibc calls it and dies", _array(_tags, 0x1234))
    _lie("elf", f"called {_name}, nothing", "glibc calls it and dies", _array(_tags, 0))
    _legal(f"called {_name}, code", "it is made an address", _array(_tags, 0, relocated=True))
_lie(
    "libraries",
    "no default folders",
    "glibc: libstdc++.so.6 cannot be opened (DF_1_NODEFLIB)",
    lambda w: w.library.needed.insert(0, "libstdc++.so.6"),
    _library(dynamic=[(DT_FLAGS_1, 0x800)]),
)
_legal("no default folders, libc alone", "every process has it", _library(dynamic=[(DT_FLAGS_1, 0x800)]))
_legal(
    "no default folders, its own", "$ORIGIN is none of them", _library(dynamic=[(DT_FLAGS_1, 0x800)]), base="bundled"
)


def _thread_local(size: int) -> Change:
    def change(wheel: Wheel) -> None:
        wheel.library.segments.append((_PT_TLS, PF_R, 0, 0, 0, 0, size, 8))
        kind = _STATIC[wheel.arch]
        wheel.library.change = lambda image: struct.pack_into("<Q", image.data, image.at[".rela.dyn"] + 8, kind)

    return change


_lie("elf", "static TLS that is not said", "glibc: cannot allocate memory", _thread_local(1 << 20))
_legal("small static TLS that is not said", "it has room", _thread_local(64))


def _segment(*row: int) -> Change:
    return lambda wheel: wheel.library.segments.append(row)


def _headers_at(place: int | None) -> Change:
    def change(wheel: Wheel) -> None:
        wheel.library.segments.append((_PT_PHDR, PF_R, 0, 0, 0, 0, 0, 8))

        def put(image: Image) -> None:
            size, address = 56 * len(_segments(image)), 64 if place is None else place
            struct.pack_into("<QQQQQ", image.data, _first(image, _PT_PHDR) + 8, 64, address, address, size, size)

        wheel.library.change = put

    return change


_lie("elf", "PT_PHDR nowhere", "glibc dies", _headers_at(0x7000000))
_lie("elf", "PT_PHDR elsewhere", "glibc goes by other headers", _headers_at(0x80))
_legal("PT_PHDR", "as patchelf leaves it", _headers_at(None))
_legal("segment of PaX", "no loader minds it", _segment(_PT_OTHERS, PF_R, 0, 0, 0, 0, 0, 8))
_legal("PT_NULL", "no loader minds it", _segment(0, 0, 0, 0, 0, 0, 0, 0))
_legal("PT_SHLIB", "no loader minds it", _segment(_PT_SHLIB, 0, 0, 0, 0, 0, 0, 0))


def _system_note(*words: int) -> Change:
    def change(wheel: Wheel) -> None:
        note = struct.pack("<III4sIIII", 4, 16, 1, b"GNU\0", *words)
        wheel.library.constants = note
        wheel.library.segments.append((PT_NOTE, PF_R, 0, 0, 0, len(note), len(note), 4))

        def put(image: Image) -> None:
            struct.pack_into("<QQQ", image.data, _first(image, PT_NOTE) + 8, *[image.at[".rodata"]] * 3)

        wheel.library.change = put

    return change


for _name, _number in (("Hurd", 1), ("Solaris", 2), ("FreeBSD", 3)):
    _lie("elf", f"note of {_name}", "glibc before 2.36 does not take it", _system_note(_number, 3, 2, 0))
_legal("note of Linux", "glibc's own libraries have it", _system_note(0, 3, 2, 0))
_legal("DT_DEBUG", "debuggers use it", _library(dynamic=[(21, 0)]))
_legal("all at once", "DT_BIND_NOW and DT_SYMBOLIC", _library(dynamic=[(24, 0), (16, 0), (DT_FLAGS_1, 9)]))
_legal("flags of the header", "no loader reads them", _library(flags=0x1234))
_legal("needed twice", "it is loaded once", _library(needed=["libc.so.6", "libc.so.6"]))
for _path in (
    "$ORIGIN/../forged.libs/",
    "$ORIGIN//../forged.libs",
    "$ORIGIN/./../forged.libs/.",
    "$ORIGIN/../nothing:$ORIGIN/../forged.libs",
):
    _legal(f"RUNPATH {_path}", "it leads there", _library(runpath=_path), base="bundled")


def _circle(wheel: Wheel) -> None:
    other = Library(arch=wheel.arch, soname="libtwo.so", needed=["libhelp-0123abcd.so.1"], runpath="$ORIGIN")
    other.exports = [Symbol(name="two")]
    wheel.files["forged.libs/libtwo.so"] = other
    own = wheel.files[_HELP]
    assert isinstance(own, Library)
    own.needed.insert(0, "libtwo.so")
    own.runpath = "$ORIGIN"


_legal("libraries that need each other", "the loader goes round once", _circle, base="bundled")


def _for_macos(wheel: Wheel) -> None:
    wheel.files = {"forged/__init__.py": b"", "forged/tool": Library(arch=wheel.arch, type=ET_EXEC, exports=[])}
    wheel.tag("py3", "none", f"macosx_11_0_{wheel.arch}")


_lie("architecture", "program of Linux for macOS", "no macOS runs it", _for_macos)

# --- Tags ---------------------------------------------------------------------------------------------------


def _tagged(python: str, abi: str, suffix: str = ".so") -> Change:
    def change(wheel: Wheel) -> None:
        wheel.move(wheel.module, "forged/_ops" + suffix.replace("ARCH", wheel.arch))
        wheel.tag(python, abi)

    return change


def _without_python(wheel: Wheel) -> None:
    wheel.library.imports = [symbol for symbol in wheel.library.imports if not symbol.name.startswith("Py")]


for _pair in (
    *("cp310 cp311", "cp311 cp310", "py3 cp310", "cp3 none", "cp abi3", "cp312 cp312m9", "cp310 cp310t"),
    *("cp311 abi3t", "cp310 abi4", "cp310 foo", "cp99999 abi3", "cp311 pypy311_pp73", "cp311.cp312 cp310"),
):
    _lie("tags", f"tag {_pair}", "pip: not a supported wheel", _tagged(*_pair.split()))
_lie(
    "platform", "tag manylinux_2_028", "pip knows manylinux_2_28", lambda w: w.tag(platform=f"manylinux_2_028_{w.arch}")
)
_lie(
    "suffix",
    "abi3.so for abi3t",
    "PEP 803: a free-threaded Python passes it over",
    _tagged("cp315", "abi3t", ".abi3.so"),
)
_legal("abi3t.so for abi3t", "PEP 803", _tagged("cp315", "abi3t", ".abi3t.so"))
_legal("abi3t.so for both", "PEP 803", _tagged("cp315", "abi3.abi3t", ".abi3t.so"))


@legal("the free-threaded Python takes the other one", name="abi3.so beside abi3t.so", family="third")
def _both(wheel: Wheel) -> None:
    wheel.files["forged/_ops.abi3t.so"] = wheel.library
    wheel.tag("cp315", "abi3.abi3t")


_legal("free-threaded", "PEP 703", _tagged("cp314", "cp314t", ".cpython-314t-ARCH-linux-gnu.so"))
for _pair in ("cp310 abi3.none", "cp311.cp312 none", "py3.cp310 none", "py2.py3 none"):
    _legal(f"tag {_pair}", "some Python takes it", _without_python, _tagged(*_pair.split()))
_legal(
    "torch for cp311-none",
    "pip lets no other Python in",
    _tagged("cp311", "none"),
    lambda w: w.requires("torch==2.11.*; python_version == '3.11'"),
    base="cpu",
)
_lie(
    "torch symbols",
    "torch for py311-none",
    "pip lets Python 3.12 in",
    _tagged("py311", "none"),
    lambda w: w.requires("torch==2.11.*; python_version == '3.11'"),
    base="cpu",
)

# --- What is installed --------------------------------------------------------------------------------------

for _path in (
    *("lib/cmake/forged/forged-config.cmake", "lib/pkgconfig/forged.pc", "lib/libforged.txt", "lib/forged/x.txt"),
    *("share/man/man1/forged.1", "etc/jupyter/jupyter_server_config.d/forged.json", "include/forged/x.h"),
    *("share/jupyter/labextensions/forged/x.js", "lib64/cmake/forged/x.cmake", "libexec/forged/x"),
):
    _legal(f"data {_path}", "its own folder of an environment", _file(f"DATA/data/{_path}"))


def _libraries_in(scheme: str) -> Change:
    def change(wheel: Wheel) -> None:
        wheel.files = {f"forged-1.0.data/{scheme}/libforged.so.1": Library(arch=wheel.arch, needed=["libc.so.6"])}
        wheel.tag("py3", "none")
        wheel.set_wheel("Root-Is-Purelib", "true")

    return change


_legal("libraries in data/lib, pure root", "as Intel's oneTBB has them", _libraries_in("data/lib"))
_lie("purity", "libraries in purelib", "they are compiled", _libraries_in("purelib/forged"))

# --- What is required ---------------------------------------------------------------------------------------

for _line in ("torch==1!2.11.0", "torch==1!2.11.*", "torch>=1!2.11"):
    _lie("torch symbols", f"epoch {_line}", "there is no such torch", lambda w, r=_line: w.requires(r), base="cpu")
for _line in ("forged==9", "forged!=1.0", "forged<1"):
    _lie("metadata", f"itself {_line}", "pip finds no version", _requires(_line))
for _line in ("forged", "forged==1.0", "forged>=1"):
    _legal(f"itself {_line}", "pip has it", _requires(_line))
for _line in (
    *("tensorrt-cu12-libs", "tensorrt_cu12_bindings", "jax-cuda12-plugin", "jax-cuda12-pjrt", "cuda-core[cu12]"),
    *("jax[cuda12]", "numba-cuda[cu12]", "nvidia-cuda-cccl<13", "nvidia-nvtx<13", "nvidia-cuda-crt==12.*"),
):
    _lie("packages", f"CUDA 13 and {_line}", "it is of CUDA 12", _requires(_line), base="cuda")
for _line in ("tensorrt-cu13-libs", "cuda-core[cu13]", "jax[cuda13]", "nvidia-nvtx==13.*", "nvidia-cufft==12.*"):
    _legal(f"CUDA 13 and {_line}", "it is of CUDA 13", _requires(_line), base="cuda")
for _line in ("nvidia-cufft", "nvidia-curand", "nvidia-cusolver", "nvidia-cusparse", "nvidia-cufile", "nvidia-nvtx"):
    _lie("packages", f"cpu and {_line}", "it is CUDA's", _requires(_line), base="cpu")
for _line in (
    *("torch (==2.11.*)", "torch==v2.11.0", "torch==0!2.11.*", "torch>=2.11,<2.12.dev0", "torch~=2.11.0"),
    *("torch==2.11.*; sys_platform in 'linux'", "torch==2.11.*; os.name == 'posix'"),
    *("torch==2.11.*; python_implementation == 'CPython'", "torch==2.11.*; platform_machine in 'x86_64 aarch64'"),
    *("torch==2.11.*; extra == '' or python_version >= '3'", "torch==2.11.*; 'linux' in sys_platform"),
):
    _legal(f"written {_line}", "this torch alone", lambda w, r=_line: w.requires(r), base="cpu")
