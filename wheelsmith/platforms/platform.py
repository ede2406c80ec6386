"""The interface of a compute platform: its toolkits, compiler commands, names and devices."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import numbers
from wheelsmith.model import BuildHost, PrefixId, StepKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Record):
    """A GPU.

    :param capability: its compute capability, e.g. ``9.0``.
    :param uuid: its unique name, e.g. ``GPU-3f2a…``; empty if unknown.
    """

    name: str
    capability: str
    uuid: str = ""


class GpuMemory(NamedTuple):
    """The memory of a GPU, in bytes."""

    used: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver(Record):
    """An installed driver.

    :param version: the newest toolkit that it supports, e.g. ``13.0``; its own version if it supports every toolkit.
    """

    version: str
    gpus: tuple[Gpu, ...]


class Devices(ABC):
    """The GPUs of a platform and their drivers.

    :cvar compatibility_rule: the condition for a wheel to run in a framework built with another toolkit, for messages.
    """

    compatibility_rule: ClassVar[str]

    @abstractmethod
    def describe_driver(self, version: str | None) -> str:
        """Return a driver for display, e.g. ``a driver for CUDA up to 13.0``.

        :param version: as in ``Driver``; None for no driver.
        """

    def driver(self, variables: Mapping[str, str] | None = None) -> Driver | None:
        """Return the driver of this machine, or None.

        :param variables: the environment variables, which may hide GPUs; None for those of this process.
        """
        return None

    def variables(self, gpu: Gpu | None) -> dict[str, str]:
        """Return the environment variables that hide all GPUs except one from a process, or all of them."""
        return {}

    def memory(self) -> Mapping[str, GpuMemory]:
        """Return the memory of each GPU by its uuid. The result is empty if it cannot be read."""
        return {}

    def newest_toolkit(self, version: str) -> str | None:
        """Return the newest toolkit that a driver such as ``580.65.06`` supports, or None if it is too old."""
        return None

    def best_code(self, codes: Sequence[str], gpu: str) -> str | None:
        """Return the entry of a wheel's GPU code that a GPU runs, such as ``8.0`` or ``9.0+PTX``, or None."""
        return None

    def is_foreign(self, code: str, gpu: str) -> bool:
        """Return True if the driver must compile this code before the GPU can run it."""
        return False

    def why_refused(self, version: str, driver: str) -> str | None:
        """Return the reason why a driver cannot run code of a toolkit, or None.

        :param version: the toolkit's version.
        :param driver: the newest toolkit that the driver supports.
        :returns: a sentence that begins with *it*.
        """
        return None

    def why_not_compiled(self, version: str, driver: str, gpus: Sequence[str]) -> str | None:
        """Return the reason why a driver cannot compile a toolkit's intermediate code for GPUs, or None.

        :param version: the toolkit's version.
        :param driver: the newest toolkit that the driver supports.
        :param gpus: the compute capabilities of the GPUs.
        """
        return None

    def is_compatible(self, made: str, built: str) -> bool:
        """Return True if code from toolkit ``made`` runs in a framework that was built with toolkit ``built``."""
        return False

    def distance(self, version: str, requested: str) -> tuple[int, ...]:
        """Return a sort key for a toolkit that replaces the requested one; a smaller key needs fewer other changes.

        The first number is 0 to 2. By default it is the distance of the releases.
        """
        one, other = numbers(version), numbers(requested)
        return 1 + (one[0] != other[0]), abs(one[0] - other[0]), abs(one[1] - other[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit(Record):
    """A release of a platform's compilers and libraries.

    :param version: as on an axis of matrix.yaml, e.g. ``13.0``.
    :param cxx_std: the oldest C++ standard in which its compilers accept torch's headers, e.g. 17.
    :param capabilities: all GPU architectures that it can compile for, e.g. ``7.5``, ``9.0``, ``9.0a``.
    :param default_capabilities: used if the matrix names none, e.g. ``8.0``, ``12.0+PTX``.
    :param static_runtime: its packages contain the static runtime library.
    """

    version: str
    cxx_std: int
    capabilities: tuple[str, ...]
    default_capabilities: tuple[str, ...]
    static_runtime: bool = True
    source: str
    date: str

    @property
    def prefers_image(self) -> bool:
        """True if the toolkit of an image is preferred, although packages provide it."""
        return False


def read_toolkits(package: str, facts: str) -> dict[str, Toolkit]:
    """Return the toolkits of a facts file that have no properties of their own, by ``major.minor``, oldest first."""
    return {item["version"]: Toolkit.from_json(item) for item in read_facts(package, facts)["toolkits"]}


class NotInstalledError(Exception):  # the reason why a cell is excluded
    """An image or a machine does not have the toolkit. The message names the toolkit that it has instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCompile:
    """The compilation of a source file with GPU code.

    :param home: the toolkit's folder in the sandbox.
    :param cxx: the host compiler.
    :param gcc: the folder of GCC's libraries if the host compiler is pinned; None for compilers of the machine.
    :param cxx_std: the C++ standard, as in ``-std=c++17``.
    :param include: compiler arguments for the header folders, in order.
    :param flags: the kernel's own compiler flags.
    """

    home: str
    cxx: str
    gcc: str | None
    cxx_std: int
    defines: tuple[str, ...]
    capabilities: tuple[str, ...]
    own_include: tuple[str, ...]
    include: tuple[str, ...]
    flags: tuple[str, ...]
    source: str
    output: str


class Platform(ABC):
    """A compute platform.

    Only its own module and facts file depend on its name.

    :cvar name: the name of kernel-builder's backend and of the axis in matrix.yaml.
    :cvar title: the display name.
    :cvar compute_shape: the pattern of its names in versions and index roots.
    :cvar version_pattern: the pattern of a toolkit's version. It must make the name of a compute platform unambiguous.
    :cvar device_suffixes: the file suffixes of sources that its compiler compiles.
    :cvar step_kind: the kind of the steps that compile them.
    :cvar translates_cuda: every source, also of the host, is translated from CUDA before it is compiled.
    :cvar is_packaged: its toolkits are assembled from packages; otherwise the machine or an image must have one.
    :cvar compiles: wheelsmith calls its compiler. Otherwise only kernels without compiled code have wheels for it.
    :cvar builds_projects: it builds projects with their own build system, too.
    :cvar mount_point: the mount point of its toolkit.
    :cvar home_variable: the environment variable with the folder of a toolkit on the machine.
    :cvar section_keys: keys in sections of build.toml: compiler flags, capabilities, oldest toolkit ("" for no key).
    :cvar capability_prefix: the start of the names of its GPU architectures.
    :cvar devices: the devices that run its code.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    compute_shape: ClassVar[str]
    version_pattern: ClassVar[re.Pattern[str]]
    device_suffixes: ClassVar[tuple[str, ...]] = ()
    step_kind: ClassVar[StepKind]
    translates_cuda: ClassVar[bool] = False
    is_packaged: ClassVar[bool] = True
    compiles: ClassVar[bool] = True
    builds_projects: ClassVar[bool] = True
    mount_point: ClassVar[str]
    home_variable: ClassVar[str] = ""
    section_keys: ClassVar[tuple[str, str, str]]
    capability_prefix: ClassVar[str] = ""
    devices: ClassVar[Devices]

    @abstractmethod
    def toolkits(self) -> Mapping[str, Toolkit]:
        """Return every known toolkit by its ``major.minor``, oldest first."""

    def version_of(self, compute: str) -> str | None:
        """Return the version in the name of a compute platform, ``7.2`` for ``rocm7.2``; None for other platforms."""
        version = compute.removeprefix(self.name)
        return version if version != compute and self.version_pattern.fullmatch(version) else None

    def prefix(self, toolkit: str, machine: str, arch: str) -> PrefixId:
        """Return the ID of the toolkit that runs on ``machine`` and compiles for ``arch``."""
        raise NotImplementedError

    def headers(self, toolkit: str) -> tuple[PrefixId, ...]:
        """Return the IDs of further headers that a project gets, in addition to the toolkit's own."""
        return ()

    def library_requirements(self, toolkit: str) -> tuple[str, ...]:
        """Return the requirements for the toolkit's libraries, for a project that does not get those of torch."""
        return ()

    def find_installed(self, toolkit: str, host: BuildHost) -> tuple[str, PrefixId]:
        """Return the folder in the sandbox of the toolkit of an image or of the machine, and its ID.

        :raises NotInstalledError: there is no toolkit or another one.
        """
        found = host.toolkits.get(self.name)
        if found is None or found.version != toolkit:
            there = f"{self.title} {found.version} at {found.home}" if found else f"no {self.title} toolkit"
            raise NotInstalledError(there)
        kind = f"{'image' if host.image else 'machine'}-{self.name}"
        prefix = PrefixId(kind=kind, version=found.release, arch=host.machine, digest=found.digest)
        return found.home if host.image else self.mount_point, prefix

    def command(self, step: DeviceCompile) -> tuple[str, ...]:
        """Return the command that compiles a source file."""
        raise NotImplementedError

    def runtime(self, toolkit: str, home: str, *, preloaded: bool) -> tuple[str, ...]:
        """Return the linker arguments for the runtime library.

        :param preloaded: the framework loads the runtime, so that it is linked dynamically.
        """
        raise NotImplementedError

    def variables(self, home: str, capabilities: tuple[str, ...]) -> dict[str, str]:
        """Return the environment variables that give a project's build system the toolkit and the capabilities."""
        return {}

    def select_capabilities(
        self, written_for: tuple[str, ...] | None, requested: tuple[str, ...], toolkit: str
    ) -> tuple[str, ...]:
        """Return the capabilities to compile for, ascending.

        :param written_for: the capabilities that the sources support; None for any.
        :param requested: the capabilities that the build requests.
        """
        raise NotImplementedError

    def lacking_capabilities(self, written_for: tuple[str, ...], toolkit: str) -> dict[str, str]:
        """Return the capabilities of a list that a toolkit cannot compile for: capability → its description."""
        return {}

    def without_capabilities(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a compiler command without the arguments that select capabilities."""
        raise NotImplementedError

    def includes_code(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Return True if code for ``one`` includes all code for ``other``."""
        raise NotImplementedError

    def check_capability(self, text: str) -> None:
        """Validate a capability.

        :raises ValueError: it is malformed; the message shows the correct form.
        """
        raise ValueError(f"{text!r} is no architecture of {self.title}")

    def is_capability(self, text: str) -> bool:
        """Return True if a text is a GPU architecture of this platform."""
        try:
            self.check_capability(text)
        except ValueError:
            return False
        return True

    def capability_order(self, capability: str) -> tuple[object, ...]:
        """Return a sort key for a capability."""
        raise NotImplementedError

    def compute(self, version: str) -> str:
        """Return the name of the compute platform in versions and index roots, ``rocm7.2`` for ``7.2``."""
        return self.name + version

    def torch_build(self, version: str) -> str:
        """Return the name of torch's build for a toolkit, in torch's version and in its index."""
        return self.compute(version)

    def base_capability(self, capability: str) -> str:
        """Return a capability in the form that toolkits list."""
        return capability

    def why_impossible(self, toolkit: str) -> str | None:
        """Return the reason why nothing can be compiled with a toolkit, or None."""
        if toolkit in self.toolkits():
            return None
        return f"{self.title} {toolkit} is not known: wheelsmith knows {self.title} {', '.join(self.toolkits())}"
