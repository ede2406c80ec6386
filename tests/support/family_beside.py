"""What lies beside the code: what is packed, cached, said or required."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from functools import partial

from forge import Wheel, legal, lie
from forge_elf import ET_EXEC, Library
from forge_gpu import CUBIN, cubin, entry, fatbin, ptx

Change = Callable[[Wheel], object]
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


# --- GPU code in data ---------------------------------------------------------------------------------------

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
for _name, _path, _data in (
    ("text in gzip", "forged/x.gz", gzip.compress(b"text" * 999)),
    ("broken gzip", "forged/x.gz", gzip.compress(b"text" * 999)[:-20]),
    ("empty zip", "forged/x.zip", b"PK\5\6" + bytes(18)),
    ("a launcher for Windows", "forged/t64.exe", b"MZ" + bytes(400)),
    ("WebAssembly", "forged/x.wasm", b"\0asm\1\0\0\0" + bytes(99)),
    ("text about ELF", "forged/about.txt", b"It begins with \x7fELF, and a zip with PK\3\4"),
):
    _legal(_name, "no ELF file for a CPU", _file(_path, _data), base="pure")
for _name, _path in (("source", "forged/k.cu"), ("documentation", "forged/k.md"), ("a template", "forged/k.ptx.jinja")):
    _legal(
        f"PTX in {_name}", "what is written about PTX is none", _file(_path, b"// k\n" + b"x " + ptx("90")), base="cpu"
    )


# --- Bytecode -----------------------------------------------------------------------------------------------


def _pyc(number: int) -> bytes:
    return struct.pack("<H2s", number, b"\r\n") + bytes(12) + b"N"


_CP311, _CP312 = 3495, 3531
for _name, _data in (("3.12", _pyc(_CP312)), ("no Python", _pyc(1)), ("Python 2", _pyc(62211)), ("nothing", b"")):
    _lie(
        "bytecode",
        f"module of {_name} in cp311",
        "no Python of the tag runs it",
        _file("forged/only.pyc", _data),
        lambda w: w.tag("cp311", "none", "any"),
        base="pure",
    )
_lie(
    "bytecode",
    "package that is bytecode alone",
    "it is for one Python alone",
    lambda w: w.files.pop("forged/__init__.py"),
    _file("forged/__init__.pyc", _pyc(_CP311)),
    base="pure",
)
for _name, _path in (
    ("in a cache", "forged/__pycache__/kernel.cpython-311.pyc"),
    ("beside its source", "forged/kernel.pyc"),
):
    _legal(f"bytecode {_name}", "Python takes the source", _file(_path, _pyc(_CP311)), base="pure")
for _name, _change in (
    ("the tag", lambda w: w.tag("cp311", "none", "any")),
    ("Requires-Python", lambda w: w.set("Requires-Python", "==3.11.*")),
):
    _legal(
        f"bytecode by {_name}",
        "no other Python is let in",
        _file("forged/only.pyc", _pyc(_CP311)),
        _change,
        base="pure",
    )


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
    ("bin/forged = forged:main", "console_scripts"),
    ("forged = forged:main\nforged = forged.kernel:main", "console_scripts"),
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


# --- Where the loader looks, and which libc -----------------------------------------------------------------


def _chain(wheel: Wheel, *, rpath: str | None = "$ORIGIN/../forged.libs", runpath: str | None = None) -> None:
    """Let the bundled library need another, which only the folders of the module lead to."""
    wheel.library.rpath, wheel.library.runpath = rpath, runpath
    own = wheel.files["forged.libs/libhelp-0123abcd.so.1"]
    own.needed.insert(0, "libmore.so")
    more = Library(arch=wheel.arch, soname="libmore.so", needed=["liblast.so", "libc.so.6"])
    wheel.files["forged.libs/libmore.so"] = more
    wheel.files["forged.libs/liblast.so"] = Library(arch=wheel.arch, soname="liblast.so", needed=["libc.so.6"])


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
_lie("libraries", "RUNPATH below RPATH", "a file with DT_RUNPATH inherits nothing", _runpath_below, base="bundled")


def _program(wheel: Wheel, **how: object) -> None:
    wheel.files = {
        "forged/__init__.py": b"",
        "forged/tool": Library(arch=wheel.arch, type=ET_EXEC, gnu_hash=False, **how),
    }
    wheel.tag("py3", "none", f"musllinux_1_2_{wheel.arch}")


_legal("static program for musl", "it needs no libc", _program)
_lie("platform libraries", "glibc's program for musl", "it needs glibc", partial(_program, needed=["libc.so.6"]))
