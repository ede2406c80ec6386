"""What hides behind something else: packed at another place, under another's name, in another case.

The loader of glibc 2.36 was asked about sonames; pip and CPython about programs; what is packed, Python's own modules.
"""

from __future__ import annotations

import gzip
import lzma
import struct
from collections.abc import Callable

from family_beside import _PACKINGS, _SHARED, _file, _programs, _zip, _zstd
from forge import Wheel, legal, lie
from forge_elf import Library, Symbol
from forge_gpu import code, cubin

Change = Callable[[Wheel], object]


def _lie(judges: str, name: str, says: str, *changes: Change, **how: object) -> None:
    lie(judges, says, family="hidden", name=name, **how)(_all(changes))


def _legal(name: str, says: str, *changes: Change, **how: object) -> None:
    legal(says, family="hidden", name=name, **how)(_all(changes))


def _all(changes: tuple[Change, ...]) -> Change:
    def change(wheel: Wheel) -> None:
        for one in changes:
            one(wheel)

    return change


# --- Packed at another place --------------------------------------------------------------------------------


def _skippable(data: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A50, 4) + b"skip" + _zstd(data)


_PLACES: dict[str, Callable[[bytes], bytes]] = {
    **{f"{name} behind a header": lambda data, pack=pack: b"header" + pack(data) for name, pack in _PACKINGS.items()},
    "xz behind padding": lambda data: lzma.compress(b"first") + bytes(8) + lzma.compress(data),
    "zstd behind what is skipped": _skippable,
    "zip behind a broken zip": lambda data: _zip(b"x" * 99)[:60] + bytes(40) + _zip(data),
    "gzip behind a broken gzip": lambda data: gzip.compress(b"x" * 99)[:12] + bytes(range(200)) + gzip.compress(data),
}
for _name, _pack in _PLACES.items():
    _lie("compute", f"fatbin, {_name}", "GPU code for cpu", _file("forged/x.dat", _pack(code("90"))), base="cpu")
    _lie("purity", f"library, {_name}", "machine code for any", _file("forged/x.dat", _pack(_SHARED)), base="pure")


def _behind(data: bytes) -> Change:
    return lambda wheel: setattr(wheel.library, "change", lambda image: image.data.extend(data))


_lie("compute", "zip behind a library", "GPU code for cpu", _behind(_zip(code("90"))), base="cpu")
_lie(
    "compute",
    "zip in a library's data",
    "GPU code",
    lambda w: setattr(w.library, "writable", _zip(code("90"))),
    base="cpu",
)
_lie(
    "toolkit",
    "zip behind a cubin",
    "CUDA 12.4 made code that is packed",
    _file("forged/x.cubin", cubin("90") + _zip(cubin("90", toolkit="12.4"))),
    base="cuda",
)
_legal("zip of text behind a library", "nothing that a GPU runs", _behind(_zip(b"text" * 99)), base="cpu")
for _name, _data in {
    "magics alone": b"x\x1f\x8b\x08\0\0\0\0\0\0\3BZh91AY&SY\xfd7zXZ\0\0\4\x28\xb5\x2f\xfd\0" + bytes(99),
    "text in xz behind a header": b"header" + lzma.compress(b"text" * 99),
    "a broken xz behind a header": b"header" + lzma.compress(b"text" * 99)[:40] + bytes(99),
    "a cut zstd behind a header": b"header" + _zstd(b"text" * 99)[:9],
}.items():
    _legal(_name, "nothing that a GPU or a CPU runs", _file("forged/x.dat", _data), base="pure")

# --- Tags that no installer has -----------------------------------------------------------------------------

for _platform in ("manylinux_02_28", "manylinux_2_028", "musllinux_1_02", "musllinux_01_2"):
    _lie(
        "tags",
        f"platform {_platform}",
        "tags are compared letter by letter",
        lambda w, name=_platform: w.tag(platform=f"{name}_{w.arch}"),
    )

# --- Under another's name -----------------------------------------------------------------------------------

_HELP = "libhelp-0123abcd.so.1"


def _pretender(wheel: Wheel, *exports: str, at: int) -> None:
    """Let the module need a library whose DT_SONAME is another one's file name."""
    found = [Symbol(name=name) for name in exports]
    own = Library(arch=wheel.arch, soname=_HELP, needed=["libc.so.6"], exports=found)
    wheel.files["forged.libs/libfirst.so"] = own
    wheel.library.needed.insert(at, "libfirst.so")


_lie(
    "symbols libraries",
    "soname of a library that is needed later",
    "the loader has a library of that name, and opens no other one: `undefined symbol: help_me`",
    lambda w: _pretender(w, "other", at=0),
    base="bundled",
)
_legal(
    "soname of a library with the same symbols",
    "either will do",
    lambda w: _pretender(w, "help_me", at=0),
    base="bundled",
)
_legal(
    "soname of a library that was needed before", "it is there", lambda w: _pretender(w, "other", at=1), base="bundled"
)

# --- Files and programs -------------------------------------------------------------------------------------

for _path in (
    "_virtualenv.py",
    "_virtualenv/__init__.py",
    "forged-1.0.data/purelib/_virtualenv.py",
    "forged-1.0.data/data/lib/pypy3.11/site-packages/torch/x.py",
    "forged-1.0.data/data/lib/pypy3.11/os.py",
    "forged-1.0.data/data/etc/jupyter/jupyter_config.py",
    "forged-1.0.data/data/etc/jupyter/jupyter_server_config.json",
    "forged-1.0.data/data/etc/ipython/ipython_kernel_config.py",
):
    _lie("foreign", _path, "it runs without being asked for, or instead of another's", _file(_path, b"x = 1\n"))
for _path in (
    "forged/_virtualenv.py",
    "_virtualenvs/__init__.py",
    "forged-1.0.data/data/lib/pypy.txt",
    "forged-1.0.data/data/etc/jupyter/jupyter_server_config.d/forged.json",
    "forged-1.0.data/data/etc/forged/jupyter_config.py",
):
    _legal(_path, "its own", _file(_path, b"{}\n"))


def _files(*paths: str) -> Change:
    return lambda wheel: wheel.files.update(dict.fromkeys(paths, b"x = 1\n"))


for _paths in (
    ("forged/a.py", "forged-1.0.data/purelib/forged/A.py"),
    ("forged/Sub/a.py", "forged/sub/b.py"),
    ("forged/sub/a.py", "forged-1.0.data/platlib/forged/SUB/b.py"),
):
    _lie("foreign", f"any platform, {_paths[1]}", "one place on Windows and macOS", _files(*_paths), base="pure")
    _legal(f"Linux, {_paths[1]}", "two places there", _files(*_paths))
for _text in ("forged = forged.kernel:class", "forged = forged.kernel:C.import", "fo\x1b[2Jrged = forged.kernel:main"):
    _lie(
        "programs",
        f"program {_text!r}",
        "a SyntaxError, or a name that no terminal shows",
        _programs(_text),
        base="pure",
    )
for _text in ("forged = forged.kernel:Class", "forged = forged.kernel:match", "for = forged.kernel:main"):
    _legal(f"program {_text!r}", "no keyword of Python's", _programs(_text), base="pure")
