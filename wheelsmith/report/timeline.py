"""The timeline of a run: bars for the stages of cells and for the steps on cores."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import Lock

from wheelsmith.base.units import show_duration
from wheelsmith.model import CellFinished, CellStage, Event, RunFinished, RunStarted, StepFinished

# Part of a run. Narrower bars would be invisible, and would make the page slow.
_MIN_WIDTH = 0.0003
_MAX_TICKS = 8
_TICK_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of the timeline.

    :param row: the cell of a stage, or the core of a step.
    :param kind: the stage, or the compiler phase of a step, such as ``cicc``.
    :param start: seconds since the start of the run.
    :param end: seconds since the start of the run.
    :param text: the label.
    """

    row: str
    kind: str
    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The bars of a run.

    :param seconds: the wall time of the run.
    :param stages: a row for each cell, in the order of their starts.
    :param steps: a row for each core, with as few cores as the concurrent steps need.
    """

    seconds: float
    stages: tuple[Bar, ...]
    steps: tuple[Bar, ...]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Return the ticks of the axis: seconds, and a short label such as ``30s`` or ``10m``."""
        step = next((seconds for seconds in _TICK_STEPS if self.seconds / seconds <= _MAX_TICKS), 86400)
        places = [number * step for number in range(math.floor(self.seconds / step) + 1)]
        return [(place, show_duration(place)) for place in places]


class TimelineRecorder:
    """Listens to the events of a run and records their times and the engine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()  # events come from the threads that build
        self._start = clock()
        self._open: dict[str, tuple[str, float]] = {}
        self._stages: list[Bar] = []
        self._steps: list[Bar] = []
        self._end: float | None = None
        self.engine = ""

    def __call__(self, event: Event) -> None:
        """Record the time of an event."""
        with self._lock:
            now = self._clock() - self._start
            match event:
                case RunStarted(engine=engine):
                    self.engine, self._start = engine, self._clock()
                case CellStage():
                    self._close(event.cell_id, now)
                    self._open[event.cell_id] = (event.stage, now)
                case CellFinished():
                    self._close(event.result.cell.id, now)
                case StepFinished() if not event.reused:
                    start, text = max(0.0, now - event.seconds), f"{event.cell_id}: {event.step}"
                    self._steps.append(Bar(row="", kind=event.kind, start=start, end=now, text=text))
                case RunFinished():
                    self._end = now
                case _:
                    pass

    def timeline(self) -> Timeline:
        """Return the timeline so far. Unfinished stages end now."""
        with self._lock:
            now = self._clock() - self._start if self._end is None else self._end
            for cell in tuple(self._open):
                self._close(cell, now)
            return Timeline(seconds=max(now, 1e-3), stages=tuple(self._stages), steps=tuple(_assign_cores(self._steps)))

    def _close(self, cell: str, now: float) -> None:
        if cell in self._open:
            stage, start = self._open.pop(cell)
            self._stages.append(Bar(row=cell, kind=stage, start=start, end=now, text=f"{cell}: {stage}"))


def _assign_cores(steps: Iterable[Bar]) -> Iterable[Bar]:
    """Assign each step to the first free core. This gives the number of busy cores."""
    ends: list[float] = []
    for step in sorted(steps, key=lambda bar: (bar.start, bar.end)):
        core = next((number for number, free in enumerate(ends) if free <= step.start), len(ends))
        ends[core:] = [step.end, *ends[core + 1 :]]
        yield replace(step, row=f"core {core + 1}")


def rows(bars: Iterable[Bar], seconds: float) -> dict[str, list[Bar]]:
    """Return the visible bars of each row.

    :param seconds: the wall time of the run; very short bars are omitted.
    """
    found: dict[str, list[Bar]] = {}
    for bar in bars:
        row = found.setdefault(bar.row, [])
        if bar.end - bar.start >= _MIN_WIDTH * seconds:
            row.append(bar)
    return found
