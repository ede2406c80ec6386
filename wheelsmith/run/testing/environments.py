"""The environments of tests: shared packages, and a fresh environment for each wheel."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from threading import Event
from typing import Protocol

from installer.scripts import Script
from installer.utils import make_file_executable
from packaging.requirements import Requirement

from wheelsmith.base.errors import MachineError, PackageIndexError
from wheelsmith.base.files import run_for_json
from wheelsmith.base.offline import is_offline
from wheelsmith.engine import last_line
from wheelsmith.frameworks import framework, torch_index
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.pick.machine import Machine, probe_machine
from wheelsmith.index.resolve.install_commands import Presence, framework_slots, join_url, torch_compute
from wheelsmith.index.resolve.target import ParsedWheel, Target
from wheelsmith.model import NO_FRAMEWORK, TORCH, Listener, LockedWheel
from wheelsmith.platforms import CPU, Gpu, compute_name
from wheelsmith.run.testing.command import has_installed, make_environment, prefer_installed, site_packages
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.pip import PipSettings
from wheelsmith.toolchain.uv import install_into, uv_reason

_SHARED = "wheelsmith-shared.pth"
# The folders that .pth files add are in sys.path, too.
_LIST_PACKAGES = """
import importlib.metadata, json, sys, sysconfig
own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
folders = [each for each in sys.path if each not in own and not each.endswith((".zip", "lib-dynload"))]
found = importlib.metadata.distributions(path=folders)
print(json.dumps([folders, sorted({f"{each.metadata['Name']} {each.version}" for each in found})]))
"""


class ObstacleError(MachineError):
    """A wheel cannot be tested on this machine or in an existing environment."""


class BaseEnvironment(Protocol):
    """Packages that several tests share."""

    @property
    def python(self) -> str:
        """Return the interpreter that they are for."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the names of all packages, with their versions or hashes."""

    def folders(self) -> tuple[Path, ...]:
        """Return the folders to import from, in order. Make them first if they do not exist."""

    def add_programs(self, environment: Path) -> None:
        """Add the programs of the packages, such as pytest, to the environment of a test. They run with its Python."""

    def variables(self, scratch: Path) -> dict[str, str]:
        """Return environment variables for tests, which must not write bytecode beside the shared packages.

        :param scratch: a folder of the run.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedEnvironment:
    """Exact wheels, installed once in a read-only folder of the cache. See ``BaseEnvironment``."""

    python: str
    wheels: tuple[LockedWheel, ...]
    version: str
    arch: str
    toolchains: Toolchains = field(compare=False, repr=False)

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the name and the sha256 of each wheel."""
        return tuple(f"{wheel.name} {wheel.sha256}" for wheel in self.wheels)

    def folders(self) -> tuple[Path, ...]:
        """Return the folder with all wheels."""
        return (self.toolchains.environment(self.wheels, self.version, self.arch),) if self.wheels else ()

    def add_programs(self, environment: Path) -> None:
        """Link the programs, which search PATH for their Python."""
        for folder in self.folders():
            for program in (folder / "bin").glob("*"):
                with suppress(FileExistsError):
                    (environment / "bin" / program.name).symlink_to(program)

    def variables(self, scratch: Path) -> dict[str, str]:
        """Let the tests of a run share their bytecode: compiling that of torch takes ten seconds."""
        return {"PYTHONPYCACHEPREFIX": str(scratch / "bytecode")}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledEnvironment:
    """The packages of an existing Python. See ``BaseEnvironment``."""

    python: str
    packages: tuple[str, ...]
    paths: tuple[Path, ...]

    def folders(self) -> tuple[Path, ...]:
        """Return its folders with packages."""
        return self.paths

    def add_programs(self, environment: Path) -> None:
        """Write programs, because the existing ones run with the existing Python, which has no wheel to test."""
        folder = environment / "bin"
        found = distributions(path=[str(path) for path in self.paths])
        for entry in (entry for each in found for entry in each.entry_points.select(group="console_scripts")):
            script = Script(entry.name, entry.module, entry.attr, "console")
            name, content = script.generate(str(folder / "python"), "posix")
            with suppress(FileExistsError), (folder / name).open("xb") as file:
                file.write(content)
                make_file_executable(folder / name)

    def variables(self, scratch: Path) -> dict[str, str]:
        """Use the bytecode that is there, and add none."""
        del scratch
        return {"PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentResolver:
    """Chooses the wheels of environments with uv, from pip's indexes and torch's own.

    :param pythons: version → program.
    :param requirements: further requirements, for the tests.
    :param base: address of the index with the tested wheels, with a trailing slash; may contain a password.
    """

    pythons: Mapping[str, str]
    requirements: tuple[str, ...]
    base: str = field(repr=False)
    cache: Path
    listen: Listener
    cancel: Event

    def choose(self, parsed: ParsedWheel, target: Target) -> ResolvedEnvironment:
        """Choose the wheels for a test.

        :raises NoEnvironmentError: the requirements cannot be resolved.
        """
        others = parsed.other_requirements(target.framework)
        wanted: tuple[str, ...] = (*others, *self.requirements)
        preferred: tuple[str, ...] = ()
        # Another kernel that the wheel requires may be on the same index.
        indexes: tuple[str, ...] = (f"{self.base}{target.compute}/",) if others else ()
        if target.framework != NO_FRAMEWORK:
            slots = framework_slots([parsed], target, Presence.ABSENT, torch_index())
            wanted = (slots["framework_release"], *wanted, *framework(target.framework).test_requirements)
            preferred = (slots["framework"],) if slots["framework"] != slots["framework_release"] else ()
            indexes += (slots["torch_index"],) if framework(target.framework).builds_per_compute else ()
        toolchains = Toolchains(self.cache, self.listen, self.cancel, indexes=() if is_offline() else indexes)
        python = target.python_minor
        wheels = toolchains.lock(wanted, python, target.arch, preferred) if wanted else ()
        return ResolvedEnvironment(
            python=self.pythons[python], wheels=wheels, version=python, arch=target.arch, toolchains=toolchains
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledChooser:
    """Chooses the packages of an existing Python for the tests that they suit."""

    machine: Machine
    environment: InstalledEnvironment

    @classmethod
    def inspect(cls, python: str) -> InstalledChooser:
        """Inspect a Python.

        :raises MachineError: it does not work.
        """
        machine = probe_machine(python)
        listed = run_for_json([machine.python, "-I", "-c", _LIST_PACKAGES])
        if listed is None:
            raise MachineError(f"the packages of {machine.python} cannot be listed", remedy="choose another Python")
        paths, packages = listed
        found = InstalledEnvironment(
            python=machine.python, packages=tuple(packages), paths=tuple(Path(path) for path in paths)
        )
        return cls(machine=machine, environment=found)

    def choose(self, parsed: ParsedWheel, target: Target) -> InstalledEnvironment:
        """Return the environment if it suits a test.

        :raises ObstacleError: it has another version of the framework.
        """
        if reason := why_unsuitable(self.machine, parsed, target):
            raise ObstacleError(f"{self.machine.python} {reason}")
        return self.environment


def why_unsuitable(machine: Machine, parsed: ParsedWheel, target: Target) -> str | None:
    """Return the reason that an environment is not the one of a target, or None.

    :return: a predicate, e.g. ``has torch 2.12.0+cu130, not 2.11``.
    """
    if machine.minor != target.python_minor:
        return f"is Python {machine.minor}, not {target.python_minor}"
    return _why_other_framework(machine, parsed, target) if target.framework != NO_FRAMEWORK else None


def framework_version(machine: Machine, name: str) -> str | None:
    """Return the installed version of a framework, or None."""
    return machine.torch if name == TORCH else machine.frameworks.get(name)


def _why_other_framework(machine: Machine, parsed: ParsedWheel, target: Target) -> str | None:
    name, own = target.framework, framework(target.framework)
    version = framework_version(machine, name)
    if version is None:
        return f"has no {name} {target.release}"
    if not Requirement(own.requirement(target.release)).specifier.contains(version, prereleases=True):
        return f"has {name} {version}, not {target.release}"
    # A CPU wheel may be tested with any build, because the test sees no GPU.
    if own.builds_per_compute and target.compute != CPU:
        expected, found = torch_compute(target, parsed), machine.torch_compute or CPU
        if found != expected:
            return f"has {name} {version} for {compute_name(found)}, not {compute_name(expected)}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshEnvironments:
    """Makes an environment for each test, with the tested wheel and the packages of a base environment.

    :param base: address of the index, with a trailing slash; may contain a password.
    :param cache: the cache of uv.
    :param scratch: a folder of the run, on the file system of the cache, so that uv can link files.
    """

    base: str = field(repr=False)
    settings: PipSettings
    cache: Path
    scratch: Path
    cancel: Event

    @contextmanager
    def environment(self, wheel: IndexEntry, base: BaseEnvironment) -> Iterator[Path]:
        """Yield the environment, and remove it afterwards.

        :raises PackageIndexError: the wheel cannot be installed, or its sha256 is not that of the index.
        """
        shared = base.folders()
        with tempfile.TemporaryDirectory(dir=self.scratch, prefix="test-", ignore_cleanup_errors=True) as folder:
            environment = Path(folder, "environment")
            make_environment(base.python, environment)
            packages, *_ = site_packages(environment)  # lib64 may be a link to lib
            (packages / _SHARED).write_text("".join(f"{each}\n" for each in shared), encoding="utf-8")
            self._install(wheel, environment)
            prefer_installed(environment, wheel.project)
            base.add_programs(environment)
            yield environment

    def _install(self, wheel: IndexEntry, environment: Path) -> None:
        address = f"{wheel.project} @ {join_url(self.base, wheel.url)} --hash=sha256:{wheel.sha256}"
        completed = install_into(environment, address, settings=self.settings, cache=self.cache, cancel=self.cancel)
        if completed.returncode:
            raise PackageIndexError(
                f"{wheel.filename} cannot be installed: {uv_reason(completed.stderr)}",
                remedy="compare the files with the index: wheelsmith index verify, or wheelsmith index doctor URL",
            )
        if not has_installed(environment, wheel.project, wheel.version):
            raise PackageIndexError(
                f"{wheel.filename} has another version than its file name", remedy="build and publish it again"
            )


def verify_environment(
    environment: Path, variables: Mapping[str, str], wheel: IndexEntry, target: Target, gpu: Gpu | None
) -> Machine:
    """Require that an environment has the Python, the framework and the GPU of a test.

    :param variables: the environment variables of the test.
    :param gpu: the only GPU that the test may see.
    :raises MachineError: it has others.
    """
    machine = probe_machine(str(environment), variables)
    if reason := why_unsuitable(machine, ParsedWheel(wheel), target):
        raise MachineError(
            f"the test environment {reason}",
            remedy="no result is recorded; give pip an index with this build of the framework",
        )
    if machine.gpus != ((gpu,) if gpu else ()):
        raise MachineError(
            f"the test environment sees {_list_gpus(machine.gpus)}, not {_list_gpus([gpu] if gpu else [])}",
            remedy="no result is recorded; check the driver: nvidia-smi",
        )
    return machine


def require_import(environment: Path, variables: Mapping[str, str], name: str) -> None:
    """Require that a framework can be imported. Otherwise a failed test says nothing about the wheel.

    :raises MachineError: it cannot.
    """
    if name == NO_FRAMEWORK:
        return
    command = f"import {name.replace('-', '_')}"
    argv = (environment / "bin" / "python", "-c", command)
    ended = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise MachineError(
            f"{command!r} fails in the test environment: {last_line(ended.stderr)}",
            remedy="no result is recorded; repair the environment of the framework",
        )


def _list_gpus(gpus: Iterable[Gpu]) -> str:
    return ", ".join(f"{gpu.name} {gpu.uuid}" for gpu in gpus) or "no GPU"
