"""A timeline as shapes whose places are percentages, so that a page of any width can draw it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from wheelsmith.report.style import duration
from wheelsmith.report.timeline import Bar, Timeline

# A bar narrower than this would not be seen, and a page with all of them would be slow.
_NARROWEST = 0.03
_TICKS = 8
_NICE = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)


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
