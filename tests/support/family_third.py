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
