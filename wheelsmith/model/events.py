"""Events of a run as plain data. Only report/ and cli/ know that there is a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model.cell import Excluded
from wheelsmith.model.plan import BuildPlan, Folded
from wheelsmith.model.result import BuildResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Record):
    """The plans are ready. Nothing has run yet.

    :param kernel: the kernel's display name, e.g. ``kernels-community/activation @3f2c1ab``.
    :param folded: cell ID → the cell that it shares a wheel with; every other plan is a separate build.
    """

    kernel: str
    engine: str
    plans: tuple[BuildPlan, ...]
    excluded: tuple[Excluded, ...]
    folded: dict[str, Folded]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStarted(Record):
    """A cell left the queue."""

    cell_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStage(Record):
    """A cell entered a stage: ``fetch``, ``compile``, ``build``, ``repair``, ``check``, ``test`` or ``store``."""

    cell_id: str
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellProgress(Record):
    """``done`` of ``total`` steps are finished; ``step`` names the latest."""

    cell_id: str
    done: int
    total: int
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished(Record):
    """A phase of compilation has finished.

    :param step: the source file and the phase, e.g. ``csrc/add.cu: cicc 90``.
    :param kind: the compiler program of the phase, e.g. ``cicc``.
    :param seconds: wall time; 0 if the result was reused.
    :param cpu: CPU seconds, if the engine can measure them.
    :param peak_memory: bytes, if the engine can measure them.
    :param reused: True if the result came from the cache.
    """

    cell_id: str
    step: str
    kind: str
    seconds: float
    cpu: float | None
    peak_memory: int | None
    reused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandStarted(Record):
    """A command of a build has started; ``command`` is quoted for a shell and made safe for a terminal."""

    cell_id: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLine(Record):
    """One line of build output, made safe for a terminal."""

    cell_id: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFinished(Record):
    """A cell has its result."""

    result: BuildResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Record):
    """A download has made progress. Sizes are in bytes; ``total`` is 0 if unknown."""

    name: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing(Record):
    """A slow preparation for builds has started or ended.

    :param what: its description, e.g. ``choosing wheels for Python 3.12: torch==2.13.0, setuptools``.
    :param done: True once it has succeeded or failed.
    """

    what: str
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Record):
    """Resources that running tasks occupy: ``cores`` of ``all_cores``, and memory in bytes."""

    cores: int
    all_cores: int
    memory: int
    all_memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation(Record):
    """The expected cost of builds, from earlier runs.

    :param seconds: cell ID → seconds of one core; only builds with a known cost.
    """

    seconds: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Record):
    """A message for the user; ``level`` is ``info`` or ``warning``."""

    level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Record):
    """Every cell has its result, or the run was interrupted.

    :param seconds: wall time.
    :param compiled: number of compile phases that ran, without preprocessing.
    :param reused: number of compile phases that were reused.
    :param older_wheels: file names of kept wheels of an older source; None if the index was not written.
    """

    results: tuple[BuildResult, ...]
    excluded: tuple[Excluded, ...]
    interrupted: bool
    seconds: float
    compiled: int = 0
    reused: int = 0
    older_wheels: tuple[str, ...] | None = ()


Event = (
    RunStarted
    | CellStarted
    | CellStage
    | CellProgress
    | StepFinished
    | CommandStarted
    | CellLine
    | CellFinished
    | Transfer
    | Preparing
    | Load
    | Expectation
    | Notice
    | RunFinished
)
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Ignore the event."""
    del event


def log_notices(event: Event) -> None:
    """Log notices with the ``wheelsmith`` logger, for callers without a listener."""
    if isinstance(event, Notice):
        import logging

        logging.getLogger("wheelsmith").log(logging.getLevelNamesMapping()[event.level.upper()], event.text)
