"""Wheels made from nothing, and one small change that makes each of them a lie or an oddity.

A base is a legal wheel. ``lie`` registers a function that changes one; ``legal`` one whose change every installer and
loader accepts. ``tests/integration/test_forged_wheels.py`` builds each for each architecture and asks the check.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from forge_elf import Library, Symbol
from forge_gpu import code

ARCHES = ("x86_64", "aarch64")
MANYLINUX = "manylinux_2_28"

# What an import of libc may be versioned as, by architecture: its oldest version.
OLDEST = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}
LOADER = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
TORCH_ADD = "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE"
TORCH_GROW = "_ZN3c1015SmallVectorBaseIjE8grow_podEPKvmm"
TORCH_STREAM = "_ZN3c104cuda20getCurrentCUDAStreamEa"
TORCH_DIM = "aoti_torch_get_dim"


@dataclass(kw_only=True)
class Wheel:
    """A wheel that is being made; every field is free to be changed.

    :param files: path → content, or a library that becomes its bytes; the dist-info folder comes by itself.
    :param metadata: lines of METADATA, ``wheel`` those of WHEEL; None leaves the file out.
    :param rows: changes RECORD's lines; by default they are what they must be.
    :param info: name of the dist-info folder; None is the right one.
    :param filename: of the wheel; None is the right one.
    """

    arch: str
    project: str = "forged"
    version: str = "1.0"
    build: str = ""
    python: str = "cp310"
    abi: str = "abi3"
    platform: str = ""
    files: dict[str, bytes | Library] = field(default_factory=dict)
    metadata: list[str] = field(default_factory=list)
    body: bytes = b""
    wheel: list[str] = field(default_factory=list)
    raw: dict[str, bytes | None] = field(default_factory=dict)
    hash: str = "sha256"
    rows: Callable[[list[str]], list[str]] = list
    info: str | None = None
    filename: str | None = None
    label: str = ""

    @property
    def library(self) -> Library:
        """The extension module."""
        return next(item for item in self.files.values() if isinstance(item, Library))

    @property
    def module(self) -> str:
        """The path of the extension module."""
        return next(path for path, item in self.files.items() if isinstance(item, Library))

    @property
    def folder(self) -> str:
        """The name of the dist-info folder."""
        return self.info or f"{self.project}-{self.version}.dist-info"

    def move(self, old: str, new: str) -> None:
        """Rename a file."""
        self.files[new] = self.files.pop(old)

    def set(self, key: str, value: str | None) -> None:
        """Replace a header of METADATA; None removes it."""
        self.metadata = _replaced(self.metadata, key, value)

    def set_wheel(self, key: str, value: str | None) -> None:
        """Replace a header of WHEEL; None removes it."""
        self.wheel = _replaced(self.wheel, key, value)

    def tag(self, python: str | None = None, abi: str | None = None, platform: str | None = None) -> None:
        """Change the tag, in the file name and in WHEEL."""
        self.python, self.abi = python or self.python, abi or self.abi
        self.platform = platform or self.platform
        self._write_tags()

    def requires(self, *lines: str) -> None:
        """Replace what is required."""
        kept = [line for line in self.metadata if not line.startswith("Requires-Dist:")]
        self.metadata = [*kept, *(f"Requires-Dist: {line}" for line in lines)]

    def rename(self, version: str) -> None:
        """Change the version everywhere."""
        self.version = version
        self.set("Version", version)

    def _write_tags(self) -> None:
        kept = [line for line in self.wheel if not line.startswith("Tag:")]
        tags = [
            f"Tag: {python}-{abi}-{platform}"
            for python in self.python.split(".")
            for abi in self.abi.split(".")
            for platform in self.platform.split(".")
        ]
        self.wheel = [*kept, *tags]

    def build_file(self, folder: Path) -> Path:
        """Write the wheel and return its path."""
        contents = {path: _bytes(item) for path, item in self.files.items()}
        contents[f"{self.folder}/METADATA"] = "\n".join([*self.metadata, "", ""]).encode() + self.body
        contents[f"{self.folder}/WHEEL"] = "\n".join([*self.wheel, ""]).encode()
        for path, data in self.raw.items():
            where = path.replace("{info}", self.folder)
            contents.pop(where, None)
            if data is not None:
                contents[where] = data
        record = f"{self.folder}/RECORD"
        if "{info}/RECORD" not in self.raw:
            lines = [_row(path, data, self.hash) for path, data in contents.items()]
            contents[record] = "\n".join([*self.rows([*lines, f"{record},,"]), ""]).encode("utf-8", "surrogateescape")
        parts = [self.project, self.version, *filter(None, [self.build]), self.python, self.abi, self.platform]
        name = self.filename or "-".join([*parts, *filter(None, [self.label])]) + ".whl"
        path = folder / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for inner, data in contents.items():
                archive.writestr(zipfile.ZipInfo(inner), data, zipfile.ZIP_DEFLATED)
        return path


def _bytes(item: bytes | Library) -> bytes:
    return item.build() if isinstance(item, Library) else item


def _row(path: str, data: bytes, algorithm: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).rstrip(b"=").decode()
    quoted = f'"{path}"' if "," in path else path
    return f"{quoted},{algorithm}={digest},{len(data)}"


def _replaced(lines: list[str], key: str, value: str | None) -> list[str]:
    at = next((n for n, line in enumerate(lines) if line.startswith(f"{key}:")), len(lines))
    kept = [line for line in lines if not line.startswith(f"{key}:")]
    return kept if value is None else [*kept[:at], f"{key}: {value}", *kept[at:]]


# --- bases --------------------------------------------------------------------------------------------------


def _wheel(arch: str, version: str, *requires: str, library: Library, name: str = "_ops.abi3.so") -> Wheel:
    made = Wheel(arch=arch, version=version, platform=f"{MANYLINUX}_{arch}")
    made.files = {"forged/__init__.py": b"from forged import _ops\n", f"forged/{name}": library}
    made.metadata = ["Metadata-Version: 2.1", "Name: forged", f"Version: {version}", "Requires-Python: >=3.10"]
    made.wheel = ["Wheel-Version: 1.0", "Generator: forge", "Root-Is-Purelib: false"]
    made.tag()
    made.requires(*requires)
    return made


def extension(arch: str, *needed: str) -> Library:
    """Return an extension module that needs libc and Python's stable ABI."""
    library = Library(arch=arch, needed=[*needed, "libc.so.6"], exports=[Symbol(name="PyInit__ops")])
    library.import_("memcpy", version=("libc.so.6", "GLIBC_2.14" if arch == "x86_64" else "GLIBC_2.17"))
    library.import_("PyModule_Create2", "PyErr_SetString", kind=0)
    return library


