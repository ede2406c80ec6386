"""Failures and the last line, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from wheelsmith.model import CellFinished, Event, Status
from wheelsmith.report.summary import show_failure

if TYPE_CHECKING:
    from rich.console import Console


class QuietReporter:
    """Writes a cell's failure when it comes."""

    def __init__(self, console: Console, out: Path) -> None:
        self._console = console
        self._out = out

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    def __call__(self, event: Event) -> None:
        """Write the event if it is a failure."""
        if isinstance(event, CellFinished) and event.result.status is Status.FAILED:
            show_failure(event.result, self._out, self._console)
