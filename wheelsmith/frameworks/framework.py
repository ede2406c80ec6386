"""What a framework is here: whatever calls a kernel's operators, and what a wheel needs and says to work with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import Cell, PinnedFile, PrefixId
from wheelsmith.model.pinned import pinned_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Record):
    """A release of a framework that wheels are made for.

    :param minor: ``2.11``: what an axis of matrix.yaml names.
    :param version: the release whose headers stand for it, e.g. ``2.11.0``.
    :param cxx_std: the C++ standard kernels are compiled with, e.g. 17.
    :param wheels: CPU architecture → the wheel whose headers are used.
    """

    minor: str
    version: str
    cxx_std: int
    wheels: dict[str, PinnedFile]
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """What a library of a framework offers to kernels.

    :param versions: of the framework, that are known, oldest first.
    :param since: symbol → the version from which on it is there.
    """

    library: str
    versions: tuple[Version, ...]
    since: Mapping[str, Version]

    def lacking(self, symbol: str, allowed: SpecifierSet) -> tuple[str, ...]:
        """Return the versions, of those that are allowed, that do not export a symbol."""
        since = self.since.get(symbol)
        among = allowed.filter(self.versions, prereleases=True)
        return tuple(str(version) for version in among if since is None or version < since)


class Framework(ABC):
    """One framework; its module and its facts are all that is known of it by name.

    :cvar name: as matrix.yaml, build.toml and the names of the Hub's variants have it.
    :cvar project: what installers know it by.
    :cvar packages: the folder of a kernel's Python package, in the Hub's layout.
    :cvar place: where its headers are mounted.
    :cvar headers: where its wheel has them, ``include/`` at the end.
    :cvar include: the folders under ``place`` that compilers search, in order.
    :cvar suffix: what an extension's file name ends with.
    :cvar tags: the Python tag and the ABI tag of its wheels.
    :cvar limited_api: what its kernels may use of CPython, as Py_LIMITED_API says it: that is in every Python from that
        of the tag on. None where they are given nothing of it.
    :cvar by_compute: a release has a build for each compute platform, on an index of its own.
    :cvar brings_cuda: importing it loads CUDA's libraries; where it does not, a kernel brings what it needs of them.
    :cvar beside_a_test: requirements that a kernel's test has beside it, where it brings no tensors of its own.
    """

    name: ClassVar[str]
    project: ClassVar[str]
    packages: ClassVar[str]
    place: ClassVar[str]
    headers: ClassVar[str]
    include: ClassVar[tuple[str, ...]]
    suffix: ClassVar[str]
    tags: ClassVar[tuple[str, str]]
    limited_api: ClassVar[str | None] = None
    by_compute: ClassVar[bool]
    brings_cuda: ClassVar[bool]
    beside_a_test: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def releases(self) -> Mapping[str, Release]:
        """Return every known release by its ``major.minor``, oldest first."""

    @abstractmethod
    def local_part(self, release: str) -> str:
        """Return how a local version names a release, e.g. ``torch2.11``."""

    def cxx11_abi(self, release: str, arch: str, cuda: str | None) -> bool | None:
        """Say whether a build has the C++11 ABI, which its kernels must share; None where they share nothing of it.

        :param cuda: of the build, as ``13.0``; None for the CPU alone.
        """
        return None

    @abstractmethod
    def defines(self, namespace: str, backend: str, stable_abi: str | None) -> tuple[str, ...]:
        """Return the macros that kernel sources rely on, as a compiler is given them."""

    @abstractmethod
    def libraries(self, backend: str) -> tuple[str, ...]:
        """Return the libraries that an extension names, which are there once the framework is imported."""

    @abstractmethod
    def files(self, package: str, namespace: str) -> dict[str, str]:
        """Return what a build adds to a kernel's source: path under ``packages`` → text."""

    def why_incompatible(self, cell: Cell, *, any_minor: bool) -> str | None:
        """Say why a known release has no wheels for a cell.

        :param any_minor: a CUDA newer than the framework's own, of the same major, is no reason.
        """
        return None

    def exports(self) -> tuple[Exports, ...]:
        """Return what its libraries offer; nothing of torch's, which the check has tables of."""
        return ()

    def why_impossible(self, cell: Cell, *, any_minor: bool) -> str | None:
        """Say why nothing can be made for a cell; None where it can."""
        known = self.releases()
        release = known.get(cell.release)
        if release is None:
            first, last = next(iter(known)), list(known)[-1]
            there = f"{self.name} {first} to {last}" if first != last else f"{self.name} {first}"
            return f"{self.name} {cell.release} is not known: wheelsmith knows {there}"
        if cell.arch not in release.wheels:
            return f"{self.name} {cell.release} has no {cell.arch} build"
        return self.why_incompatible(cell, any_minor=any_minor)

    def prefix(self, release: str, arch: str) -> PrefixId:
        """Name the folder of its headers, by the wheel that they come from."""
        known = self.releases()[release]
        return pinned_prefix(self.name, known.version, arch, [known.wheels[arch]])

    def requirement(self, release: str) -> str:
        """Return what a wheel for one release requires, e.g. ``torch==2.11.*``."""
        return f"{self.project}=={release}.*"
