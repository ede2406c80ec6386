"""A board that redraws itself, for a person at a terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wheelsmith.events import (
    CellFinished,
    CellLine,
    CellProgress,
    CellStage,
    CellStarted,
    Event,
    Notice,
    RunFinished,
    RunStarted,
    Transfer,
)
from wheelsmith.report.style import ID_WIDTH, duration, outcome, sign
from wheelsmith.report.summary import show_start, show_summary
from wheelsmith.schedule import Folded
from wheelsmith.units import show_size

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(slots=True)
class _Running:
    """A cell that is being built."""

    start: float
    stage: str = "fetch"
    steps: str = ""
    line: str = ""


class LiveReporter:
    """Finished cells scroll up as lines; running ones stay below them."""

    def __init__(self, console: Console, out: Path) -> None:
        from rich.live import Live

        self._console = console
        self._out = out
        self._shared: dict[str, Folded] = {}
        self._running: dict[str, _Running] = {}
        self._transfer = ""
        self._left = 0
        self._live = Live(self, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        """Take the terminal."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the terminal back as it was."""
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take in what happened; the board redraws itself."""
        match event:
            case RunStarted():
                self._left = len(event.plans)
                self._shared = show_start(event, self._console)
            case CellStarted():
                self._running[event.cell_id] = _Running(start=time.monotonic())
            case CellStage() if cell := self._running.get(event.cell_id):
                cell.stage, cell.steps, cell.line = event.stage, "", ""
            case CellProgress() if cell := self._running.get(event.cell_id):
                cell.steps, cell.line = f"[{event.done}/{event.total}]", event.step
            case CellLine() if cell := self._running.get(event.cell_id):
                cell.line = event.line
            case CellFinished(result=result):
                self._running.pop(result.cell.id, None)
                self._left -= 1
                mark, style = sign(result.status, self._console)
                words = outcome(result, self._shared.get(result.cell.id))
                self._print(f"{mark} {result.cell.id:<{ID_WIDTH}}  {words}", style)
            case Transfer():
                done = event.total and event.done >= event.total
                self._transfer = "" if done else f"{event.name}  {show_size(event.done)} of {show_size(event.total)}"
            case Notice():
                self._print(f"{event.level}: {event.text}", "yellow" if event.level == "warning" else None)
            case RunFinished():
                self._live.stop()
                show_summary(event, self._out, self._console)
            case _:
                pass

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the board as it is now."""
        from rich.spinner import Spinner
        from rich.text import Text

        now = time.monotonic()
        for name, cell in list(self._running.items()):
            words = f"{name}  {cell.stage} {cell.steps} {duration(now - cell.start)}  {cell.line}"
            yield Spinner("dots" if console.encoding.startswith("utf") else "line", Text(words, no_wrap=True)).render(
                now
            )
        if self._transfer:
            yield Text(f"  fetching {self._transfer}"[: options.max_width], style="dim")
        waiting = self._left - len(self._running)
        if waiting > 0 and self._running:
            yield Text(f"  {waiting} more cells wait", style="dim")

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, soft_wrap=True)
