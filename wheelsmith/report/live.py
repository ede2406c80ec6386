"""A view that redraws itself at a terminal: a row for each cell that runs, and the progress of the whole run."""

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

from wheelsmith.base.units import counted, show_size
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
from wheelsmith.report.style import ID_WIDTH, duration

_GIB = 2**30
_ROOMY = 76  # columns of a terminal; with fewer, a row has no room for the newest step


@dataclass(slots=True)
class Running:
    """A cell that is being built; ``done`` of ``total`` phases are."""

    start: float
    stage: str = "fetch"
    done: int = 0
    total: int = 0
    line: str = ""

    def hear(self, event: CellStage | CellProgress | CellLine) -> None:
        """Take in what happened to it."""
        match event:
            case CellStage():
                self.stage, self.line = event.stage, ""
            case CellProgress():
                self.done, self.total, self.line = event.done, event.total, event.step
            case CellLine():
                self.line = event.line


@dataclass(slots=True)
class Whole:
    """A run.

    :param finished: ids of the cells that have their answer; ``phases`` are those that they were compiled in.
    :param expected: cell id → seconds of one core that its build took before.
    """

    start: float
    cells: int = 0
    finished: set[str] = field(default_factory=set)
    phases: int = 0
    load: Load | None = None
    expected: dict[str, float] = field(default_factory=dict)

    def finish(self, name: str, cell: Running | None) -> None:
        """Take note of a cell's answer."""
        self.finished.add(name)
        self.phases += cell.done if cell else 0

    def to_go(self, running: Mapping[str, Running]) -> float | None:
        """Return the seconds that are left, by what builds cost before; None where that is not known of any."""
        left = {name: seconds for name, seconds in self.expected.items() if name not in self.finished}
        if self.load is None or not left or not running.keys() <= left.keys():
            return None
        done = {name: cell.done / cell.total for name, cell in running.items() if cell.total}
        return sum(seconds * (1 - done.get(name, 0.0)) for name, seconds in left.items()) / self.load.all_cores


def rows(running: Mapping[str, Running], now: float, console: Console, room: int) -> Iterator[RenderableType]:
    """Draw the cells that run, in columns that stay where they are.

    :param room: lines that there are.
    """
    roomy = console.width >= _ROOMY
    table = Table.grid(padding=(0, 1), expand=roomy)
    for width in (1, ID_WIDTH if roomy else None, 8):
        table.add_column(width=width, no_wrap=True, overflow="ellipsis")
    for width in (9, 6):
        table.add_column(width=width, no_wrap=True, justify="right")
    if roomy:
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for name, cell in list(running.items())[:room]:
        spinner = Spinner("dots" if console.encoding.startswith("utf") else "line")
        spinner.start_time = cell.start
        steps = f"{cell.done}/{cell.total}" if cell.total else ""
        words = [name, cell.stage, steps, duration(now - cell.start), *([cell.line] if roomy else [])]
        table.add_row(spinner.render(now), *map(Text, words))
    if running:
        yield table
    if len(running) > room:
        yield Text(f"  and {len(running) - room} more run", style="dim", no_wrap=True, overflow="ellipsis")


def whole_line(whole: Whole, running: Mapping[str, Running], now: float) -> str:
    """Say what the whole has come to."""
    parts = [f"{len(whole.finished)} of {counted(whole.cells, 'cell')}"]
    done = whole.phases + sum(cell.done for cell in running.values())
    total = whole.phases + sum(cell.total for cell in running.values())
    if total:
        # Of a cell that waits it is not known yet.
        waits = whole.cells > len(whole.finished) + len(running)
        parts.append(f"{done} of {total}+ phases" if waits else f"{done} of {counted(total, 'phase')}")
    if load := whole.load:
        parts.append(f"{load.cores} of {counted(load.all_cores, 'core')}")
        parts.append(f"{load.memory / _GIB:.1f} of {load.all_memory / _GIB:.1f} GiB")
    parts.append(f"{duration(now - whole.start)} gone")
    if (left := whole.to_go(running)) is not None:
        parts.append(f"about {duration(left)} to go")
    return " · ".join(parts)


class LiveReporter(PlainReporter):
    """Finished cells scroll up as lines; running ones stay below them, and below those what the whole has come to."""

    def __init__(self, console: Console, out: Path) -> None:
        super().__init__(console, out)
        self._running: dict[str, Running] = {}
        self._whole = Whole(start=time.monotonic())
        self._transfer = ""
        self._preparing: dict[str, float] = {}
        self._live = Live(self, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        """Take the terminal."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal to what it was."""
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take in what happened; the board redraws itself."""
        match event:
            case Expectation():
                self._whole.expected = dict(event.seconds)
            case Load():
                self._whole.load = event
            case CellStarted():
                self._running[event.cell_id] = Running(start=time.monotonic())
            case CellStage() | CellProgress() | CellLine():
                if cell := self._running.get(event.cell_id):
                    cell.hear(event)
            case Transfer():
                of = f" of {show_size(event.total)}" if event.total else ""
                done = event.total and event.done >= event.total
                self._transfer = "" if done else f"fetching {event.name}  {show_size(event.done)}{of}"
            case Preparing(done=True):
                self._preparing.pop(event.what, None)
            case Preparing():
                self._preparing[event.what] = time.monotonic()
            case _:
                self._scroll(event)

    def _scroll(self, event: Event) -> None:
        """Take in what leaves lines that stay."""
        match event:
            case RunStarted():
                self._whole = Whole(start=time.monotonic(), cells=len(event.plans))
            case CellFinished(result=result):
                self._whole.finish(result.cell.id, self._running.pop(result.cell.id, None))
            case RunFinished():
                self._live.stop()
            case _:
                pass
        super().__call__(event)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the board as it is now, within the terminal: what has no room is counted."""
        now, running = time.monotonic(), dict(self._running)
        lasting = [f"{duration(now - since)}  {what}" for what, since in dict(self._preparing).items()]
        below = [Text(line, style="dim") for line in (self._transfer, *lasting) if line]
        below.append(Text(whole_line(self._whole, running, now), style="bold"))
        lines = sum(len(text.wrap(console, options.max_width)) for text in below)
        # One for the cursor, one for the words about those that have none.
        yield from rows(running, now, console, max(1, console.height - lines - 2))
        yield from below
