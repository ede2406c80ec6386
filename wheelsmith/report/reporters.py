"""Reporters that write lines, for logs, pipes and CI."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wheelsmith.base.units import show_size
from wheelsmith.model import (
    CellFinished,
    CellProgress,
    CellStarted,
    CommandStarted,
    Event,
    Folded,
    Notice,
    Preparing,
    RunFinished,
    RunStarted,
    Status,
    Transfer,
)
from wheelsmith.report.style import ID_WIDTH, describe_result, make_console, print_words, status_sign
from wheelsmith.report.summary import show_failure, show_start, show_summary

if TYPE_CHECKING:
    from rich.console import Console

_SILENCE = 60  # seconds without a line, after which progress is printed


def reporter(mode: str, out: Path) -> LineReporter:
    """Return the reporter for a mode of ``--progress``.

    :param mode: ``auto`` means ``live`` on a terminal and ``plain`` otherwise.
    :param out: the output folder, for the paths in messages.
    """
    if mode == "json":
        return JsonReporter()
    console = make_console(stderr=True)
    if mode in {"quiet", "verbose"}:
        return (QuietReporter if mode == "quiet" else VerboseReporter)(console, out)
    if mode == "live" or (mode == "auto" and sys.stderr.isatty() and not console.is_dumb_terminal):
        from wheelsmith.report.live import LiveReporter

        return LiveReporter(console, out)
    return PlainReporter(console, out)


class LineReporter:
    """Base class of reporters that write lines."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def __call__(self, event: Event) -> None:
        """Report an event."""
        raise NotImplementedError


class JsonReporter(LineReporter):
    """Writes every event but the commands as a line of JSON on stdout, with its type as ``event``."""

    def __call__(self, event: Event) -> None:
        """Write the event."""
        if isinstance(event, CommandStarted):
            return
        sys.stdout.write(json.dumps({"event": type(event).__name__, **event.to_json()}) + "\n")
        sys.stdout.flush()


class QuietReporter(LineReporter):
    """Writes only warnings and failures."""

    def __init__(self, console: Console, out: Path) -> None:
        self._console = console
        self._out = out

    def __call__(self, event: Event) -> None:
        """Report an event if it is a warning or a failure."""
        match event:
            case CellFinished(result=result) if result.status is Status.FAILED:
                show_failure(result, self._out, self._console)
            case Notice(level="warning"):
                print_words(self._console, f"warning: {event.text}", "yellow")
            case _:
                pass


class PlainReporter(LineReporter):
    """Writes a line for each important event, for logs."""

    def __init__(self, console: Console, out: Path) -> None:
        self._console = console
        self._out = out
        self._folded: dict[str, Folded] = {}
        self._last_line = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Report an event if it is important, or if nothing was for a minute."""
        match event:
            case RunStarted():
                self._folded = event.folded
                show_start(event, self._console)
            case CellStarted():
                self._print(f"  {event.cell_id}  started")
            case CellProgress() if time.monotonic() - self._last_line > _SILENCE:
                self._print(f"  {event.cell_id}  {event.done} of {event.total}: {event.step}")
            case CellFinished(result=result):
                mark, style = status_sign(result.status, self._console)
                text = describe_result(result, self._folded.get(result.cell.id))
                self._print(f"{mark} {result.cell.id:<{ID_WIDTH}}  {text}", style)
                failure = result.failure
                if failure and result.status is Status.FAILED and os.environ.get("GITHUB_ACTIONS"):
                    self._print(f"::error title={result.cell.id}::{failure.stage}: {failure.message}")
            case Transfer() if event.total and event.done >= event.total:
                self._print(f"  fetched {event.name} ({show_size(event.total)})")
            case Preparing() if not event.done:
                self._print(f"  {event.what}")
            case Notice():
                self._print(f"{event.level}: {event.text}", "yellow" if event.level == "warning" else None)
            case RunFinished():
                show_summary(event, self._out, self._console)
            case _:
                pass

    def _print(self, text: str, style: str | None = None) -> None:
        self._last_line = time.monotonic()
        print_words(self._console, text, style)


class VerboseReporter(PlainReporter):
    """Writes a line for each important event, and for each command that runs."""

    def __call__(self, event: Event) -> None:
        """Report an event if it is important or a command."""
        super().__call__(event)
        if isinstance(event, CommandStarted):
            # Not wrapped, so that it can be copied.
            self._console.print(f"  {event.cell_id}  $ {event.command}", style="dim", soft_wrap=True)
