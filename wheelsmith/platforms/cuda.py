"""CUDA: its toolkits, the capabilities of its GPUs, its packages and drivers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from wheelsmith.base.facts import read_facts
from wheelsmith.base.record import Record
from wheelsmith.model.pinned import PinnedFile, pinned_prefix
from wheelsmith.model.plan import PrefixId

_CUDA_COMPUTE = re.compile(r"cu\d{3,}")
_CAPABILITY = re.compile(r"(?P<major>\d{1,2})\.(?P<minor>\d)(?P<suffix>[af])?(?P<ptx>\+PTX)?", re.ASCII)


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
class DriverFloor(Record):
    """The oldest NVIDIA driver that runs what any toolkit of a CUDA major made, as ``580``.

    :param cuda: the major version, e.g. ``13``.
    """

    cuda: str
    driver: str
    source: str
    date: str


@cache
def cuda_toolkits() -> dict[str, CudaToolkit]:
    """Return every known toolkit, by its ``major.minor``, oldest first."""
    return {item["version"]: CudaToolkit.from_json(item) for item in read_facts(__package__, "cuda.json")["toolkits"]}


@cache
def driver_floors() -> dict[str, DriverFloor]:
    """Return the oldest driver of each CUDA major, by the major."""
    return {item["cuda"]: DriverFloor.from_json(item) for item in read_facts(__package__, "drivers.json")["floors"]}


@cache
def cuda_packages() -> CudaPackages:
    """Return what is known of CUDA's own packages on PyPI."""
    known = read_facts(__package__, "cuda_packages.json")
    return CudaPackages.from_json({key: value for key, value in known.items() if key != "schema_version"})


def cuda_prefix(toolkit: CudaToolkit, arch: str, target: str) -> PrefixId:
    """Name the CUDA_HOME that compiles on ``arch`` for ``target``, by what it is made from."""
    pins = [*toolkit.packages[arch], *toolkit.headers, toolkit.target_runtime[target]]
    return pinned_prefix("cuda", toolkit.version, f"{arch}-{target}" if arch != target else arch, pins)


def cuda_of(compute: str) -> str | None:
    """Return the CUDA of a compute platform, ``13.0`` of ``cu130``; None of anything else."""
    return f"{compute[2:-1]}.{compute[-1]}" if _CUDA_COMPUTE.fullmatch(compute) else None


def parse_capability(text: str) -> tuple[int, int, str, bool]:
    """Split ``9.0a+PTX`` into major, minor, suffix and whether PTX is wanted.

    :raises ValueError: it is not a compute capability.
    """
    match = _CAPABILITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a compute capability such as 8.0, 9.0a or 12.0+PTX")
    return int(match["major"]), int(match["minor"]), match["suffix"] or "", bool(match["ptx"])
