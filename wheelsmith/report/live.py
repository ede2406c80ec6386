"""A view that redraws itself at a terminal: a row for each cell that runs, and the progress of the whole run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wheelsmith.base.units import counted, show_size
from wheelsmith.model import (
    CellFinished,
    CellLine,
    CellProgress,
    CellStage,
    CellStarted,
    Event,
    Expectation,
    Folded,
    Load,
    Notice,
    Preparing,
    RunFinished,
    RunStarted,
    Transfer,
)
from wheelsmith.report.style import ID_WIDTH, duration, outcome, sign
from wheelsmith.report.summary import show_start, show_summary

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

_GIB = 2**30
# Columns of a terminal: with fewer, a row has no room for the newest step, or not even for its stage's name.
_ROOMY, _NARROW = 76, 46
_STAGE_WIDTH, _STEPS_WIDTH, _TIME_WIDTH = 8, 9, 6


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

    @property
    def share(self) -> float:
        """Return how much of it is done, from 0 to 1."""
        return self.done / self.total if self.total else 0.0


@dataclass(slots=True)
class Waiting:
    """What builds wait for that is no build: a download, an environment that is chosen or installed."""

    transfer: str = ""
    preparing: dict[str, float] = field(default_factory=dict)

    def hear(self, event: Transfer | Preparing) -> None:
        """Take in what happened."""
        match event:
            case Transfer():
                done = event.total and event.done >= event.total
                of = f" of {show_size(event.total)}" if event.total else ""
                self.transfer = "" if done else f"fetching {event.name}  {show_size(event.done)}{of}"
            case Preparing(done=True):
                self.preparing.pop(event.what, None)
            case Preparing():
                self.preparing[event.what] = time.monotonic()

    def lines(self, now: float) -> list[str]:
        """Return a line for each of them."""
        lasting = [f"{duration(now - since)}  {what}" for what, since in dict(self.preparing).items()]
        return [*([self.transfer] if self.transfer else []), *lasting]


@dataclass(slots=True)
class Whole:
    """A run.

    :param finished: cells that have their answer; ``phases`` are those that they were compiled in.
    :param expected: cell id → seconds of one core that its build took before; one that is done is taken out.
    """

    start: float
    cells: int = 0
    finished: int = 0
    phases: int = 0
    load: Load | None = None
    expected: dict[str, float] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    def finish(self, name: str, cell: Running | None) -> None:
        """Take note of a cell's answer."""
        self.finished += 1
        self.phases += cell.done if cell else 0
        self.answered.add(name)

    def to_go(self, running: Mapping[str, Running]) -> float | None:
        """Return the seconds that are left, by what builds cost before; None where that is not known of any."""
        left = {name: seconds for name, seconds in self.expected.items() if name not in self.answered}
        if self.load is None or not left or not running.keys() <= left.keys():
            return None
        shares = {name: cell.share for name, cell in running.items()}
        return sum(seconds * (1 - shares.get(name, 0.0)) for name, seconds in left.items()) / self.load.all_cores


def rows(
    running: Mapping[str, Running], now: float, console: Console, width: int, room: int
) -> Iterator[RenderableType]:
    """Draw the cells that run, in columns that stay where they are.

    :param room: lines that there are.
    """
    from rich.spinner import Spinner
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column(width=1, no_wrap=True)
    table.add_column(width=min(ID_WIDTH, max(8, width - 3 - _fixed(width))), no_wrap=True, overflow="ellipsis")
    if width >= _NARROW:
        table.add_column(width=_STAGE_WIDTH, no_wrap=True)
    table.add_column(width=_STEPS_WIDTH, no_wrap=True, justify="right")
    table.add_column(width=_TIME_WIDTH, no_wrap=True, justify="right")
    if width >= _ROOMY:
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        table.expand = True
    kind = "dots" if console.encoding.startswith("utf") else "line"
    shown = list(running.items())[:room]
    for name, cell in shown:
        spinner = Spinner(kind)
        spinner.start_time = cell.start
        table.add_row(spinner.render(now), *_words(name, cell, now, width))
    if shown:
        yield table
    if len(running) > len(shown):
        from rich.text import Text

        yield Text(f"  and {len(running) - len(shown)} more run", style="dim", no_wrap=True, overflow="ellipsis")


