"""The timeline of a run: what happened when, and on how many cores, as bars."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import Lock

from wheelsmith.model import CellFinished, CellStage, Event, RunFinished, RunStarted, StepFinished
from wheelsmith.report.style import duration

# A bar narrower than this part of a run would not be seen, and a page with all of them would be slow.
_NARROWEST = 0.0003
_TICKS = 8
_NICE = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Something that took time; start and end are seconds since the run began.

    :param row: the cell whose stage it is, or the core that a step kept busy.
    :param kind: the stage, or the compiler's part in a step: ``cicc``.
    :param text: what it is, for people.
    """

    row: str
    kind: str
    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A run in bars.

    :param seconds: of wall time.
    :param stages: the rows are cells, in the order in which they began.
    :param steps: the rows are as few cores as the steps that ran at once need.
    """

    seconds: float
    stages: tuple[Bar, ...]
    steps: tuple[Bar, ...]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Return the labels of the axis: where in seconds, and as short as ``30s`` or ``10m``."""
        step = next((nice for nice in _NICE if self.seconds / nice <= _TICKS), 86400)
        places = [number * step for number in range(math.floor(self.seconds / step) + 1)]
        return [(place, duration(place).removesuffix("00s") if place else "0s") for place in places]


class Stopwatch:
    """Listens to a run and notes on which engine it is, and the time of what happens."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()  # events come from the threads that build
        self._begun = clock()
        self._open: dict[str, tuple[str, float]] = {}
        self._stages: list[Bar] = []
        self._steps: list[Bar] = []
        self._ended: float | None = None
        self.engine = ""

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        with self._lock:
            now = self._clock() - self._begun
            match event:
                case RunStarted(engine=engine):
                    self.engine, self._begun = engine, self._clock()
                case CellStage():
                    self._close(event.cell_id, now)
                    self._open[event.cell_id] = (event.stage, now)
                case CellFinished():
                    self._close(event.result.cell.id, now)
                case StepFinished() if not event.reused:
                    start, text = max(0.0, now - event.seconds), f"{event.cell_id}: {event.step}"
                    self._steps.append(Bar(row="", kind=event.kind, start=start, end=now, text=text))
                case RunFinished():
                    self._ended = now
                case _:
                    pass

    def timeline(self) -> Timeline:
        """Return the run so far; stages that have no end yet end now."""
        with self._lock:
            now = self._clock() - self._begun if self._ended is None else self._ended
            for cell in tuple(self._open):
                self._close(cell, now)
            return Timeline(seconds=max(now, 1e-3), stages=tuple(self._stages), steps=tuple(_on_cores(self._steps)))

    def _close(self, cell: str, now: float) -> None:
        if cell in self._open:
            stage, start = self._open.pop(cell)
            self._stages.append(Bar(row=cell, kind=stage, start=start, end=now, text=f"{cell}: {stage}"))


def _on_cores(steps: Iterable[Bar]) -> Iterable[Bar]:
    """Put each step on the first core that is free, so that there are as many as were kept busy."""
    ends: list[float] = []
    for step in sorted(steps, key=lambda bar: (bar.start, bar.end)):
        core = next((number for number, free in enumerate(ends) if free <= step.start), len(ends))
        ends[core:] = [step.end, *ends[core + 1 :]]
        yield replace(step, row=f"core {core + 1}")


def rows(bars: Iterable[Bar], seconds: float) -> dict[str, list[Bar]]:
    """Return row → those of its bars that are wide enough to be seen in a run of so many seconds."""
    found: dict[str, list[Bar]] = {}
    for bar in bars:
        row = found.setdefault(bar.row, [])
        if bar.end - bar.start >= _NARROWEST * seconds:
            row.append(bar)
    return found
