"""How a mistake is told: what, where, and what fixes it."""

from __future__ import annotations

import sys

from wheelsmith.base.errors import MatrixMistakesError, WheelsmithError
from wheelsmith.base.sanitize import visible

_LONGEST = 2000  # characters of what may quote a stranger's file


def show_error(error: WheelsmithError) -> None:
    """Write a mistake, or each of several, to stderr."""
    for mistake in error.mistakes if isinstance(error, MatrixMistakesError) else (error,):
        _line("error", visible(str(mistake)[:_LONGEST].replace("\n", " ")))
        if mistake.remedy:
            _line("  help", visible(mistake.remedy.replace("\n", " ")))


def _line(label: str, text: str) -> None:
    # No rich here: an error must come at once, and in any terminal.
    sys.stderr.write(f"{label}: {text}\n")
