"""Make text from others safe to print: terminals and build servers must not take it for commands."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Runners of GitHub, Azure and TeamCity take a line for a command wherever this stands in it, and GitHub's also where it
# begins with two colons: a step's outputs are set so, and what follows is hidden.
_COMMAND = re.compile(r"#(?=#\w*\[)|^\s*:(?=:)")
_SHOWN, _LONGEST_SHOWN = 8, 60  # texts, characters of each


def visible(text: str) -> str:
    r"""Escape what terminals and build servers obey: ESC becomes ``\x1b``, and ``##[`` becomes ``\x23#[``."""
    shown = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode("ascii") for c in text)
    return _COMMAND.sub(_escaped, shown)


def _escaped(command: re.Match[str]) -> str:
    return command[0][:-1] + f"\\x{ord(command[0][-1]):x}"


def some_of(texts: Sequence[str]) -> str:
    """Return the first few texts and the number of the others."""
    more = len(texts) - _SHOWN
    shown = visible(", ".join(text[:_LONGEST_SHOWN] for text in texts[:_SHOWN]))
    return f"{shown} and {more} more" if more > 0 else shown
