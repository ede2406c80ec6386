"""Read the data files beside this module. Each is checked against its types when first used."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from wheelsmith.model import PrefixId
from wheelsmith.record import Record, canonical_digest

# Part of every prefix's name: raised when the way a prefix is laid out changes.
_LAYOUT = 2
_VERSIONED = re.compile(r"(python|pip|pydoc|idle|gcc|g\+\+)[-\d.]+t?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile(Record):
    """One wheel on a package index, pinned by hash; ``size`` in bytes.

    :param record_sha256: the hash of the wheel's RECORD, for wheels of which only some files are fetched: RECORD
        proves each file, and this proves RECORD.
    """

    project: str
    version: str
    filename: str
    sha256: str
    size: int
    record_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRelease(Record):
    """A torch release and what it was built with.

    :param minor: ``2.11``: what the torch axis names.
    :param version: the patch release whose headers stand for it, e.g. ``2.11.0``.
    :param cxx_std: the C++ standard kernels are compiled with, e.g. 17: kernel-builder's choice, 20 from torch 2.12 on.
    :param cxx11_abi: CPU architecture → whether its wheel has the C++11 ABI; without it, ``std::string`` has other
        symbols, and an extension must be compiled likewise.
    :param cxx11_abi_cuda: CUDA releases of which the builds have the C++11 ABI on every architecture.
    :param cuda: every CUDA ``major.minor`` that this release was published for.
    :param cuda_source: who says so; ``source`` is for everything else.
    :param wheels: CPU architecture → the wheel whose headers are used.
    :param without_cuda: CPU architectures whose wheel is a build for the CPU alone, by the files that it holds.
    """

    minor: str
    version: str
    cxx_std: int
    cxx11_abi: dict[str, bool]
    cuda: tuple[str, ...]
    cuda_source: str
    cuda_date: str
    wheels: dict[str, PinnedFile]
    source: str
    date: str
    cxx11_abi_cuda: tuple[str, ...] = ()
    without_cuda: tuple[str, ...] = ()

    def has_cxx11_abi(self, arch: str, cuda: str | None) -> bool:
        """Say whether the build for an architecture and a CUDA, or for the CPU alone, has the C++11 ABI."""
        return self.cxx11_abi.get(arch, True) or cuda in self.cxx11_abi_cuda

    def newer_cuda(self, cuda: str) -> tuple[str, ...]:
        """Return the CUDA releases of its builds that run what ``cuda`` made: of that major, no older, oldest first.

        The rule is the Hub loader's own.
        """
        least = _release(cuda)
        return tuple(built for built in self.cuda if _release(built)[0] == least[0] and _release(built) >= least)


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaToolkit(Record):
    """A CUDA toolkit: assembled from a package index, or, where that lacks nvcc, found in an image.

    One from an image has no packages, headers and runtimes here.

    :param version: ``13.0``.
    :param ptx: the version of the PTX that its nvcc writes, ``9.0``, and the newest that it reads.
    :param cxx_std: the oldest C++ standard in which the host compiler takes what its nvcc makes of torch's headers,
        e.g. 17. That of 13.3 loses a ``typename`` in ATen/core/List_inl.h of torch 2.11, which only C++20 can do
        without; that of 13.5 keeps it.
    :param packages: CPU architecture of the machine that compiles → its pinned wheels.
    :param headers: libraries of which torch's own headers include the headers; nothing else of them is fetched.
    :param target_runtime: CPU architecture of the wheel's user → the wheel with its libcudart.
    :param capabilities: every compute capability its nvcc accepts, e.g. ``7.5``, ``9.0``, ``9.0a``.
    :param default_capabilities: what is built when nobody says, e.g. ``8.0``, ``12.0+PTX``.
    """

    version: str
    ptx: str
    cxx_std: int
    packages: dict[str, tuple[PinnedFile, ...]]
    headers: tuple[PinnedFile, ...]
    target_runtime: dict[str, PinnedFile]
    capabilities: tuple[str, ...]
    default_capabilities: tuple[str, ...]
    source: str
    date: str

    @property
    def assembled(self) -> bool:
        """Say whether a package index has all of it."""
        return bool(self.packages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency(Record):
    """A name that build.toml's ``python-depends`` may use → what the wheel requires.

    :param backend: None when it holds for every backend.
    """

    name: str
    backend: str | None
    requires: str
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProjects:
    """Names that many environments already have, and whose they are.

    :param standard_library: import names of Python's own.
    :param modules: import name → the projects that install it.
    :param namespaces: import name that several projects share → what their names begin with.
    :param programs: program → the projects that install it; none for a program of the operating system.
    """

    standard_library: frozenset[str]
    modules: dict[str, tuple[str, ...]]
    namespaces: dict[str, tuple[str, ...]]
    programs: dict[str, tuple[str, ...]]

    def owners_of_program(self, name: str) -> tuple[str, ...] | None:
        """Return the projects that install a program, ``pip3.12`` as ``pip``; None where it is nobody's."""
        plain = _VERSIONED.fullmatch(name)
        return self.programs.get(name, self.programs.get(plain[1]) if plain else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaPackages(Record):
    """Which release of CUDA a version of NVIDIA's packages without a ``-cu12`` in their names is of.

    :param by_major: projects whose major version is CUDA's.
    :param first_of_13: project that counts its own releases → its first version of CUDA 13.
    """

    by_major: tuple[str, ...]
    first_of_13: dict[str, str]
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Namesake(Record):
    """A project on PyPI with a name that a Hub kernel has, too, or might have.

    :param name: normalized.
    :param modules: the import names that it installs.
    """

    name: str
    modules: tuple[str, ...]
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFloor(Record):
    """The oldest NVIDIA driver that runs what any toolkit of a CUDA major made, as ``580``.

    :param cuda: the major version, e.g. ``13``.
    """

    cuda: str
    driver: str
    source: str
    date: str


def _read(name: str) -> Any:
    return json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))


