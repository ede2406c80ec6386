"""Results of builds and rebuilds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.sanitize import visible
from wheelsmith.model.cell import Cell

_MAX_TEXT, _MAX_LINES = 2000, 50  # characters of a text, and lines: reports repeat them for each cell


class Status(StrEnum):
    """The outcome of a cell."""

    BUILT = "built"
    CACHED = "cached"
    FOLDED = "folded"
    UPSTREAM = "upstream"  # compiled by the kernel's maker, and checked here
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelRecord(Record):
    """A finished wheel; ``sha256`` in hex, ``size`` in bytes. An index entry adds more fields.

    :param gpu_archs: GPU architectures that the check found code for, e.g. ``8.0`` or ``9.0+PTX``.
    """

    filename: str
    sha256: str
    size: int
    metadata_sha256: str
    requires_python: str | None
    gpu_archs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Record):
    """The wall time of one stage of a cell, in seconds."""

    stage: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Record):
    """The reason why a cell has no wheel.

    :param stage: ``fetch``, ``compile``, ``build``, ``repair``, ``check``, ``test`` or ``store``.
    :param tail: the first error in the log or its last lines, made safe for a terminal.
    """

    stage: str
    message: str
    remedy: str | None = None
    tail: tuple[str, ...] = ()

    def escaped(self) -> Failure:
        """Return the failure with control characters escaped and long texts truncated: a build can choose them."""
        texts = (self.stage, self.message, self.remedy or "", *self.tail[-_MAX_LINES:])
        stage, message, remedy, *tail = (visible(text[:_MAX_TEXT])[:_MAX_TEXT] for text in texts)
        return Failure(stage=stage, message=message, remedy=remedy or None, tail=tuple(tail))


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult(Record):
    """The result of one cell: a wheel or a failure, never both.

    :param built_in: the time of each stage when a cached wheel was built.
    :param log: the log's file name in the run's log folder, or None if nothing ran.
    :param untested: why a requested test was not run.
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
    """The comparison of a wheel with its rebuild."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_REBUILT = "not rebuilt"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult(Record):
    """The result of rebuilding one wheel.

    :param sha256: hash of the given wheel.
    :param plan: the digest of its recorded plan; None if it records none.
    :param differences: members and positions that differ, or the reasons why it was not rebuilt.
    """

    wheel: str
    sha256: str
    plan: str | None
    verdict: Verdict
    differences: tuple[str, ...] = ()
