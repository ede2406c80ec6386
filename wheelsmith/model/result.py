"""What came of it: results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model.cell import Cell


class Status(StrEnum):
    """How a cell ended."""

    BUILT = "built"
    CACHED = "cached"
    FOLDED = "folded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelRecord(Record):
    """A finished wheel; ``sha256`` in hex, ``size`` in bytes. An index adds what it knows of it.

    :param gpu_archs: capabilities that the check has read machine code for, as ``8.0`` or ``9.0+PTX``.
    """

    filename: str
    sha256: str
    size: int
    metadata_sha256: str
    requires_python: str | None
    gpu_archs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Record):
    """How long one stage of a cell took, in seconds of wall time."""

    stage: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Record):
    """Why a cell has no wheel.

    :param stage: ``fetch``, ``compile``, ``build``, ``repair``, ``check``, ``test`` or ``store``.
    :param tail: the last lines of the log, made safe for a terminal.
    """

    stage: str
    message: str
    remedy: str | None = None
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult(Record):
    """What came of one cell: a wheel or a failure, never both.

    :param built_in: how long each stage took when a cached wheel was built; empty where that was not kept.
    :param log: the log's file name in the run's log folder, or None when nothing ran.
    :param untested: why its test, though asked for, was not run: it would have said nothing.
    """

    cell: Cell
    plan_digest: str
    status: Status
    wheel: WheelRecord | None = None
    failure: Failure | None = None
    timings: tuple[Timing, ...] = ()
    built_in: tuple[Timing, ...] = ()
    log: str | None = None
    untested: str | None = None


class Verdict(StrEnum):
    """How a wheel stands to the one that was built again."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_REBUILT = "not rebuilt"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildAnswer(Record):
    """One wheel, and what came of it.

    :param sha256: of the wheel that was given.
    :param plan: the digest of the plan that it records; None where it records none.
    :param differences: members and places that differ, or why it was not built again.
    """

    wheel: str
    sha256: str
    plan: str | None
    verdict: Verdict
    differences: tuple[str, ...] = ()
