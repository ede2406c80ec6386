"""What loaders and installers do that nobody thinks of: each lie was shown by glibc 2.36, pip 23.2 or uv 0.13."""

from __future__ import annotations

from collections.abc import Callable

from forge import Wheel, legal, lie
from forge_elf import (
    Library,
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


# --- Tags ---------------------------------------------------------------------------------------------------


def _tagged(python: str, abi: str, suffix: str = ".so") -> Change:
    def change(wheel: Wheel) -> None:
        wheel.move(wheel.module, "forged/_ops" + suffix.replace("ARCH", wheel.arch))
        wheel.tag(python, abi)

    return change


def _without_python(wheel: Wheel) -> None:
    wheel.library.imports = [symbol for symbol in wheel.library.imports if not symbol.name.startswith("Py")]


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