@cache
def torch_releases() -> dict[str, TorchRelease]:
    """Return every known torch release by its ``major.minor``, oldest first."""
    return {item["minor"]: TorchRelease.from_json(item) for item in _read("torch.json")["releases"]}


@cache
def cuda_toolkits() -> dict[str, CudaToolkit]:
    """Return every known toolkit, by its ``major.minor``, oldest first."""
    return {item["version"]: CudaToolkit.from_json(item) for item in _read("cuda.json")["toolkits"]}


@cache
def dependencies() -> tuple[Dependency, ...]:
    """Return what build.toml's ``python-depends`` may name."""
    return tuple(Dependency.from_json(item) for item in _read("dependencies.json")["dependencies"])


@cache
def driver_floors() -> dict[str, DriverFloor]:
    """Return the oldest driver of each CUDA major, by the major."""
    return {item["cuda"]: DriverFloor.from_json(item) for item in _read("drivers.json")["floors"]}


@cache
def bytecode_numbers() -> dict[str, range]:
    """Return the magic numbers of each CPython's bytecode, by its ``major.minor``, oldest first."""
    plain = _read("bytecode.json")
    starts = [*plain["first"].values(), plain["end"]]
    return {
        version: range(first, following)
        for version, first, following in zip(plain["first"], starts[:-1], starts[1:], strict=True)
    }


@cache
def cuda_packages() -> CudaPackages:
    """Return what is known of CUDA's own packages on PyPI."""
    known = _read("cuda_packages.json")
    return CudaPackages.from_json({key: value for key, value in known.items() if key != "schema_version"})


@cache
def namesakes() -> tuple[Namesake, ...]:
    """Return the projects whose names kernels have, too: those that were released since 2023."""
    return tuple(Namesake.from_json(item) for item in _read("namesakes.json")["projects"])


@cache
def known_projects() -> KnownProjects:
    """Return what belongs to well-known projects."""
    plain = _read("projects.json")
    return KnownProjects(
        standard_library=frozenset(plain["standard_library"]),
        modules={name: tuple(owners) for name, owners in plain["modules"].items()},
        namespaces={name: tuple(prefixes) for name, prefixes in plain["namespaces"].items()},
        programs={name: tuple(owners) for name, owners in plain["programs"].items()},
    )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def why_incompatible(torch: TorchRelease, cuda: str) -> str | None:
    """Say why a kernel built with CUDA ``cuda`` cannot serve ``torch``, or None when it can."""
    if torch.newer_cuda(cuda):
        return None
    return (
        f"torch {torch.minor} was built with CUDA {_listed(torch.cuda)}; a kernel made with CUDA {cuda} "
        f"needs a torch of the same CUDA major and at least that minor"
    )


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def cuda_prefix(toolkit: CudaToolkit, arch: str, target: str) -> PrefixId:
    """Name the CUDA_HOME that compiles on ``arch`` for ``target``, by what it is made from."""
    pins = [*toolkit.packages[arch], *toolkit.headers, toolkit.target_runtime[target]]
    return _prefix("cuda", toolkit.version, f"{arch}-{target}" if arch != target else arch, pins)


def torch_prefix(release: TorchRelease, arch: str) -> PrefixId:
    """Name the folder of torch headers for ``arch``, by the wheel that they come from."""
    return _prefix("torch", release.version, arch, [release.wheels[arch]])


def _prefix(kind: str, version: str, arch: str, pins: list[PinnedFile]) -> PrefixId:
    digest = canonical_digest({"layout": _LAYOUT, "pins": [[pin.filename, pin.sha256] for pin in pins]})
    return PrefixId(kind=kind, version=version, arch=arch, digest=digest)
