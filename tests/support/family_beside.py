"""What lies beside the code: what is packed, cached, said or required."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import io
import lzma
import marshal
import struct
import sys
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from importlib import import_module

from forge import Wheel, legal, lie
from forge_elf import ET_EXEC, ET_REL, Library, Symbol
from forge_gpu import CUBIN, code, cubin, entry, fatbin, ptx

Change = Callable[[Wheel], object]
_ELSEWHERE = 0x100  # where a file for Windows has its header
_LTO = 8


def _lie(judges: str, name: str, says: str, *changes: Change, **how: object) -> None:
    lie(judges, says, family="beside", name=name, **how)(_all(changes))


def _legal(name: str, says: str, *changes: Change, **how: object) -> None:
    legal(says, family="beside", name=name, **how)(_all(changes))


def _all(changes: tuple[Change, ...]) -> Change:
    def change(wheel: Wheel) -> None:
        for one in changes:
            one(wheel)

    return change


def _file(path: str, data: bytes) -> Change:
    return lambda wheel: wheel.files.__setitem__(path, data)


def _raw(path: str, data: bytes) -> Change:
    return lambda wheel: wheel.raw.__setitem__(path, data)


def _metadata(*lines: str, version: str = "2.4") -> Change:
    def change(wheel: Wheel) -> None:
        wheel.set("Metadata-Version", version)
        wheel.metadata += lines

    return change


def _requires(*lines: str) -> Change:
    return lambda wheel: wheel.requires("torch==2.11.*", *lines)


# --- What is packed -----------------------------------------------------------------------------------------


def _zip(data: bytes, method: int = zipfile.ZIP_DEFLATED, name: str = "inner.dat") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("first.txt", "first")
        archive.writestr(name, data)
        archive.writestr("last.txt", "last")
    return out.getvalue()


def _streamed(data: bytes) -> bytes:
    """Return a zip archive that was written without going back: sizes stand behind the data."""

    class Stream(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

    out = Stream()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.dat", data)
    return out.getvalue()


def _tar(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("inner.dat")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _zstd(data: bytes) -> bytes:
    module = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    return bytes(module.compress(data))


_PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": _zstd,
    "zip": _zip,
    "zip of bzip2": partial(_zip, method=zipfile.ZIP_BZIP2),
    "zip of lzma": partial(_zip, method=zipfile.ZIP_LZMA),
    "zip behind a script": lambda data: b"#!/usr/bin/env python3\n" + _zip(data),
    "zip without a directory": lambda data: _zip(data).partition(b"PK\1\2")[0],
    "streamed zip": _streamed,
    "zip in zip": lambda data: _zip(_zip(data)),
    "zip in gzip": lambda data: gzip.compress(_zip(data)),
    "gzip in a stored zip": lambda data: _zip(gzip.compress(data), zipfile.ZIP_STORED),
    "gzip in gzip": lambda data: gzip.compress(gzip.compress(data)),
    "second gzip": lambda data: gzip.compress(b"first") + gzip.compress(data),
    "tar.gz": lambda data: gzip.compress(_tar(data)),
}


def _windows(*, machine: int = 0x8664, flags: int = 0x2022, net: bool = False) -> bytes:
    head = b"MZ" + bytes(58) + struct.pack("<I", _ELSEWHERE)
    pe = struct.pack("<4sHHIIIHH", b"PE\0\0", machine, 1, 0, 0, 0, 240, flags)
    optional = bytearray(struct.pack("<H", 0x20B) + bytes(238))
    if net:
        struct.pack_into("<II", optional, 112 + 14 * 8, 0x2008, 72)
    return head.ljust(_ELSEWHERE, b"\0") + pe + bytes(optional) + bytes(200)


_SHARED = Library().build()
_MACHINE_CODE = {
    "a library": _SHARED,
    "an object file": Library(type=ET_REL).build(),
    "macOS": bytes.fromhex("cffaedfe0c00000100000000060000000a000000") + bytes(300),
    "macOS, 32 bits": bytes.fromhex("cefaedfe07000000030000000600000001000000") + bytes(300),
    "macOS, two CPUs": bytes.fromhex("cafebabe00000002010000070000000300004000") + bytes(300),
    "Windows": _windows(),
    "Windows on ARM": _windows(machine=0xAA64),
    "big-endian": b"\x7fELF\x02\x02\x01" + bytes(9) + struct.pack(">HHI", 3, 21, 1) + bytes(200),
    "32 bits": b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHI", 3, 40, 1) + bytes(200),
}
for _name, _pack in _PACKINGS.items():
    _lie(
        "purity",
        f"library, {_name}",
        "machine code in a wheel for any platform",
        _file("forged/x.dat", _pack(_SHARED)),
        base="pure",
    )
    _lie(
        "compute",
        f"fatbin, {_name}",
        "GPU code in a wheel for cpu",
        _file("forged/x.dat", _pack(code("90"))),
        base="cpu",
    )
for _name, _data in _MACHINE_CODE.items():
    _lie(
        "purity",
        f"{_name} behind a byte",
        "machine code for any platform",
        _file("forged/x.dat", b"\n" + _data),
        base="pure",
    )
    _lie(
        "purity",
        f"{_name} in gzip",
        "machine code for any platform",
        _file("forged/x.gz", gzip.compress(_data)),
        base="pure",
    )
_lie("purity", "a library in a tar", "machine code for any platform", _file("forged/x.tar", _tar(_SHARED)), base="pure")
_lie("purity", "x.pyd for any platform", "a module for Windows", _file("forged/x.pyd", _windows(flags=2)), base="pure")
for _name, _data in {
    "cubin": cubin("90"),
    "ptx": ptx("90").rstrip(b"\0"),
    "ptx in JSON": b'{"code": "' + ptx("90").rstrip(b"\0").replace(b"\n", b"\\r\\n") + b'"}',
}.items():
    _lie(
        "compute gpu",
        f"{_name} in data",
        "GPU code in a wheel for cpu",
        _file("forged/data", b"\1" + _data),
        base="cpu",
    )
    _lie("compute gpu", f"{_name} in zip", "GPU code in a wheel for cpu", _file("forged/x.z", _zip(_data)), base="cpu")
_lie(
    "toolkit",
    "packed cubin of CUDA 12.4",
    "CUDA 12.4 made code that is packed",
    _file("forged/x.zip", _zip(cubin("90", toolkit="12.4"))),
    base="cuda",
)
_lie(
    "gpu",
    "packed cubin with another label",
    "9.0, labelled 8.0, packed",
    _file("forged/x.zip", _zip(fatbin(entry(CUBIN, "80", cubin("90"))))),
    base="cuda",
)


def _times(data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = gzip.compress(data)
    return data


for _name, _data in {
    "five times over": _times(_SHARED, 5),
    "bursting": _times(bytes(200 << 20), 2),
    "more streams than anybody needs": _times(_times(b"", 1) * 30_000, 1),
}.items():
    _lie("purity", f"packed {_name}, any", "nobody can look through it", _file("forged/x.gz", _data), base="pure")
    _lie("compute", f"packed {_name}, cpu", "nobody can look through it", _file("forged/x.gz", _data), base="cpu")
for _name, _path, _data in (
    ("text in gzip", "forged/x.gz", gzip.compress(b"text" * 999)),
    ("broken gzip", "forged/x.gz", gzip.compress(b"text" * 999)[:-20]),
    ("what begins as gzip", "forged/x.bin", b"\x1f\x8b\x08" + bytes(range(256))),
    ("Python in zip", "forged/x.zip", _zip(b"import os\n", name="x.py")),
    ("empty zip", "forged/x.zip", b"PK\5\6" + bytes(18)),
    ("a wheel in a wheel", "forged/x.whl", _zip(_zip(b"import os\n", name="x.py"))),
    ("a launcher for Windows", "forged/t64.exe", _windows(flags=0x22)),
    (".NET", "forged/x.dll", _windows(net=True)),
    ("a class of Java", "forged/X.class", bytes.fromhex("cafebabe00000034001d0a00060f09001011") + bytes(99)),
    ("WebAssembly", "forged/x.wasm", b"\0asm\1\0\0\0" + bytes(99)),
    ("text about ELF", "forged/about.txt", b"It begins with \x7fELF, and a zip with PK\3\4"),
):
    _legal(_name, "nothing that a CPU runs, as far as anybody can say", _file(_path, _data), base="pure")
for _name, _path in (("source", "forged/k.cu"), ("documentation", "forged/k.md"), ("a template", "forged/k.ptx.jinja")):
    _legal(
        f"PTX in {_name}", "what is written about PTX is none", _file(_path, b"// k\n" + b"x " + ptx("90")), base="cpu"
    )
_legal(
    "PTX in packed source",
    "what is written about PTX is none",
    _file("forged/x.zip", _zip(b"x " + ptx("90"), name="k.cu")),
    base="cpu",
)


# --- Bytecode -----------------------------------------------------------------------------------------------


def _pyc(flags: int, number: int | None = None) -> bytes:
    magic = importlib.util.MAGIC_NUMBER if number is None else struct.pack("<H2s", number, b"\r\n")
    return magic + struct.pack("<I", flags) + bytes(8) + marshal.dumps(compile("x = 1\n", "kernel.py", "exec"))


_CACHE = "__pycache__/kernel.cpython-311"
for _name, _path, _flags in (
    ("checked", f"forged/{_CACHE}.pyc", 3),
    ("optimized", f"forged/{_CACHE}.opt-1.pyc", 1),
    ("in purelib", f"forged-1.0.data/purelib/forged/{_CACHE}.pyc", 1),
    ("below", f"forged/sub/{_CACHE}.pyc", 1),
):
    _lie("bytecode", f"cache that is {_name}", "it runs instead of its source", _file(_path, _pyc(_flags)), base="pure")
for _name, _number in (("3.12", 3531), ("3.13", 3571), ("no Python", 1), ("Python 2", 62211)):
    _lie(
        "bytecode",
        f"module of {_name} in cp311",
        "no Python of the tag runs it",
        _file("forged/only.pyc", _pyc(0, _number)),
        lambda w: w.tag("cp311", "none", "any"),
        base="pure",
    )
_lie(
    "bytecode",
    "package that is bytecode alone",
    "it is for one Python alone",
    lambda w: w.files.pop("forged/__init__.py"),
    _file("forged/__init__.pyc", _pyc(0, 3495)),
    base="pure",
)
_lie("bytecode", "empty module", "no Python runs it", _file("forged/only.pyc", b""), base="pure")
_legal("cache by time", "an installer writes the source later", _file(f"forged/{_CACHE}.pyc", _pyc(0)), base="pure")
_legal("bytecode beside its source", "Python takes the source", _file("forged/kernel.pyc", _pyc(1)), base="pure")
_legal(
    "bytecode for cp311",
    "the tag says so",
    _file("forged/only.pyc", _pyc(0, 3495)),
    lambda w: w.tag("cp311", "none", "any"),
    lambda w: w.set("Requires-Python", "==3.11.*"),
    base="pure",
)
_legal(
    "bytecode by Requires-Python",
    "no other Python is let in",
    _file("forged/only.pyc", _pyc(0, 3495)),
    lambda w: w.set("Requires-Python", "==3.11.*"),
    base="pure",
)


# --- Names of others ----------------------------------------------------------------------------------------

for _path in (
    "__pycache__/torch.cpython-311.pyc",
    "__pycache__/json.cpython-311.pyc",
    "__pycache__/sitecustomize.cpython-311.pyc",
    "forged-1.0.data/platlib/__pycache__/numpy.cpython-312.pyc",
):
    _lie("foreign", f"cache {_path}", "the cache of another's module", _file(_path, _pyc(0)), base="pure")
for _path in ("TORCH/__init__.py", "NumPy/core.py", "forged-1.0.data/purelib/Torch/__init__.py", "NVIDIA/cublas.py"):
    _lie("foreign", f"any platform, {_path}", "the same folder where case is ignored", _file(_path, b""), base="pure")
for _text in (b"forged\ntorch\n", b"numpy", b"torch\r\nforged\r\n"):
    _lie(
        "foreign",
        f"top_level.txt {_text!r}",
        "it says that it installs another project",
        _raw("{info}/top_level.txt", _text),
    )
_legal("Torch on Linux", "another name there", _file("Torch/__init__.py", b""))
_legal("top_level.txt", "it says what is there", _raw("{info}/top_level.txt", b"forged\n_forged\n"))


# --- Programs -----------------------------------------------------------------------------------------------


def _programs(text: str, group: str = "console_scripts") -> Change:
    return _raw("{info}/entry_points.txt", f"[{group}]\n{text}\n".encode())


for _text, _group in (
    ("forged = forged.sub.nothing:main", "console_scripts"),
    ("forged = forged.nothing:main", "gui_scripts"),
    ("forged = nothing:main", "console_scripts"),
    ("forged = forged", "console_scripts"),
    ("forged = :main", "console_scripts"),
    ("forged = forged.kernel main", "console_scripts"),
):
    _lie("programs", f"{_group} {_text}", "a program that cannot start", _programs(_text, _group), base="pure")
_legal("program of the standard library", "json.tool is there", _programs("forged = json.tool:main"), base="pure")
_legal(
    "program of a requirement",
    "six brings it",
    _programs("forged = six.moves:main"),
    lambda w: w.requires("six"),
    base="pure",
)
_legal("program in compiled code", "a module may make modules", _programs("forged = forged._ops.cli:main"))
_legal("program with an extra", "extras stand behind", _programs("forged = forged.kernel:C.main [all]"), base="pure")
_legal(
    "a plugin of nothing", "a group of somebody's own", _programs("x = forged.nothing", "forged.plugins"), base="pure"
)
_legal(
    "program in a namespace",
    "another project may bring it",
    _programs("forged = space.other:main"),
    _file("space/one.py", b""),
    lambda w: w.requires("six"),
    base="pure",
)


# --- What METADATA names ------------------------------------------------------------------------------------

_lie(
    "metadata",
    "a second licence that is not there",
    "one of two",
    _metadata("License-File: LICENSE", "License-File: NOTICE"),
    _raw("{info}/licenses/LICENSE", b""),
)
_lie(
    "metadata",
    "a licence in a folder",
    "another folder has one",
    _metadata("License-File: vendor/LICENSE"),
    _raw("{info}/licenses/other/LICENSE", b""),
)
_lie(
    "metadata",
    "an extra, the other way round",
    "the extra is not there",
    _metadata('Requires-Dist: six; "nothing" == extra'),
)
_lie(
    "metadata",
    "one extra of two",
    "one is not there",
    _metadata("Provides-Extra: a", 'Requires-Dist: six; extra == "a" or extra == "b"'),
)
_legal(
    "licence as setuptools had it",
    "beside METADATA",
    _metadata("License-File: LICENSE", version="2.1"),
    _raw("{info}/LICENSE", b""),
)
_legal(
    "licence in a folder",
    "as Metadata 2.4 has it",
    _metadata("License-File: a/LICENSE"),
    _raw("{info}/licenses/a/LICENSE", b""),
)
_legal(
    "an extra in another spelling",
    "names are compared normalized",
    _metadata("Provides-Extra: Foo_Bar", 'Requires-Dist: six; extra == "foo-bar"', version="2.1"),
)


# --- CUDA's packages ----------------------------------------------------------------------------------------

for _line in (
    "nvidia-cublas-cu12",
    "nvidia_cudnn_cu11>=8",
    "cupy-cuda12x",
    "cuda-bindings==12.*",
    "nvidia-cuda-runtime<13",
    "cuda-toolkit[cudart]==12.8.*",
    "nvidia-nccl-cu12; sys_platform == 'linux'",
):
    _lie("packages", f"cu130 requires {_line}", "packages of another CUDA", _requires(_line), base="cuda")
for _line in ("nvidia-cudnn-cu13", "cuda-toolkit", "nvidia-cuda-runtime>=13"):
    _lie("packages", f"cpu requires {_line}", "CUDA's packages in a wheel for cpu", _requires(_line), base="cpu")
for _line in (
    "cupy-cuda13x",
    "nvidia-cudnn-cu13",
    "nvidia-cuda-runtime>=12,<14",
    "cuda-bindings~=13.0",
    "nvidia-ml-py==12.*",
    "nvidia-cublas-cu12; sys_platform == 'win32'",
):
    _legal(f"cu130 requires {_line}", "it may be of CUDA 13, or is asked for elsewhere", _requires(_line), base="cuda")
_legal(
    "CUDA 12's for an extra",
    "nobody has to ask for it",
    _metadata("Provides-Extra: old", "Requires-Dist: nvidia-cublas-cu12; extra == 'old'", version="2.1"),
    base="cuda",
)
_legal(
    "cu130 by a word",
    "Python code is about CUDA",
    lambda w: w.rename("1.0+cu130.torch2.11"),
    _file("forged/k.py", b"device = 'cuda'\n"),
    base="cpu",
)


# --- Code that nothing runs ---------------------------------------------------------------------------------


def _code(*entries: bytes) -> Change:
    return lambda wheel: setattr(wheel.library, "fatbin", fatbin(*entries))


_lie(
    "gpu",
    "two of LTO alone",
    "no GPU runs what has yet to be linked",
    _code(entry(_LTO, "80", bytes(64)), entry(_LTO, "90", bytes(64))),
    base="cuda",
)
_lie(
    "gpu",
    "relocatable alone",
    "no GPU runs what has yet to be linked",
    _code(entry(CUBIN, "90", cubin("90", relocatable=True))),
    base="cuda",
)
_legal(
    "LTO beside machine code",
    "nvcc's -gencode for both",
    _code(entry(_LTO, "90", bytes(range(64))), entry(CUBIN, "90", cubin("90"))),
    base="cuda",
)
_legal(
    "LTO as data",
    "a linker reads it while the program runs",
    _file("forged/x.fatbin", fatbin(entry(_LTO, "90", bytes(64)))),
    base="cuda",
)


# --- Attributes in the archive ------------------------------------------------------------------------------


def _attributes(external: int, system: int) -> Change:
    def change(wheel: Wheel) -> None:
        central = {"external": external, "made": 20}
        wheel.pack = lambda a: a.member("forged/__init__.py").__dict__.update(system=system, central=central)

    return change


for _system in (0, 3, 11):
    _lie("archive", f"label of a disk, system {_system}", "some unzippers pass over it", _attributes(0x08, _system))
    _lie("archive", f"folder's attribute, system {_system}", "some unzippers make a folder", _attributes(0x10, _system))
_legal("attributes of DOS", "read-only, to be archived", _attributes(0x21, 0))


# --- Where the loader looks, and which libc -----------------------------------------------------------------


def _chain(wheel: Wheel, *, rpath: str | None = "$ORIGIN/../forged.libs", runpath: str | None = None) -> None:
    """Let the bundled library need another, which only the folders of the module lead to."""
    wheel.library.rpath, wheel.library.runpath = rpath, runpath
    own = wheel.files["forged.libs/libhelp-0123abcd.so.1"]
    own.needed.insert(0, "libmore.so")
    more = Library(arch=wheel.arch, soname="libmore.so", needed=["liblast.so", "libc.so.6"])
    wheel.files["forged.libs/libmore.so"] = more
    wheel.files["forged.libs/liblast.so"] = Library(arch=wheel.arch, soname="liblast.so", needed=["libc.so.6"])


def _second_module(wheel: Wheel) -> None:
    _chain(wheel)
    other = Library(arch=wheel.arch, needed=["libhelp-0123abcd.so.1", "libc.so.6"], runpath="$ORIGIN/../forged.libs")
    other.exports = [Symbol(name="PyInit__more")]
    wheel.files["forged/_more.abi3.so"] = other


def _runpath_below(wheel: Wheel) -> None:
    _chain(wheel)
    wheel.files["forged.libs/libhelp-0123abcd.so.1"].runpath = "$ORIGIN/elsewhere"


_legal("RPATH for three below", "DT_RPATH is handed down", _chain, base="bundled")
_lie(
    "libraries",
    "RUNPATH for those below",
    "DT_RUNPATH is not handed down",
    partial(_chain, rpath=None, runpath="$ORIGIN/../forged.libs"),
    base="bundled",
)
_lie(
    "libraries",
    "RPATH beside RUNPATH",
    "DT_RUNPATH puts DT_RPATH out of force",
    partial(_chain, runpath="$ORIGIN/../forged.libs"),
    base="bundled",
)
_lie(
    "libraries",
    "RPATH of one of two modules",
    "whoever imports the other one first finds nothing",
    _second_module,
    base="bundled",
)
_lie("libraries", "RUNPATH below RPATH", "a file with DT_RUNPATH inherits nothing", _runpath_below, base="bundled")


def _program(wheel: Wheel, **how: object) -> None:
    wheel.files = {
        "forged/__init__.py": b"",
        "forged/tool": Library(arch=wheel.arch, type=ET_EXEC, gnu_hash=False, **how),
    }
    wheel.tag("py3", "none", f"musllinux_1_2_{wheel.arch}")


_legal("static program for musl", "it needs no libc", _program)
_lie("platform libraries", "glibc's program for musl", "it needs glibc", partial(_program, needed=["libc.so.6"]))
