"""The live view for terminals: a row for each running cell, and the progress of the run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Self

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from wheelsmith.base.units import counted, show_binary_size, show_duration, show_size
from wheelsmith.model import (
    BuildResult,
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
    Status,
    StepFinished,
    Transfer,
)
from wheelsmith.report.reporters import PlainReporter
from wheelsmith.report.style import ID_WIDTH, status_sign

# Columns of the terminal from which a row shows the newest step, and from which it shows the stage, too.
_WITH_STEP, _WITH_STAGE = 76, 100
_SOON = 10.0  # seconds


@dataclass(slots=True)
class RunningCell:
    """A cell that is being built.

    :param start: seconds of the monotonic clock.
    :param done: the number of finished steps of ``total``. Neither number ever decreases.
    :param earlier: the number of steps of the earlier stages.
    :param line: the newest line of output; empty after a step or a stage.
    :param spent: core seconds of the finished compiler calls.
    :param reused: True if the result of a compiler call was reused, so that ``spent`` says little about the rest.
    """

    start: float
    stage: str = "fetch"
    done: int = 0
    total: int = 0
    earlier: int = 0
    step: str = ""
    line: str = ""
    spent: float = 0.0
    reused: bool = False

    def update(self, event: CellStage | CellProgress | CellLine | StepFinished) -> None:
        """Update the cell from an event."""
        match event:
            case CellStage():
                # A stage counts its own steps, from 0.
                self.done = self.earlier = self.total
                self.stage, self.step, self.line = event.stage, "", ""
            case CellProgress():
                # Threads may report their steps in another order.
                self.done = max(self.done, self.earlier + event.done)
                self.total = max(self.total, self.earlier + event.total)
                self.step, self.line = event.step, ""
            case CellLine():
                self.line = event.line
            case StepFinished():
                self.spent += event.seconds
                self.reused |= event.reused

    def left(self, cost: float) -> float:
        """Return the core seconds that remain.

        :param cost: core seconds of the whole build.
        """
        by_steps = cost * (1 - self.done / self.total) if self.total else cost
        # Few long calls may remain after many short ones. On a busy machine, many remain when the cost is spent.
        return max(by_steps, cost - self.spent) if self.spent and not self.reused else by_steps

    def text(self, width: int) -> str:
        """Return the newest output line, step or stage. A step that is too long keeps its end."""
        return self.line or shorten_start(self.step, width) or self.stage


@dataclass(slots=True)
class RunProgress:
    """The progress of a run.

    :param start: seconds of the monotonic clock.
    :param cells: the number of cells.
    :param computes: cell id → compute platform, of the cells with a build of their own.
    :param finished: ids of the finished cells.
    :param steps: the number of steps of the finished cells.
    :param costs: cell id → core seconds of its build, in this run or an earlier one.
    :param estimated: the time for which the costs of running cells were updated, in seconds of the monotonic clock.
    """

    start: float
    cells: int = 0
    computes: dict[str, str] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    steps: int = 0
    load: Load | None = None
    costs: dict[str, float] = field(default_factory=dict)
    estimated: float = 0.0

    def finish(self, result: BuildResult, cell: RunningCell | None) -> None:
        """Record that a cell has finished."""
        self.finished.add(result.cell.id)
        if cell:
            self.steps += cell.total
        if cell and result.status is Status.BUILT and not cell.reused:
            rest = sum(timing.seconds for timing in result.timings if timing.stage != "compile" or not cell.spent)
            self.costs[result.cell.id] = cell.spent + rest

    def remaining_seconds(self, running: Mapping[str, RunningCell], now: float) -> float | None:
        """Return the estimated seconds that remain, or None if no cost is known."""
        waiting = self.computes.keys() - self.finished
        if self.load is None or not self.costs or not waiting:
            return None
        costs = {name: self._cost(name) for name in waiting}
        left = sum(running[name].left(cost) if name in running else cost for name, cost in costs.items())
        left /= self.load.all_cores
        # Between two events, the estimate counts down, but not to 0: the machine may be busier than before.
        return max(left / 2, left - (now - max(self.start, self.estimated)))

    def _cost(self, name: str) -> float:
        """Return the cost of a build, or the mean of the known costs, preferably for the same compute platform."""
        if name in self.costs:
            return self.costs[name]
        alike = [cost for each, cost in self.costs.items() if self.computes.get(each) == self.computes[name]]
        return fmean(alike or self.costs.values())


def shorten_start(text: str, width: int) -> str:
    """Return a text that is at most ``width`` long. A path loses its folders first: ``…/binding.cpp: cicc 90``."""
    if len(text) <= width:
        return text
    path, separator, rest = text.partition(": ")
    short = f"…/{path.rpartition('/')[2]}{separator}{rest}" if "/" in path else text
    return short if len(short) <= width else f"…{text[len(text) - width + 1 :]}"


def rows(running: Mapping[str, RunningCell], now: float, console: Console, max_rows: int) -> Iterator[RenderableType]:
    """Draw the running cells in columns of fixed width.

    :param max_rows: the number of lines available.
    """
    with_step, with_stage = console.width >= _WITH_STEP, console.width >= _WITH_STAGE or console.width < _WITH_STEP
    widths = [1, ID_WIDTH if with_step else None, *([8] if with_stage else []), 9, 7]
    table = Table.grid(padding=(0, 1), expand=with_step)
    for number, width in enumerate(widths):
        is_number = number >= len(widths) - 2
        justify: JustifyMethod = "right" if is_number else "left"
        table.add_column(width=width, no_wrap=True, overflow="ellipsis", justify=justify)
    if with_step:
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    room = console.width - sum(width or 0 for width in widths) - len(widths)
    for name, cell in list(running.items())[:max_rows]:
        spinner = Spinner("dots" if console.encoding.startswith("utf") else "line")
        spinner.start_time = cell.start
        steps = f"{cell.done}/{cell.total}" if cell.total else ""
        columns = [name, *([cell.stage] if with_stage else []), steps, show_duration(now - cell.start)]
        table.add_row(spinner.render(now), *map(Text, [*columns, *([cell.text(room)] if with_step else [])]))
    if running:
        yield table
    if len(running) > max_rows:
        yield Text(f"  and {len(running) - max_rows} more running", style="dim", no_wrap=True, overflow="ellipsis")


def status_line(progress: RunProgress, running: Mapping[str, RunningCell], now: float, width: int) -> str:
    """Return the status line of the run. Its last parts are left out if they do not fit."""
    parts = [f"{len(progress.finished)} of {counted(progress.cells, 'combination')}"]
    done = progress.steps + sum(cell.done for cell in running.values())
    total = progress.steps + sum(cell.total for cell in running.values())
    if total:
        # The number of steps of a waiting cell is unknown.
        is_known = progress.cells <= len(progress.finished) + sum(cell.total > 0 for cell in running.values())
        parts.append(f"{done} of {counted(total, 'step')}" if is_known else f"{done} of {total}+ steps")
    parts.append(f"{show_duration(now - progress.start)} elapsed")
    if (left := progress.remaining_seconds(running, now)) is not None:
        parts.append(f"about {show_duration(left)} left" if left >= _SOON else "a few seconds left")
    if load := progress.load:
        parts.append(f"{load.cores} of {counted(load.all_cores, 'core')}")
        parts.append(f"{show_binary_size(load.memory)} of {show_binary_size(load.all_memory)}")
    while len(parts) > 1 and len(" · ".join(parts)) > width:
        parts.pop()
    return " · ".join(parts)


class LiveReporter(PlainReporter):
    """Prints a line for each finished cell, above a live table of running cells and the status line.

    In a run of several kernels, it prints a line for each finished kernel, and one for each failed cell.
    """

    def __init__(self, console: Console, out: Path) -> None:
        super().__init__(console, out)
        self._running: dict[str, RunningCell] = {}
        self._progress = RunProgress(start=time.monotonic())
        self._transfer: Transfer | None = None
        self._preparing: dict[str, float] = {}
        self._left: Counter[str] = Counter()  # name of a kernel → the number of its cells that are not finished
        self._statuses: dict[str, Counter[str]] = {}
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
                self._progress.costs |= event.seconds
            case Load():
                self._progress.load = event
            case CellStarted():
                self._running.setdefault(event.cell_id, RunningCell(start=time.monotonic()))
            case CellStage() | CellProgress() | CellLine() | StepFinished():
                if cell := self._running.get(event.cell_id):
                    cell.update(event)
                if isinstance(event, StepFinished):
                    self._progress.estimated = time.monotonic()
            case Transfer():
                self._transfer = None if event.total and event.done >= event.total else event
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
                builds = (plan.cell for plan in event.plans if plan.cell.id not in event.folded)
                computes = {cell.id: cell.compute for cell in builds}
                self._progress = RunProgress(start=time.monotonic(), cells=len(event.plans), computes=computes)
                self._left = Counter(plan.cell.kernel for plan in event.plans if plan.cell.kernel)
            case CellFinished(result=result):
                self._progress.finish(result, self._running.pop(result.cell.id, None))
                if kernel := result.cell.kernel:
                    self._finish_cell_of(kernel, result, event)
                    return
            case RunFinished():
                self._live.stop()
            case _:
                pass
        super().__call__(event)

    def _finish_cell_of(self, kernel: str, result: BuildResult, event: CellFinished) -> None:
        """Print the line of a failed cell, and that of its kernel after the last cell."""
        if result.status is Status.FAILED:
            super().__call__(event)
        statuses = self._statuses.setdefault(kernel, Counter())
        statuses[result.status] += 1
        self._left[kernel] -= 1
        if not self._left[kernel]:
            worst = next((each for each in (Status.FAILED, Status.CANCELLED) if statuses[each]), Status.BUILT)
            mark, style = status_sign(worst, self._console)
            counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
            self._print(f"{mark} {kernel:<{ID_WIDTH}}  {counts}", style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the current state within the height of the terminal. Hidden rows are counted."""
        now, running, width = time.monotonic(), dict(self._running), options.max_width
        lines = [f"{show_duration(now - since)}  {what}" for what, since in dict(self._preparing).items()]
        if transfer := self._transfer:
            of = f" of {show_size(transfer.total)}" if transfer.total else ""
            start = f"fetching {show_size(transfer.done)}{of}  "
            lines.insert(0, start + shorten_start(transfer.name, width - len(start)))
        footer = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in lines]
        status = status_line(self._progress, running, now, width)
        footer.append(Text(status, style="bold", no_wrap=True, overflow="ellipsis"))
        # One line for the cursor, one for the count of hidden rows.
        yield from rows(running, now, console, max(1, console.height - len(footer) - 2))
        yield from footer