def plain(arch: str) -> Wheel:
    """Return a wheel for every Python from 3.10 on that needs no torch."""
    return _wheel(arch, "1.0", library=extension(arch))


def cpu(arch: str) -> Wheel:
    """Return a wheel for torch 2.11 without CUDA."""
    library = extension(arch, "libc10.so", "libtorch_cpu.so", "libtorch.so")
    library.import_(TORCH_ADD, TORCH_GROW, kind=0)
    return _wheel(arch, "1.0+cpu.torch2.11", "torch==2.11.*", library=library)


def cuda(arch: str) -> Wheel:
    """Return a wheel for torch 2.11 with CUDA 13.0."""
    needed = ("libc10.so", "libtorch_cpu.so", "libtorch.so", "libc10_cuda.so", "libcudart.so.13")
    library = extension(arch, *needed)
    library.import_(TORCH_ADD, TORCH_STREAM, kind=0)
    library.import_("cudaLaunchKernel", version=("libcudart.so.13", "libcudart.so.13"))
    library.fatbin = code("80", "90a", "90+PTX")
    return _wheel(arch, "1.0+cu130.torch2.11", "torch==2.11.*", library=library)


def stable(arch: str) -> Wheel:
    """Return a wheel for every torch from 2.10 on, by torch's stable ABI, with CUDA 13.0."""
    library = extension(arch, "libtorch_cpu.so", "libtorch.so", "libcudart.so.13")
    library.import_(TORCH_DIM, "torch_call_dispatcher", kind=0)
    library.import_("cudaLaunchKernel", version=("libcudart.so.13", "libcudart.so.13"))
    library.fatbin = code("80", "90+PTX")
    return _wheel(arch, "1.0+cu130", "torch>=2.10", library=library)


