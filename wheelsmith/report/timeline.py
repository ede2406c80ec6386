"""The timeline of a run: what happened when, and on how many cores, as shapes that a page of any width can draw."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock

from wheelsmith.model import CellFinished, CellStage, Event, RunFinished, RunStarted, StepFinished
from wheelsmith.report.style import duration

# A bar narrower than this would not be seen, and a page with all of them would be slow.
_NARROWEST = 0.03
_TICKS = 8
_NICE = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Something that took time; start and end are seconds since the run began.

    :param row: the cell whose stage it is, or the number of the lane that a step ran in.
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
    :param steps: the rows are as few lanes as the steps that ran at once need.
    """

    seconds: float
    stages: tuple[Bar, ...]
    steps: tuple[Bar, ...]


class Stopwatch:
    """Listens to a run and notes the time of what happens."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()  # events come from the threads that build
        self._begun = clock()
        self._open: dict[str, tuple[str, float]] = {}
        self._stages: list[Bar] = []
        self._steps: list[Bar] = []
        self._ended: float | None = None

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        with self._lock:
            now = self._clock() - self._begun
            match event:
                case RunStarted():
                    self._begun = self._clock()
                case CellStage():
                    self._close(event.cell_id, now)
                    self._open[event.cell_id] = (event.stage, now)
                case CellFinished():
                    self._close(event.result.cell.id, now)
                case StepFinished() if not event.reused:
                    self._steps.append(_step(event, now))
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
            return Timeline(seconds=now, stages=tuple(self._stages), steps=tuple(_in_lanes(self._steps)))

    def _close(self, cell: str, now: float) -> None:
        if cell in self._open:
            stage, start = self._open.pop(cell)
            self._stages.append(Bar(row=cell, kind=stage, start=start, end=now, text=f"{cell}: {stage}"))


def _step(event: StepFinished, now: float) -> Bar:
    text = f"{event.cell_id}: {event.step}"
    return Bar(row="", kind=event.kind, start=max(0.0, now - event.seconds), end=now, text=text)


def _in_lanes(steps: Iterable[Bar]) -> Iterable[Bar]:
    """Put each step into the first lane that is free, so that the lanes are the cores that were kept busy."""
    io_slots: list[float] = []
    for step in sorted(steps, key=lambda bar: (bar.start, bar.end)):
        lane = next((number for number, free in enumerate(io_slots) if free <= step.start), len(io_slots))
        io_slots[lane:] = [step.end, *io_slots[lane + 1 :]]
        yield Bar(row=str(lane), kind=step.kind, start=step.start, end=step.end, text=step.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A bar; ``left`` and ``width`` are percentages of the run, ``row`` counts from 0."""

    row: int
    left: float
    width: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Rows of bars.

    :param labels: one a row.
    :param hidden: bars that are too short to be seen.
    """

    labels: tuple[str, ...]
    shapes: tuple[Shape, ...]
    hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A run as people see it.

    :param ticks: where in percent, and what the label says.
    :param cells: a row for each cell that was built.
    :param cores: a row for each core that was kept busy.
    """

    ticks: tuple[tuple[float, str], ...]
    cells: Chart
    cores: Chart


def draw(timeline: Timeline) -> Figure:
    """Return the shapes of a run."""
    whole = max(timeline.seconds, 1e-3)
    cells = tuple(dict.fromkeys(bar.row for bar in timeline.stages))
    io_slots = max((int(bar.row) + 1 for bar in timeline.steps), default=0)
    return Figure(
        ticks=_ticks(whole),
        cells=_chart(timeline.stages, cells, cells, whole),
        cores=_chart(
            timeline.steps, tuple(map(str, range(io_slots))), tuple(f"core {n + 1}" for n in range(io_slots)), whole
        ),
    )


def _chart(bars: Iterable[Bar], rows: tuple[str, ...], labels: tuple[str, ...], whole: float) -> Chart:
    place = {row: number for number, row in enumerate(rows)}
    shapes = [
        Shape(
            row=place[bar.row],
            left=round(100 * bar.start / whole, 3),
            width=round(100 * (bar.end - bar.start) / whole, 3),
            kind=bar.kind,
            text=f"{bar.text}, {duration(bar.end - bar.start)}",
        )
        for bar in bars
    ]
    seen = tuple(shape for shape in shapes if shape.width >= _NARROWEST)
    return Chart(labels=labels, shapes=seen, hidden=len(shapes) - len(seen))


def _ticks(whole: float) -> tuple[tuple[float, str], ...]:
    step = next((nice for nice in _NICE if whole / nice <= _TICKS), 86400)
    count = math.floor(whole / step) + 1
    return tuple((round(100 * n * step / whole, 3), _short(n * step)) for n in range(count))


def _short(seconds: float) -> str:
    """Return ``0s``, ``30s`` or ``10m``: labels stand close to one another on a phone."""
    return duration(seconds).removesuffix("00s") if seconds else "0s"
