"""Escape untrusted text, so that terminals and CI systems do not interpret it as commands."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Runners of GitHub, Azure and TeamCity interpret `##name[` anywhere in a line as a command. GitHub also interprets a
# line that begins with two colons. Such commands set the outputs of a step or hide the text after them.
_COMMAND = re.compile(r"#(?=#\w*\[)|^\s*:(?=:)")
_MAX_TEXTS, _MAX_TEXT_LENGTH = 8, 60  # number of texts, characters of each


def visible(text: str) -> str:
    r"""Escape control sequences and CI commands: ESC becomes ``\x1b``, and ``##[`` becomes ``\x23#[``."""
    shown = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode("ascii") for c in text)
    return _COMMAND.sub(_escape_last, shown)


def _escape_last(command: re.Match[str]) -> str:
    return command[0][:-1] + f"\\x{ord(command[0][-1]):x}"


def join_truncated(texts: Sequence[str]) -> str:
    """Return the first texts, truncated and escaped, and the number of the others."""
    more = len(texts) - _MAX_TEXTS
    shown = visible(", ".join(text[:_MAX_TEXT_LENGTH] for text in texts[:_MAX_TEXTS]))
    return f"{shown} and {more} more" if more > 0 else shown