def bundled(arch: str) -> Wheel:
    """Return a wheel with a library of its own, as auditwheel leaves it."""
    made = plain(arch)
    made.library.needed.insert(0, "libhelp-0123abcd.so.1")
    made.library.runpath = "$ORIGIN/../forged.libs"
    made.library.import_("help_me")
    own = Library(arch=arch, soname="libhelp-0123abcd.so.1", needed=["libc.so.6"], exports=[Symbol(name="help_me")])
    made.files["forged.libs/libhelp-0123abcd.so.1"] = own
    return made


def python(arch: str) -> Wheel:
    """Return a wheel for CPython 3.11 alone."""
    made = plain(arch)
    made.move(made.module, f"forged/_ops.cpython-311-{arch}-linux-gnu.so")
    made.library.import_("_PyObject_GetDictPtr", kind=0)
    made.tag("cp311", "cp311")
    return made


def pure(arch: str) -> Wheel:
    """Return a wheel with nothing compiled."""
    made = plain(arch)
    made.files = {"forged/__init__.py": b"\n", "forged/kernel.py": b"import forged\n"}
    made.set_wheel("Root-Is-Purelib", "true")
    made.tag("py3", "none", "any")
    return made


def tvm_ffi(arch: str) -> Wheel:
    """Return a wheel for tvm-ffi 0.1 without CUDA: a library, of which Python knows nothing."""
    library = Library(arch=arch, needed=["libtvm_ffi.so", "libc.so.6"], exports=[Symbol(name="__tvm_ffi_add")])
    library.import_("memcpy", version=("libc.so.6", "GLIBC_2.14" if arch == "x86_64" else "GLIBC_2.17"))
    library.import_("TVMFFIErrorSetRaised", "TVMFFIErrorCreate", kind=0)
    made = _wheel(arch, "1.0+cpu.tvmffi0.1", "apache-tvm-ffi==0.1.*", library=library, name="_ops.so")
    made.files["forged/__init__.py"] = b"import tvm_ffi\n"
    made.tag("py3", "none")
    return made


BASES: dict[str, Callable[[str], Wheel]] = {
    made.__name__: made for made in (plain, cpu, cuda, stable, bundled, python, pure, tvm_ffi)
}


# --- the register -------------------------------------------------------------------------------------------

Change = Callable[[Wheel], None]


@dataclass(frozen=True, kw_only=True)
class Forgery:
    """One change of a base.

    :param says: what a lie pretends, or why an oddity is legal; one sentence.
    :param rules: the findings that may refuse a lie; empty for an oddity.
    """

    name: str
    family: str
    says: str
    rules: frozenset[str]
    base: str
    arches: tuple[str, ...]
    change: Change

    def build(self, arch: str, folder: Path) -> Path:
        """Write the forged wheel and return its path."""
        wheel = BASES[self.base](arch)
        self.change(wheel)
        return wheel.build_file(folder)


LIES: dict[str, Forgery] = {}
LEGAL: dict[str, Forgery] = {}

# What may refuse a lie → the rules that may say so. Here alone the names of rules stand.
JUDGES: dict[str, frozenset[str]] = {
    "record": frozenset({"record", "readable"}),
    "archive": frozenset({"archive", "readable", "record"}),
    "names": frozenset({"name-and-version", "metadata", "readable"}),
    "tags": frozenset({"tags", "purity", "readable"}),
    "metadata": frozenset({"metadata", "name-and-version", "readable"}),
    "torch": frozenset({"torch-requirement", "metadata"}),
    "framework": frozenset({"framework-requirement"}),
    "purity": frozenset({"purity", "tags"}),
    "bytecode": frozenset({"bytecode"}),
    "programs": frozenset({"entry-points"}),
    "together": frozenset({"requirements"}),
    "packages": frozenset({"cuda-requirement"}),
    "suffix": frozenset({"extension-suffix", "suffix", "tags", "abi3"}),
    "foreign": frozenset({"installs", "name-and-version", "readable"}),
    "elf": frozenset({"elf", "readable"}),
    "libraries": frozenset({"libraries", "elf"}),
    "search-path": frozenset({"search-path", "elf"}),
    "architecture": frozenset({"architecture", "elf"}),
    "platform": frozenset({"platform-tag"}),
    "abi3": frozenset({"abi3", "python-symbols"}),
    "symbols": frozenset({"symbols", "python-symbols"}),
    "compute": frozenset({"compute-platform", "machine-code", "gpu-code"}),
    "gpu": frozenset({"machine-code", "gpu-code", "compute-platform", "ptx", "readable"}),
    "toolkit": frozenset({"toolkit"}),
    "ops": frozenset({"torch-ops"}),
    "variant": frozenset({"variant"}),
}


