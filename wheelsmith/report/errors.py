"""How a mistake is told: what, where, and what mends it."""

from __future__ import annotations

import sys

from wheelsmith.errors import Mistakes, WheelsmithError


def show_error(error: WheelsmithError) -> None:
    """Write a mistake, or each of several, to stderr."""
    for mistake in error.mistakes if isinstance(error, Mistakes) else (error,):
        _line("error", _one_line(str(mistake)))
        if mistake.remedy:
            _line("  help", _one_line(mistake.remedy))


def _line(label: str, text: str) -> None:
    # No rich here: an error must come at once, and in any terminal.
    sys.stderr.write(f"{label}: {text}\n")


def _one_line(text: str) -> str:
    """Make control characters visible: parts of a message may be somebody else's words."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text.replace("\n", " "))
