"""Signs, colours and number formats that all reports share."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from textwrap import TextWrapper
from typing import TYPE_CHECKING

from wheelsmith.base.units import show_duration, show_size
from wheelsmith.model import BuildResult, Folded, Status, Timing

if TYPE_CHECKING:
    from rich.console import Console

# Length of the longest common cell name: torch211-cxx11-cu130-aarch64-linux.
ID_WIDTH = 34
_SIGNS = {
    Status.BUILT: ("✓", "+", "green"),
    Status.CACHED: ("✓", "=", "cyan"),
    Status.FOLDED: ("✓", "=", "cyan"),
    Status.UPSTREAM: ("✓", "=", "cyan"),
    Status.FAILED: ("✗", "x", "red"),
    Status.CANCELLED: ("-", "-", "yellow"),
}


def make_console(*, stderr: bool) -> Console:
    """Make a console. rich itself reads NO_COLOR, FORCE_COLOR and TERM."""
    from rich.console import Console

    # Lines in a pipe or a log are not wrapped, since the width of the reader is unknown.
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 10_000
    return Console(stderr=stderr, highlight=False, markup=False, width=width, emoji=False)


def print_words(console: Console, text: str, style: str | None = None, *, ending: str = "") -> None:
    """Print text, wrapped between words. A word that is longer than the terminal stays whole.

    :param ending: the end of each wrapped line but the last, e.g. a backslash for a shell.
    """
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    wrapper = TextWrapper(
        width=console.width - len(ending),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
    )
    lines = [
        part for line in text.splitlines() for part in (wrapper.wrap(line) if len(line) > console.width else [line])
    ]
    fitting = (line if len(line) <= console.width else line.lstrip() for line in lines)
    console.print(f"{ending}\n".join(fitting), style=style, soft_wrap=True)


def status_sign(status: Status, console: Console) -> tuple[str, str]:
    """Return the sign and style of a status. Signs have an ASCII form for other encodings than UTF."""
    fancy, plain, style = _SIGNS[status]
    return (fancy if (console.encoding or "").lower().startswith("utf") else plain), style


def wall_time(timings: Iterable[Timing]) -> str:
    """Return the total wall time of a cell's stages as text."""
    return show_duration(sum(timing.seconds for timing in timings))


def describe_result(result: BuildResult, shared: Folded | None) -> str:
    """Return a short text about the result of a cell.

    :param shared: the cell that provides a shared wheel, or None.
    """
    if shared and result.status is Status.FOLDED:
        return f"{result.status:>8}  {shared.cell}: {shared.reason}"
    if result.wheel:
        took = wall_time(result.timings) if result.timings else result.status.value
        return f"{took:>8}  {show_size(result.wheel.size):>9}  {result.wheel.filename}"
    failure = result.failure
    # The summary at the end shows the message, where it is easy to find.
    return f"{result.status}: {failure.stage}" if failure else result.status.value
