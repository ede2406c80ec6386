"""What happens during a run, told as data. Only report/ and cli/ know that there is a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model.cell import Excluded
from wheelsmith.model.plan import BuildPlan, Folded
from wheelsmith.model.result import BuildResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Record):
    """The plans are made; nothing has run yet.

    :param kernel: the kernel as people name it, e.g. ``kernels-community/activation @3f2c1ab``.
    :param folded: cell id → whose wheel it shares; every other plan is a build of its own.
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
    """``done`` of ``total`` steps are finished; ``step`` names the newest."""

    cell_id: str
    done: int
    total: int
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished(Record):
    """A phase of compiling is done.

    :param step: the source and the phase: ``csrc/add.cu: cicc 90``.
    :param kind: the compiler's part in it: ``cicc``.
    :param seconds: of wall time; 0 when it was made before.
    :param cpu: seconds of cores, where the engine can tell.
    :param peak_memory: bytes, where the engine can tell.
    """

    cell_id: str
    step: str
    kind: str
    seconds: float
    cpu: float | None
    peak_memory: int | None
    reused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLine(Record):
    """One line that the build printed, made safe for a terminal."""

    cell_id: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFinished(Record):
    """A cell has its answer."""

    result: BuildResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Record):
    """A download moved on; sizes in bytes, ``total`` is 0 when unknown."""

    name: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing(Record):
    """Something takes a while that builds will be made with.

    :param what: ``choosing wheels for Python 3.12: torch==2.13.0, setuptools``.
    :param done: it has come to its end, well or not.
    """

    what: str
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Record):
    """What running tasks hold of the machine: ``cores`` of ``all_cores``, and memory in bytes."""

    cores: int
    all_cores: int
    memory: int
    all_memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation(Record):
    """What builds cost before.

    :param seconds: cell id → seconds of one core; only builds of which something is known.
    """

    seconds: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Record):
    """Something a person should know; ``level`` is ``info`` or ``warning``."""

    level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Record):
    """Every cell has its answer, or the run was interrupted.

    :param seconds: of wall time.
    :param compiled: phases of compiling that were run, without preprocessing.
    :param reused: those that had been made before.
    """

    results: tuple[BuildResult, ...]
    excluded: tuple[Excluded, ...]
    interrupted: bool
    seconds: float
    compiled: int = 0
    reused: int = 0


Event = (
    RunStarted
    | CellStarted
    | CellStage
    | CellProgress
    | StepFinished
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
    """Listen to nothing."""
    del event


def log_notices(event: Event) -> None:
    """Pass on to ``logging``, as ``wheelsmith``, what somebody should know who listens to nothing else."""
    if isinstance(event, Notice):
        import logging

        logging.getLogger("wheelsmith").log(logging.getLevelNamesMapping()[event.level.upper()], event.text)
