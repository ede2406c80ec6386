"""What a wheel for tvm-ffi may say, and what it may count on: importing tvm_ffi 0.1.x loads libtvm_ffi.so, no more."""

from __future__ import annotations

from collections.abc import Callable

from forge import Wheel, legal, lie
from forge_gpu import code

Change = Callable[[Wheel], object]
_TVM = "tvm_ffi"


def _lie(judges: str, name: str, says: str, change: Change) -> None:
    lie(judges, says, family="tvm_ffi", name=name, base=_TVM)(change)


def _legal(name: str, says: str, change: Change) -> None:
    legal(says, family="tvm_ffi", name=name, base=_TVM)(change)


def _requires(*lines: str) -> Change:
    return lambda wheel: wheel.requires(*lines)


def _imports(*symbols: str, **how: object) -> Change:
    return lambda wheel: wheel.library.import_(*symbols, **how)


for _name, _lines in {
    "no tvm-ffi": (),
    "any tvm-ffi": ("apache-tvm-ffi",),
    "a floor alone": ("apache-tvm-ffi>=0.1",),
    "another minor": ("apache-tvm-ffi==0.2.*",),
    "two minors": ("apache-tvm-ffi>=0.1,<0.3",),
    "an older minor, too": ("apache-tvm-ffi<0.2",),
    "for some Pythons": ('apache-tvm-ffi==0.1.*; python_version < "3.12"',),
    "for an extra": ('apache-tvm-ffi==0.1.*; extra == "all"',),
    "a name of somebody else": ("tvm-ffi==0.1.*",),
    "from a URL": ("apache-tvm-ffi @ https://example.org/apache_tvm_ffi-0.1.0-py3-none-any.whl",),
}.items():
    _lie("framework libraries", _name, "another tvm-ffi than the version says, or none", _requires(*_lines))
for _name, _line in {
    "a later minor alone": "apache-tvm-ffi>=0.1,!=0.2,!=0.2.*,<0.4",
    "any minor but one": "apache-tvm-ffi>=0.1,!=0.2.*",
    "nothing between": "apache-tvm-ffi>0.1,<0.1",
    "a build of its own": "apache-tvm-ffi==0.1.9+cu130",
}.items():
    _lie("framework together", _name, "another tvm-ffi than the version says, or none", _requires(_line))
_lie(
    "framework together",
    "two minors by two lines",
    "no version is both",
    _requires("apache-tvm-ffi==0.1.*", "apache-tvm-ffi==0.2.*"),
)
for _name, _version in {
    "two releases of it": "1.0+cpu.tvmffi0.1.tvmffi0.2",
    "every torch, too": "1.0+cpu.torchstable.tvmffi0.1",
    "a CUDA that there is not": "1.0+cu999.tvmffi0.1",
    "CUDA without its code": "1.0+cu130.tvmffi0.1",
    "torch instead": "1.0+cpu.torch2.11",
}.items():
    _lie(
        "compute torch names framework",
        _name,
        "it is for tvm-ffi 0.1 and the CPU",
        lambda wheel, to=_version: wheel.rename(to),
    )
for _name, _needed in {
    "another name of its library": "libtvm_ffi.so.1",
    "a library for its tests": "libtvm_ffi_testing.so",
    "the driver for the CPU": "libcuda.so.1",
}.items():
    _lie(
        "libraries compute",
        _name,
        "importing tvm_ffi does not load it",
        lambda wheel, library=_needed: wheel.library.needed.insert(0, library),
    )
_lie(
    "symbols",
    "its symbols from nowhere",
    "nothing that it needs has them",
    lambda wheel: wheel.library.needed.remove("libtvm_ffi.so"),
)
_lie(
    "symbols",
    "a symbol of the one release that is left out",
    "older ones lack it",
    lambda wheel: (
        wheel.library.import_("TVMFFIBigIntFromByteArray", kind=0),
        wheel.requires("apache-tvm-ffi==0.1.*,!=0.1.15.post2"),
    ),
)
_lie(
    "compute",
    "GPU code for the CPU",
    "the version says cpu",
    lambda wheel: setattr(wheel.library, "fatbin", code("80")),
)
for _name, _line in {
    "for another system": 'apache-tvm-ffi; sys_platform == "win32"',
    "for newer Pythons": 'apache-tvm-ffi==0.1.*; python_version >= "3.12"',
}.items():
    _lie(
        "libraries",
        _name,
        "without it importing tvm_ffi does not load its library",
        lambda wheel, line=_line: (wheel.rename("1.0+cpu"), wheel.requires(line)),
    )
_legal(
    "by the Python, in a version that names no release",
    "each of them is asked for one",
    lambda wheel: (
        wheel.rename("1.0+cpu"),
        wheel.requires(*(f'apache-tvm-ffi==0.1.*; python_version {than} "3.12"' for than in ("<", ">="))),
    ),
)
_legal("a post-release of it", "it is of the minor", _requires("apache-tvm-ffi==0.1.15.post2"))
_legal("in another spelling", "names are compared as PEP 503 has it", _requires("Apache_TVM.FFI==0.1.*"))
_lie("framework", "0.2 in the version", "it requires 0.1", lambda wheel: wheel.rename("1.0+cpu.tvmffi0.2"))
_lie(
    "names compute torch framework",
    "torch and tvm-ffi",
    "it is for one of the two",
    lambda wheel: wheel.rename("1.0+cpu.torch2.11.tvmffi0.1"),
)
_lie("symbols", "a symbol of nobody", "libtvm_ffi.so has no such symbol", _imports("TVMFFINobodyHasThis", kind=0))
_lie(
    "symbols",
    "a symbol that came later",
    "tvm-ffi 0.1.0, which may be beside it, lacks it",
    _imports("_ZN3tvm3ffi11RecursiveEqERKNS0_3AnyES3_", kind=0),
)
_lie(
    "symbols libraries",
    "torch's symbols",
    "nothing of torch is loaded for it",
    _imports("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE", kind=0),
)
_lie(
    "symbols libraries",
    "torch's library",
    "it requires no torch",
    lambda wheel: wheel.library.needed.insert(0, "libc10.so"),
)
_lie(
    "compute libraries",
    "CUDA's runtime for the CPU",
    "nothing of CUDA is beside it",
    lambda wheel: wheel.library.needed.insert(0, "libcudart.so.13"),
)
_legal("one release of it", "it is of the minor", _requires("apache-tvm-ffi==0.1.9"))
_legal(
    "a symbol that came later, and its release",
    "no older one may be beside it",
    lambda wheel: (
        wheel.library.import_("_ZN3tvm3ffi11RecursiveEqERKNS0_3AnyES3_", kind=0),
        wheel.requires("apache-tvm-ffi>=0.1.10,<0.2"),
    ),
)
_legal("beside torch", "who has both may use both", _requires("apache-tvm-ffi==0.1.*", "torch"))
