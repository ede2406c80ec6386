"""The interface of all engines: probe the engine, survey its compilers, and run one command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import Protocol

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import BuildHost, ImageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Record):
    """Limits on the resources of one command.

    :param memory: bytes for all processes together; None is no limit.
    :param reserved: bytes that the scheduler reserved for the command, fewer than ``memory``.
    :param cpus: number of cores, may be fractional.
    :param pids: processes and threads at the same time.
    :param seconds: wall time.
    :param output: bytes of log.
    :param disk: bytes that may be written to the writable folders.
    """

    memory: int | None = None
    reserved: int | None = None
    cpus: float | None = None
    pids: int = 4096
    seconds: float = 3600.0
    output: int = 64 * 2**20
    disk: int = 16 * 2**30

    @property
    def effective_memory(self) -> int | None:
        """Return the effective memory limit in bytes, or None."""
        return min((limit for limit in (self.memory, self.reserved) if limit), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host path that is mounted at ``target`` in the sandbox, read-only unless ``writable``."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to run in a sandbox without a network.

    :param name: name of the container; the same for each build of a cell.
    :param argv: program and arguments, with paths inside the sandbox.
    :param env: environment variables. The engine adds PATH, HOME and TMPDIR, and an image adds its own variables. The
        command inherits nothing from wheelsmith's environment.
    :param path: folders inside the sandbox to put before the engine's own PATH.
    :param python: ``major.minor`` of the Python that must be on PATH as ``python3.X``; None requires only ``python3``.
    :param image: the image to run in; None for engines without images.
    :param brings_compilers: the mounts contain compilers. An engine without images then hides the machine's compilers,
        headers and pkg-config files.
    """

    name: str
    argv: tuple[str, ...]
    mounts: tuple[Mount, ...]
    env: dict[str, str]
    workdir: str
    limits: Limits
    path: tuple[str, ...] = ()
    python: str | None = None
    image: ImageId | None = None
    brings_compilers: bool = False


class ExitReason(StrEnum):
    """Why a command stopped."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    TOO_MUCH_OUTPUT = "too-much-output"
    DISK_FULL = "disk-full"
    TOO_MANY_PROCESSES = "too-many-processes"
    CANCELLED = "cancelled"
    KILLED = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The result of a command.

    :param seconds: wall time.
    :param peak_memory: bytes; None if the engine cannot measure it.
    :param cpu: CPU seconds; None if the engine cannot measure them.
    """

    reason: ExitReason
    code: int
    seconds: float
    peak_memory: int | None = None
    cpu: float | None = None

    @property
    def ok(self) -> bool:
        """Return True if the command exited with code 0."""
        return self.reason is ExitReason.EXITED and self.code == 0


class TreeLimits(Protocol):
    """Enforces the limits of one process tree and measures its use."""

    def wrap(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that applies the limits to itself and then executes ``argv``."""

    def watch(self, pid: int) -> bool:
        """Return True while the process tree stays within its limits. Called many times a second."""

    def out_of_memory(self) -> bool:
        """Return True if the tree exceeded its memory limit."""

    def peak_memory(self) -> int | None:
        """Return the peak memory in bytes, or None if it was not measured."""

    def cpu_seconds(self) -> float | None:
        """Return the CPU time in seconds, or None if it was not measured."""

    def kill(self) -> None:
        """Kill all remaining processes of the tree."""

    def remove(self) -> None:
        """Remove the control groups that were created for the tree."""


class Readiness(StrEnum):
    """The results of ``Engine.probe``."""

    READY = "ready"
    MISSING = "missing"
    NOT_RUNNING = "not-running"
    TOO_OLD = "too-old"
    NOT_PERMITTED = "not-permitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The state of an engine on this machine.

    :param remedy: a command or instruction that fixes the problem; None if the engine is ready.
    """

    readiness: Readiness
    version: str | None = None
    detail: str = ""
    remedy: str | None = None


class Engine(Protocol):
    """Runs untrusted commands.

    :param isolation: description of the isolation for users.
    :param has_images: True if commands run in container images, False if they use this machine's programs.
    :param isolates: True if commands can access only their mounts. Without isolation, other builds must not reuse the
        output of a command.
    :param starts_fast: True if a command starts in milliseconds, so that many short commands cost no more than one.
    """

    name: str
    isolation: str
    has_images: bool
    isolates: bool
    starts_fast: bool

    def probe(self) -> Probe:
        """Return the state of the engine, within one second."""

    def build_host(self, image: str | None) -> BuildHost:
        """Return the compilers and Pythons that commands can use.

        :param image: name of a recipe or image reference; None is the default image. Engines without images ignore it.
        :raises EngineError: the image does not exist or cannot build anything.
        """

    def tidy(self) -> None:
        """Remove leftovers of crashed runs. Called once before a run builds anything."""

    def run(self, command: Command, on_line: Callable[[str], None], cancel: Event) -> Exit:
        """Run a command and wait for its end.

        :param on_line: called in the calling thread for each line of output, without the newline and with control
            characters escaped.
        :param cancel: kills all processes of the command when set.
        :raises EngineError: the engine itself failed. A failed command is an ``Exit``.
        """

    def enter(self, command: Command) -> int:
        """Run a command interactively on this terminal and return its exit code."""
