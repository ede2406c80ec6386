"""The live view for terminals: a row for each running cell, and the progress of the run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from wheelsmith.base.units import counted, show_binary_size, show_duration, show_size
from wheelsmith.model import (
    CellFinished,
    CellLine,
    CellProgress,
    CellStage,
    CellStarted,
    Event,
    Expectation,
    Load,
    Preparing,
    RunFinished,
    RunStarted,
    Transfer,
)
from wheelsmith.report.reporters import PlainReporter
from wheelsmith.report.style import ID_WIDTH

_WIDE = 76  # columns; a narrower terminal does not show the newest step


@dataclass(slots=True)
class RunningCell:
    """A cell that is being built.

    :param start: seconds of the monotonic clock.
    :param done: the number of finished phases of ``total``.
    :param line: the newest step or line of output.
    """

    start: float
    stage: str = "fetch"
    done: int = 0
    total: int = 0
    line: str = ""

    def update(self, event: CellStage | CellProgress | CellLine) -> None:
        """Update the cell from an event."""
        match event:
            case CellStage():
                self.stage, self.line = event.stage, ""
            case CellProgress():
                self.done, self.total, self.line = event.done, event.total, event.step
            case CellLine():
                self.line = event.line


@dataclass(slots=True)
class RunProgress:
    """The progress of a run.

    :param start: seconds of the monotonic clock.
    :param cells: the number of cells.
    :param finished: ids of the finished cells.
    :param phases: the number of phases of the finished cells.
    :param expected: cell id → core seconds of its previous build.
    """

    start: float
    cells: int = 0
    finished: set[str] = field(default_factory=set)
    phases: int = 0
    load: Load | None = None
    expected: dict[str, float] = field(default_factory=dict)

    def finish(self, name: str, cell: RunningCell | None) -> None:
        """Record that a cell has finished."""
        self.finished.add(name)
        self.phases += cell.done if cell else 0

    def remaining_seconds(self, running: Mapping[str, RunningCell]) -> float | None:
        """Return the estimated seconds that remain, or None if the cost of a running cell is unknown."""
        left = {name: seconds for name, seconds in self.expected.items() if name not in self.finished}
        if self.load is None or not left or not running.keys() <= left.keys():
            return None
        done = {name: cell.done / cell.total for name, cell in running.items() if cell.total}
        return sum(seconds * (1 - done.get(name, 0.0)) for name, seconds in left.items()) / self.load.all_cores


def rows(running: Mapping[str, RunningCell], now: float, console: Console, max_rows: int) -> Iterator[RenderableType]:
    """Draw the running cells in columns of fixed width.

    :param max_rows: the number of lines available.
    """
    wide = console.width >= _WIDE
    table = Table.grid(padding=(0, 1), expand=wide)
    for width in (1, ID_WIDTH if wide else None, 8):
        table.add_column(width=width, no_wrap=True, overflow="ellipsis")
    for width in (9, 7):
        table.add_column(width=width, no_wrap=True, justify="right")
    if wide:
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for name, cell in list(running.items())[:max_rows]:
        spinner = Spinner("dots" if console.encoding.startswith("utf") else "line")
        spinner.start_time = cell.start
        steps = f"{cell.done}/{cell.total}" if cell.total else ""
        columns = [name, cell.stage, steps, show_duration(now - cell.start), *([cell.line] if wide else [])]
        table.add_row(spinner.render(now), *map(Text, columns))
    if running:
        yield table
    if len(running) > max_rows:
        yield Text(f"  and {len(running) - max_rows} more running", style="dim", no_wrap=True, overflow="ellipsis")


def status_line(progress: RunProgress, running: Mapping[str, RunningCell], now: float) -> str:
    """Return the status line of the run."""
    parts = [f"{len(progress.finished)} of {counted(progress.cells, 'combination')}"]
    done = progress.phases + sum(cell.done for cell in running.values())
    total = progress.phases + sum(cell.total for cell in running.values())
    if total:
        # The number of phases of a waiting cell is unknown.
        is_waiting = progress.cells > len(progress.finished) + len(running)
        parts.append(f"{done} of {total}+ phases" if is_waiting else f"{done} of {counted(total, 'phase')}")
    if load := progress.load:
        parts.append(f"{load.cores} of {counted(load.all_cores, 'core')}")
        parts.append(f"{show_binary_size(load.memory)} of {show_binary_size(load.all_memory)}")
    parts.append(f"{show_duration(now - progress.start)} elapsed")
    if (left := progress.remaining_seconds(running)) is not None:
        parts.append(f"about {show_duration(left)} left")
    return " · ".join(parts)


class LiveReporter(PlainReporter):
    """Prints a line for each finished cell, above a live table of running cells and the status line."""

    def __init__(self, console: Console, out: Path) -> None:
        super().__init__(console, out)
        self._running: dict[str, RunningCell] = {}
        self._progress = RunProgress(start=time.monotonic())
        self._transfer = ""
        self._preparing: dict[str, float] = {}
        self._live = Live(self, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        """Start the live view."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the live view and restore the terminal."""
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Update the state from an event. The live view redraws itself."""
        match event:
            case Expectation():
                self._progress.expected = dict(event.seconds)
            case Load():
                self._progress.load = event
            case CellStarted():
                self._running[event.cell_id] = RunningCell(start=time.monotonic())
            case CellStage() | CellProgress() | CellLine():
                if cell := self._running.get(event.cell_id):
                    cell.update(event)
            case Transfer():
                of = f" of {show_size(event.total)}" if event.total else ""
                done = event.total and event.done >= event.total
                self._transfer = "" if done else f"fetching {event.name}  {show_size(event.done)}{of}"
            case Preparing(done=True):
                self._preparing.pop(event.what, None)
            case Preparing():
                self._preparing[event.what] = time.monotonic()
            case _:
                self._print_permanent(event)

    def _print_permanent(self, event: Event) -> None:
        """Handle an event that prints permanent lines."""
        match event:
            case RunStarted():
                self._progress = RunProgress(start=time.monotonic(), cells=len(event.plans))
            case CellFinished(result=result):
                self._progress.finish(result.cell.id, self._running.pop(result.cell.id, None))
            case RunFinished():
                self._live.stop()
            case _:
                pass
        super().__call__(event)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the current state within the height of the terminal. Hidden rows are counted."""
        now, running = time.monotonic(), dict(self._running)
        preparing = [f"{show_duration(now - since)}  {what}" for what, since in dict(self._preparing).items()]
        footer = [Text(line, style="dim") for line in (self._transfer, *preparing) if line]
        footer.append(Text(status_line(self._progress, running, now), style="bold"))
        lines = sum(len(text.wrap(console, options.max_width)) for text in footer)
        # One line for the cursor, one for the count of hidden rows.
        yield from rows(running, now, console, max(1, console.height - lines - 2))
        yield from footer
