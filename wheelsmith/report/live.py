"""A board that redraws itself, for a person at a terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

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
from wheelsmith.report.live_status import Running, Waiting, Whole, rows, whole_lines
from wheelsmith.report.style import ID_WIDTH, outcome, sign
from wheelsmith.report.summary import show_start, show_summary

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


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
