"""What a compute platform is here: what a kernel's GPU code is compiled with, and how it is named everywhere."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import BuildHost, PrefixId


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Record):
    """One GPU; its capability is ``9.0``."""

    name: str
    capability: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver(Record):
    """A driver that is installed.

    :param version: the newest toolkit that it supports, e.g. ``13.0``.
    """

    version: str
    gpus: tuple[Gpu, ...]


class Devices(Protocol):
    """The GPUs of one platform and their drivers.

    :cvar beside: when a wheel for one toolkit runs on a framework built with another, as people say it.
    """

    beside: ClassVar[str]

    def driver(self) -> Driver | None:
        """Return what this machine has; None where it has none."""

    def best_code(self, codes: Sequence[str], gpu: str) -> str | None:
        """Return which of a wheel's code a GPU runs, as ``8.0`` or ``9.0+PTX``; None when none of it."""

    def is_foreign(self, code: str, gpu: str) -> bool:
        """Say whether a driver must compile this code for a GPU before it runs."""

    def why_refused(self, version: str, driver: str) -> str | None:
        """Say why a driver runs nothing that a toolkit made, in a sentence that begins with *it*; None where it does.

        :param driver: the newest toolkit that it supports.
        """

    def why_not_compiled(self, version: str, driver: str, gpus: Sequence[str]) -> str | None:
        """Say why a driver cannot compile what a toolkit left to it, as above.

        :param gpus: the capabilities that it would be for.
        """

    def runs_beside(self, made: str, built: str) -> bool:
        """Say whether what one toolkit made runs in a framework that was built with another."""

    def distance(self, version: str, asked: str) -> tuple[int, ...]:
        """Order toolkits by how much else must change where another one was asked for; the first number is 0 to 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit(Record, ABC):
    """A release of a platform's compilers and libraries.

    :param version: ``13.0``: what an axis of matrix.yaml names.
    :param cxx_std: the oldest C++ standard in which its compilers take torch's headers, e.g. 17.
    :param capabilities: every kind of GPU that it makes code for, e.g. ``7.5``, ``9.0``, ``9.0a``.
    :param default_capabilities: what is built when nobody says, e.g. ``8.0``, ``12.0+PTX``.
    :param static_runtime: what it is assembled from has the runtime to link in.
    """

    version: str
    cxx_std: int
    capabilities: tuple[str, ...]
    default_capabilities: tuple[str, ...]
    static_runtime: bool = True
    source: str
    date: str

    @property
    @abstractmethod
    def assembled(self) -> bool:
        """Say whether packages have all of it."""

    @property
    @abstractmethod
    def rather_of_image(self) -> bool:
        """Say whether that of an image is taken where it has one, although it can be assembled."""


class NotInImageError(Exception):  # it becomes the reason why a cell is excluded
    """An image lacks a toolkit; the message says what it has instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCompile:
    """A source with GPU code, and how it is compiled.

    :param home: where the toolkit lies inside the sandbox.
    :param cxx: the compiler for what runs on the CPU.
    :param cxx_std: the C++ standard's year.
    :param include: words that name the folders of headers, in order.
    :param flags: the kernel's own.
    """

    home: str
    cxx: str
    cxx_std: int
    defines: tuple[str, ...]
    capabilities: tuple[str, ...]
    own_include: tuple[str, ...]
    include: tuple[str, ...]
    flags: tuple[str, ...]
    source: str
    output: str


class Platform(Protocol):
    """One compute platform; its module and its facts are all that is known of it by name.

    :cvar name: as kernel-builder's backends are called, and an axis of matrix.yaml.
    :cvar title: as people write it.
    :cvar word: what its names in versions, in variants and in an index's roots begin with.
    :cvar shape: of a toolkit's version, so that a name of a compute platform is of one version alone.
    :cvar device_suffix: of sources that its own compiler takes.
    :cvar place: where its toolkit is mounted.
    :cvar section_keys: keys of build.toml's sections: flags for its compiler, capabilities, the oldest toolkit.
    :cvar devices: what runs its code.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    word: ClassVar[str]
    shape: ClassVar[re.Pattern[str]]
    device_suffix: ClassVar[str]
    place: ClassVar[str]
    section_keys: ClassVar[tuple[str, str, str]]
    devices: ClassVar[Devices]

    def toolkits(self) -> Mapping[str, Toolkit]:
        """Return every known toolkit by its ``major.minor``, oldest first."""

    def version_of(self, compute: str) -> str | None:
        """Return the version of a compute platform of its own, ``13.0`` of ``cu130``; None of anything else."""

    def prefix(self, toolkit: str, machine: str, arch: str) -> PrefixId:
        """Name the toolkit that compiles on ``machine`` for ``arch``, by what it is made from."""

    def headers(self, toolkit: str) -> tuple[PrefixId, ...]:
        """Name the headers that a project is given beside those of a toolkit's own prefix."""

    def made_on(self, toolkit: str, machine: str) -> bool:
        """Say whether a toolkit for a machine can be assembled."""

    def of_image(self, toolkit: str, host: BuildHost) -> tuple[str, PrefixId]:
        """Return the place of the toolkit in an image, and its name.

        :raises NotInImageError: the image has none, or another one.
        """

    def command(self, step: DeviceCompile) -> tuple[str, ...]:
        """Return the command that compiles one source."""

    def runtime(self, toolkit: str, home: str, *, brought: bool) -> tuple[str, ...]:
        """Return the words that link an extension with its runtime.

        :param brought: whoever loads the extension has loaded it.
        """

    def variables(self, home: str, capabilities: tuple[str, ...]) -> dict[str, str]:
        """Return what tells a project's build system of the toolkit, and which code to make."""

    def covers(self, written_for: tuple[str, ...] | None, requested: tuple[str, ...], toolkit: str) -> tuple[str, ...]:
        """Return the capabilities that sources are compiled for, ascending.

        :param written_for: what they were written for; None takes what is requested as it is.
        """

    def without_capabilities(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command without what says for which capabilities it makes code."""

    def covers_code_of(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Say whether code for some capabilities is all that code for others is."""

    def check_capability(self, text: str) -> None:
        """Refuse what is no kind of GPU.

        :raises ValueError: it says what it should be.
        """

    def compute(self, version: str) -> str:
        """Return ``cu130`` of ``13.0``."""
        return self.word + version.replace(".", "")

    def plain(self, capability: str) -> str:
        """Return a capability as toolkits list it."""
        return capability

    def why_impossible(self, toolkit: str, image: str | None) -> str | None:
        """Say why nothing can be compiled with a toolkit; None where it can.

        :param image: the container image that is asked for.
        """
        found = self.toolkits().get(toolkit)
        if found is None:
            return f"{self.title} {toolkit} is not known: wheelsmith knows {self.title} {', '.join(self.toolkits())}"
        if not found.assembled and image is None:
            return (
                f"{self.title} {toolkit} is not complete on the package index, so it must come from an image: "
                f"set image in a rule for these cells{self._stand_in(toolkit)}"
            )
        return None

    def _stand_in(self, toolkit: str) -> str:
        """Name an older minor that needs no image."""
        major = toolkit.partition(".")[0]
        older = [v for v, known in self.toolkits().items() if known.assembled and v.partition(".")[0] == major]
        return f", or have {self.title} {older[-1]} answer (cuda-compatibility: oldest-minor)" if older else ""
