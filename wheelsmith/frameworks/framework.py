"""The interface of a framework: its releases, headers, requirements and file layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import ClassVar, TypeVar

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from wheelsmith.base import sandbox_paths
from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import is_prerelease
from wheelsmith.model import CUDA, Cell, PinnedFile, PrefixId
from wheelsmith.model.pinned import pinned_prefix
from wheelsmith.platforms import compute_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Record):
    """A release of a framework.

    :param minor: as on an axis of matrix.yaml, e.g. ``2.11``, or ``2.16.0rc2`` for a pre-release.
    :param version: the patch release whose headers are used, e.g. ``2.11.0``, or a pre-release's build,
        ``2.16.0rc2+cu130``.
    :param cxx_std: the C++ standard that kernels are compiled with, e.g. 17.
    :param wheels: CPU architecture → the wheel whose headers are used.
    """

    minor: str
    version: str
    cxx_std: int
    wheels: dict[str, PinnedFile]
    source: str
    date: str


_AnyRelease = TypeVar("_AnyRelease", bound=Release)


def read_releases(facts: str, kind: type[_AnyRelease]) -> dict[str, _AnyRelease]:
    """Return the releases in a facts file by their ``major.minor``, oldest first."""
    return {item["minor"]: kind.from_json(item) for item in read_facts(__package__, facts)["releases"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """The symbols that a framework's library exports.

    :param versions: the known versions of the framework, oldest first.
    :param since: symbol → the first version that exports it.
    """

    library: str
    versions: tuple[Version, ...]
    since: Mapping[str, Version]

    def has(self, symbol: str) -> bool:
        """Return True if some version exports a symbol."""
        return symbol in self.since

    def versions_without(self, symbol: str, allowed: SpecifierSet) -> tuple[str, ...]:
        """Return the allowed versions that do not export a symbol."""
        since = self.since.get(symbol)
        allowed_versions = allowed.filter(self.versions, prereleases=True)
        return tuple(str(version) for version in allowed_versions if since is None or version < since)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderInputs:
    """What the generated files of a kernel depend on.

    :param package: the name of the Python package in the source.
    :param namespace: the unique name of the build, and the stem of the extension's file name.
    :param backend: kernel-builder's name of the compute platform, e.g. ``cuda``.
    :param release: the release of the framework whose headers are used.
    :param floor: the oldest release that the extension supports; None if it is for one release.
    :param functions: the C functions of the extension that the framework calls.
    """

    package: str
    namespace: str
    backend: str
    release: str
    floor: str | None = None
    functions: tuple[str, ...] = ()

    def fill(self, template: str, **more: object) -> str:
        """Return the text of a generated module.

        :param more: further values for the template.
        """
        oldest = self.floor or self.release
        known = {"package": self.package, "namespace": self.namespace, "functions": self.functions}
        return template.format(**known, oldest=oldest, numbers=Version(oldest).release, **more)


class Framework(ABC):
    """A framework that calls the operators of kernels.

    Only its own module and facts file depend on its name.

    :cvar name: the name in matrix.yaml, build.toml and the Hub's variants.
    :cvar project: the name on package indexes.
    :cvar packages: the folder of a kernel's Python package, in the Hub's layout.
    :cvar headers: the header folder in its wheel, ending with ``include/``; "" if kernels need no headers.
    :cvar include: the folders under ``mount_point`` that compilers search, in order.
    :cvar suffix: the file suffix of an extension.
    :cvar tags: the Python tag and the ABI tag of its wheels.
    :cvar limited_api: the value of Py_LIMITED_API for its kernels: they may use the stable ABI of that Python. None if
        they may not use CPython's API.
    :cvar has_prereleases: its axis in matrix.yaml accepts pre-releases, whose facts planning reads from their wheels.
    :cvar builds_per_compute: each release has one build per compute platform, on separate indexes.
    :cvar loads_cuda: importing it loads CUDA's libraries; otherwise a kernel contains the parts that it needs.
    :cvar test_requirements: further requirements for testing a kernel, if the framework has no tensors of its own.
    :cvar extras: extra of a wheel → the additional requirements.
    :cvar substitutes: other projects with the same module, which do not satisfy a requirement for ``project``.
    :cvar plugins: project that lets the framework use GPUs → the start of its compute platforms, e.g. ``cu13``. Empty
        if the framework needs no plugin.
    :cvar on_hub: the Hub has variants for it, i.e. folders of compiled kernels.
    :cvar has_stable_abi: build.toml may name the release whose stable ABI the extension uses.
    :cvar calls_functions: build.toml lists the C functions that the framework calls.
    :cvar platforms: the GPU platforms of its kernels.
    """

    name: ClassVar[str]
    project: ClassVar[str]
    packages: ClassVar[str]
    headers: ClassVar[str]
    include: ClassVar[tuple[str, ...]] = ("include",)
    suffix: ClassVar[str] = ".so"
    tags: ClassVar[tuple[str, str]] = ("py3", "none")
    limited_api: ClassVar[str | None] = None
    builds_per_compute: ClassVar[bool] = False
    has_prereleases: ClassVar[bool] = False
    loads_cuda: ClassVar[bool] = False
    test_requirements: ClassVar[tuple[str, ...]] = ()
    extras: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    substitutes: ClassVar[tuple[str, ...]] = ()
    plugins: ClassVar[Mapping[str, str]] = MappingProxyType({})
    on_hub: ClassVar[bool] = False
    has_stable_abi: ClassVar[bool] = False
    calls_functions: ClassVar[bool] = False
    platforms: ClassVar[tuple[str, ...]] = (CUDA,)

    @property
    def mount_point(self) -> str:
        """The mount point of its headers."""
        return f"{sandbox_paths.FRAMEWORKS}/{self.name}"

    @abstractmethod
    def releases(self) -> Mapping[str, Release]:
        """Return every known release by its ``major.minor``, oldest first."""

    def release(self, name: str, arch: str, compute: str) -> Release | None:
        """Return a release as a cell names it, or None if it is not known.

        :param compute: the compute platform of the build, which matters for pre-releases only.
        """
        return self.releases().get(name)

    def find_version(self, version: str, arch: str) -> Release | None:
        """Return the release with exactly this version, or None if it is not known."""
        return next((known for known in self.releases().values() if known.version == version), None)

    def local_part(self, release: str) -> str:
        """Return the name of a release in a local version, e.g. ``torch2.11``. PEP 440 forbids a dash in it."""
        return f"{self.name.replace('-', '')}{release}"

    @property
    def stable_part(self) -> str:
        """The name of its stable ABI in a local version, e.g. ``torchstable``."""
        return self.local_part("stable")

    def floor(self, declared: str | None, cell: Cell) -> str | None:
        """Return the oldest release that the wheel of a cell supports, or None if the wheel is for one release.

        Such a wheel uses the framework's stable ABI: it is compiled with the headers of this release, and also serves
        newer ones.

        :param declared: the release in build.toml; None if there is none.
        """
        return declared

    def cxx11_abi(self, release: str, arch: str, cuda: str | None) -> bool | None:
        """Return True if a build has the C++11 ABI, which its kernels must share; None if they share no C++ ABI.

        :param cuda: the CUDA version of the build, e.g. ``13.0``; None for a CPU build.
        """
        return None

    def defines(self, namespace: str, backend: str, stable_abi: str | None) -> tuple[str, ...]:
        """Return the macros that kernel sources expect, as compiler arguments. The names are kernel-builder's."""
        name = self.name.replace("-", "_").upper()
        return f"-D{name}_EXTENSION_NAME={namespace}", f"-D{backend.upper()}_KERNEL"

    def libraries(self, backend: str) -> tuple[str, ...]:
        """Return the file names of the libraries that an extension links against.

        Importing the framework loads them.
        """
        return ()

    @abstractmethod
    def files(self, of: LoaderInputs) -> dict[str, str]:
        """Return the files that a build adds to a kernel's source: path under ``packages`` → text."""

    def check_command(self, of: LoaderInputs, library: str, output: str) -> tuple[str, ...]:
        """Return the Python command that checks a new extension by running it; empty for none.

        It runs in the sandbox of the build.

        :param library: the path of the extension in the build folder.
        :param output: the path of the file that the command writes if it finds no mistake.
        """
        return ()

    def why_incompatible(self, cell: Cell, *, any_minor: bool) -> str | None:
        """Return the reason why a known release cannot serve a cell, or None.

        :param any_minor: allow a newer CUDA than the framework's own if its major version is the same.
        """
        return None

    def exports(self) -> tuple[Exports, ...]:
        """Return the exports of its libraries. For torch it is empty, because the wheel check has its own tables."""
        return ()

    def why_impossible(self, cell: Cell, *, any_minor: bool) -> str | None:
        """Return the reason why no wheel can be built for a cell, or None."""
        known, release = self.releases(), self.release(cell.release, cell.arch, cell.compute)
        if release is None and is_prerelease(cell.release):
            return (
                f"this machine does not know {self.name} {cell.release} for {cell.compute} on {cell.arch}: plan its "
                "matrix with a network, which reads the facts about it from its wheel"
            )
        if release is None:
            first, last = next(iter(known)), list(known)[-1]
            there = f"{self.name} {first} to {last}" if first != last else f"{self.name} {first}"
            return f"{self.name} {cell.release} is not known: wheelsmith knows {there}"
        if cell.arch not in release.wheels:
            return f"{self.name} {cell.release} has no {cell.arch} build"
        if cell.toolkit and cell.platform not in self.platforms:
            return f"wheelsmith builds nothing for {self.name} with {compute_name(cell.compute)}"
        return self.why_incompatible(cell, any_minor=any_minor)

    def prefix(self, release: Release, arch: str, backend: str = "") -> PrefixId:
        """Return the ID of the folder with a release's headers.

        :param backend: the compute platform, for frameworks whose headers depend on it.
        """
        return _headers_prefix(self.name, release.version, arch, release.wheels[arch])

    def requirement(self, release: str) -> str:
        """Return the requirement of a wheel for one release, e.g. ``torch==2.11.*`` or ``torch==2.16.0rc2``."""
        return f"{self.project}=={release}" + ("" if is_prerelease(release) else ".*")

    def stable_requirements(self, floor: str, compute: str) -> tuple[str, ...]:
        """Return the requirements of a wheel that uses the stable ABI, e.g. ``torch>=2.11``.

        :param floor: the oldest release that it supports.
        :param compute: its compute platform, e.g. ``cu130``.
        """
        return (f"{self.project}>={floor}",)


@cache
def _headers_prefix(framework: str, version: str, arch: str, wheel: PinnedFile) -> PrefixId:
    return pinned_prefix(framework, version, arch, [wheel])