def lie(
    judges: str, says: str, *, base: str = "plain", arches: Iterable[str] = ARCHES, family: str = "", name: str = ""
) -> Callable[[Change], Change]:
    """Register a change that makes a wheel lie.

    :param judges: who may refuse it, names of ``JUDGES`` with spaces between.
    """
    rules = frozenset[str]().union(*(JUDGES[judge] for judge in judges.split()))
    return partial(_register, LIES, says, rules, base=base, arches=tuple(arches), family=family, name=name)


def legal(
    says: str, *, base: str = "plain", arches: Iterable[str] = ARCHES, family: str = "", name: str = ""
) -> Callable[[Change], Change]:
    """Register a change that leaves a wheel right."""
    return partial(_register, LEGAL, says, frozenset(), base=base, arches=tuple(arches), family=family, name=name)


def lies(judges: str, says: str, table: Iterable[str], change: Callable[[Wheel, str], None], **how: Any) -> None:
    """Register a lie for each text of a table; ``{}`` in ``says`` stands for it."""
    for text in table:
        lie(judges, says.format(text), **_one_of(text, change, how))(partial(_with, change, text))


def legals(says: str, table: Iterable[str], change: Callable[[Wheel, str], None], **how: Any) -> None:
    """Register an oddity for each text of a table; ``{}`` in ``says`` stands for it."""
    for text in table:
        legal(says.format(text), **_one_of(text, change, how))(partial(_with, change, text))


def one_lie(judges: str, name: str, says: str, *changes: Callable[[Wheel], object], **how: Any) -> None:
    """Register changes that together make a wheel lie; ``family`` must be given."""
    lie(judges, says, name=name, **how)(partial(_change, changes))


def one_legal(name: str, says: str, *changes: Callable[[Wheel], object], **how: Any) -> None:
    """Register changes that together leave a wheel right; ``family`` must be given."""
    legal(says, name=name, **how)(partial(_change, changes))


def _change(changes: tuple[Callable[[Wheel], object], ...], wheel: Wheel) -> None:
    for change in changes:
        change(wheel)


# --- changes ------------------------------------------------------------------------------------------------


def put(path: str, data: bytes | Library = b"x\n") -> Change:
    """Put a file into the wheel; ``DATA`` is its data folder."""
    return lambda wheel: wheel.files.__setitem__(path.replace("DATA", "forged-1.0.data"), data)


def put_raw(path: str, data: bytes) -> Change:
    """Put a file into the wheel as it is; ``{info}`` is its dist-info folder."""
    return lambda wheel: wheel.raw.__setitem__(path, data)


def add_metadata(*lines: str, version: str = "2.4") -> Change:
    """Add headers to METADATA."""

    def change(wheel: Wheel) -> None:
        wheel.set("Metadata-Version", version)
        wheel.metadata += lines

    return change


def require(*lines: str) -> Change:
    """Replace what is required."""
    return lambda wheel: wheel.requires(*lines)


def import_symbols(*names: str, **how: Any) -> Change:
    """Let the extension need symbols."""
    return lambda wheel: wheel.library.import_(*names, **how)


# --- registering --------------------------------------------------------------------------------------------


def _one_of(text: str, change: Callable[..., None], how: dict[str, Any]) -> dict[str, Any]:
    name = how.get("name", change.__name__.strip("_").replace("_", " "))
    return {**how, "name": f"{name} {text!r}", "family": _family(change)}


def _with(change: Callable[[Wheel, str], None], text: str, wheel: Wheel) -> None:
    change(wheel, text)


def _family(change: Callable[..., None]) -> str:
    return change.__module__.removeprefix("family_")


def _register(
    register: dict[str, Forgery],
    says: str,
    rules: frozenset[str],
    change: Change,
    *,
    base: str,
    arches: tuple[str, ...],
    family: str,
    name: str,
) -> Change:
    family = family or _family(change)
    title = f"{family}: {name or change.__name__.strip('_').replace('_', ' ')}"
    if title in register:
        raise ValueError(f"two forgeries are called {title!r}")
    register[title] = Forgery(
        name=title, family=family, says=says, rules=rules, base=base, arches=arches, change=change
    )
    return change
