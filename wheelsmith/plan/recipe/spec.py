"""The content of a kernel's build.toml, independent of its edition."""

from __future__ import annotations

from dataclasses import dataclass, field

from wheelsmith.base.json_dataclass import Record
from wheelsmith.frameworks import framework
from wheelsmith.model import TORCH
from wheelsmith.platforms import CPU, platforms

BUILT_BACKENDS = (CPU, *platforms())


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding(Record):
    """The sources that register a kernel's operators with its framework: e.g. ``[torch]`` or ``[jax]``.

    :param stable_abi: backend → the oldest release of the framework that the binary supports.
    :param functions: the C functions of the library that the framework calls.
    :param pyext: suffixes of further files in the Python package.
    """

    src: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    pyext: tuple[str, ...] = ()
    minver: str | None = None
    maxver: str | None = None
    cxx_flags: tuple[str, ...] = ()
    stable_abi: dict[str, str] = field(default_factory=dict)
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Record):
    """A section ``[kernel.<name>]``: sources that share their flags.

    :param capabilities: compute capabilities that the sources support; None for those of the build.
    :param device_flags: flags for the platform's own compiler.
    :param toolkit_minver: the oldest toolkit that compiles the section; it is skipped for older ones.
    """

    name: str
    backend: str
    src: tuple[str, ...]
    depends: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()
    device_flags: tuple[str, ...] = ()
    capabilities: tuple[str, ...] | None = None
    toolkit_minver: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec(Record):
    """A kernel in kernel-builder layout.

    :param file: the path of its build.toml in the source.
    :param import_name: the package's name in the wheel; None for its own name.
    :param framework: the framework that calls it.
    :param binding: None for a kernel without compiled code.
    :param sections: the sections of the backends that wheelsmith builds.
    :param toolkit_bounds: platform → the oldest and the newest toolkit that the kernel supports.
    :param repo_id: the Hub repo that it is published as.
    :param python_depends: backend, or ``""`` for all → names from build.toml's allow-list.
    :param kernel_depends: backend, or ``""`` for all → Hub repos that the kernel needs at run time.
    :param set_requires: backend, or ``""`` for all → requirements on other kernels of the matrix file.
    """

    name: str
    edition: int
    version: int | None
    license: str | None
    backends: tuple[str, ...]
    upstream: str | None = None
    source: str | None = None
    framework: str = TORCH
    binding: Binding | None = None
    pyext: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    toolkit_bounds: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    import_name: str | None = None
    repo_id: str | None = None
    python_depends: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kernel_depends: dict[str, tuple[str, ...]] = field(default_factory=dict)
    set_requires: dict[str, tuple[str, ...]] = field(default_factory=dict)
    file: str = "build.toml"

    @property
    def only_backend(self) -> str | None:
        """The backend of all its wheels; None if there is more than one."""
        built = [backend for backend in self.backends if backend in BUILT_BACKENDS]
        return built[0] if len(built) == 1 else None

    @property
    def package(self) -> str:
        """The name of the Python package in the source: the kernel's name with underscores."""
        return self.name.replace("-", "_")

    @property
    def root(self) -> str:
        """The folder of the Python package in the source."""
        return f"{framework(self.framework).packages}/{self.package}"

    @property
    def module(self) -> str:
        """The name of the Python package in the wheel."""
        return self.import_name or self.package