def _fixed(width: int) -> int:
    """Return the columns that a row needs beside a cell's name, blanks counted."""
    return _STEPS_WIDTH + _TIME_WIDTH + 2 + (_STAGE_WIDTH + 1 if width >= _NARROW else 0)


def _words(name: str, cell: Running, now: float, width: int) -> list[RenderableType]:
    from rich.text import Text

    steps = f"{cell.done}/{cell.total}" if cell.total else ""
    words = [name, cell.stage, steps, duration(now - cell.start), cell.line]
    if width < _NARROW:
        del words[1]
    if width < _ROOMY:
        del words[-1]
    return [Text(word) for word in words]


def whole_lines(whole: Whole, running: Mapping[str, Running], now: float, width: int) -> list[str]:
    """Say what the whole has come to, in as many lines as that needs.

    :param width: of the terminal, in columns.
    """
    parts = [f"{whole.finished} of {counted(whole.cells, 'cell')}"]
    done = whole.phases + sum(cell.done for cell in running.values())
    total = whole.phases + sum(cell.total for cell in running.values())
    if total:
        # Of a cell that waits it is not known yet.
        waits = whole.cells > whole.finished + len(running)
        parts.append(f"{done} of {total}+ phases" if waits else f"{done} of {counted(total, 'phase')}")
    if load := whole.load:
        parts.append(f"{load.cores} of {counted(load.all_cores, 'core')}")
        parts.append(f"{load.memory / _GIB:.1f} of {load.all_memory / _GIB:.1f} GiB")
    parts.append(f"{duration(now - whole.start)} gone")
    if (left := whole.to_go(running)) is not None:
        parts.append(f"about {duration(left)} to go")
    return _folded(parts, width)


def _folded(parts: list[str], width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines else part
        if lines and len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


class LiveReporter:
    """Finished cells scroll up as lines; running ones stay below them, and below those what the whole has come to."""

    def __init__(self, console: Console, out: Path) -> None:
        from rich.live import Live

        self._console = console
        self._out = out
        self._folded: dict[str, Folded] = {}
        self._running: dict[str, Running] = {}
        self._whole = Whole(start=time.monotonic())
        self._waiting = Waiting()
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
            case RunStarted():
                self._whole = Whole(start=time.monotonic(), cells=len(event.plans))
                self._folded = event.folded
                show_start(event, self._console)
            case Expectation():
                self._whole.expected = dict(event.seconds)
            case Load():
                self._whole.load = event
            case CellStarted():
                self._running[event.cell_id] = Running(start=time.monotonic())
            case CellStage() | CellProgress() | CellLine() if cell := self._running.get(event.cell_id):
                cell.hear(event)
            case CellFinished(result=result):
                self._whole.finish(result.cell.id, self._running.pop(result.cell.id, None))
                mark, style = sign(result.status, self._console)
                words = outcome(result, self._folded.get(result.cell.id))
                self._print(f"{mark} {result.cell.id:<{ID_WIDTH}}  {words}", style)
            case Transfer() | Preparing():
                self._waiting.hear(event)
            case Notice():
                self._print(f"{event.level}: {event.text}", "yellow" if event.level == "warning" else None)
            case RunFinished():
                self._live.stop()
                show_summary(event, self._out, self._console)
            case _:
                pass

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the board as it is now, within the terminal: what has no room is counted."""
        from rich.text import Text

        now, running = time.monotonic(), dict(self._running)
        below = [Text(line, style="bold") for line in whole_lines(self._whole, running, now, options.max_width)]
        waiting = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in self._waiting.lines(now)]
        below = [*waiting, *below]
        # One for the cursor, one for the words about those that have none.
        room = max(1, console.height - len(below) - 2)
        yield from rows(running, now, console, options.max_width, room)
        yield from below

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, soft_wrap=True)
