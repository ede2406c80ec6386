"""What every engine can do, and nothing more: say whether it works, name its compilers, run one command."""

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
    """What one command may use.

    :param memory: bytes for the whole process tree; None leaves it open.
    :param reserved: bytes that were set aside for it, which are less.
    :param cpus: cores' worth of time.
    :param pids: processes and threads at once.
    :param seconds: wall time.
    :param output: bytes of log.
    :param disk: bytes that may be written under the work folder.
    """

    memory: int | None = None
    reserved: int | None = None
    cpus: float | None = None
    pids: int = 4096
    seconds: float = 3600.0
    output: int = 64 * 2**20
    disk: int = 16 * 2**30

    @property
    def counted_memory(self) -> int | None:
        """Return the bytes that a tree is held to."""
        return min((most for most in (self.memory, self.reserved) if most), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host path that the command sees at ``target``; read-only unless ``writable``."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command to run in a sandbox with no network.

    :param name: deterministic for a cell; containers are called so.
    :param argv: a list, never a shell string; paths are those inside.
    :param env: the whole environment but PATH, HOME and TMPDIR, which the engine sets, and what an image declares;
        nothing of wheelsmith's own is inherited.
    :param path: folders inside that come before the engine's own PATH.
    :param python: the Python, ``major.minor``, whose ``python3.X`` must be on PATH; None needs only ``python3``.
    :param image: the image to run in, for engines that have images.
    :param brings_compilers: an engine that shows this machine's programs hides what they compile and link with.
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


class Ending(StrEnum):
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
    """How a command ended.

    :param seconds: of wall time.
    :param peak_memory: bytes, where the engine can tell.
    :param cpu: seconds that cores spent on it, where the engine can tell.
    """

    ending: Ending
    code: int
    seconds: float
    peak_memory: int | None = None
    cpu: float | None = None

    @property
    def ok(self) -> bool:
        """Say whether the command did what it should."""
        return self.ending is Ending.EXITED and self.code == 0


class TreeLimits(Protocol):
    """Holds one process tree to its limits, and says what it used."""

    def wrap(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that takes the limits on and becomes ``argv``."""

    def watch(self, pid: int) -> bool:
        """Return whether the tree of a process may go on; asked many times a second."""

    def out_of_memory(self) -> bool:
        """Return whether it was ended, or should be, for its memory."""

    def peak_memory(self) -> int | None:
        """Return the most bytes it held at once, or None where nobody counted."""

    def cpu_seconds(self) -> float | None:
        """Return the time that cores spent on it, or None where nobody counted."""

    def kill(self) -> None:
        """Kill whatever of it is left."""

    def remove(self) -> None:
        """Remove what was made to hold it."""


class Readiness(StrEnum):
    """What ``probe`` tells apart."""

    READY = "ready"
    MISSING = "missing"
    NOT_RUNNING = "not-running"
    TOO_OLD = "too-old"
    NOT_PERMITTED = "not-permitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Whether an engine works here.

    :param remedy: the command that fixes it, when it is not ready.
    """

    readiness: Readiness
    version: str | None = None
    detail: str = ""
    remedy: str | None = None


class Engine(Protocol):
    """Somewhere to run a command that nobody trusts.

    ``has_images`` says whether cells run in container images or see this machine's own programs. ``isolates`` says
    whether commands see nothing but their mounts, without which what they leave proves nothing for others.
    ``starts_at_once`` says whether a command starts in milliseconds, so that many small ones cost no more than one.
    ``isolation`` says in words what it protects from.
    """

    name: str
    isolation: str
    has_images: bool
    isolates: bool
    starts_at_once: bool

    def probe(self) -> Probe:
        """Say whether the engine works, in at most a second."""

    def build_host(self, image: str | None) -> BuildHost:
        """Say what there is to build with.

        :param image: a recipe's name or a reference; None takes the default, and is all that an engine without
            images knows.
        :raises EngineError: there is no such image, or it is not fit for building.
        """

    def tidy(self) -> None:
        """Remove what dead runs left; called once, before a run builds anything."""

    def run(self, command: Command, on_line: Callable[[str], None], cancel: Event) -> Exit:
        """Run a command to its end.

        :param on_line: is called in the calling thread with each line of output, without its newline,
            control characters made visible.
        :param cancel: when set, the whole process tree is killed.
        :raises EngineError: the engine itself does not work. A command that fails is an ``Exit``.
        """

    def enter(self, command: Command) -> int:
        """Run a command on this terminal, for a person, and return its exit code."""
