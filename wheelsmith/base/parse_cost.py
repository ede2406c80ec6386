"""What it costs to parse Python that somebody else wrote."""

from __future__ import annotations

import re
import string

_LETTERS = (string.ascii_letters + string.digits + "_ \t\r").encode()
_LINE_END = re.compile(rb"[\r\n]")
_HEAD = 4  # the first two lines, where each ends with two signs
_ENCODING = re.compile(rb"coding[:=][ \t]*([-\w.]*)")
_PLAIN = re.compile(rb"(utf[-_]?8|latin[-_]?1|(us[-_])?ascii|iso[-_]8859[-_]\d+|cp125\d)", re.IGNORECASE)
_QUADRATIC = 17  # bits: at half a second the squares begin to count


def parsing_cost(source: bytes) -> int:
    """Return how many signs that are no letters a file has: each may become a kilobyte of tree.

    In an encoding that is not a common one, every byte may be one: UTF-7 writes signs as letters. And there are those
    that take ten minutes to decode two megabytes.
    """
    head = b"\n".join(_LINE_END.split(source, maxsplit=_HEAD)[:_HEAD])
    if all(_PLAIN.fullmatch(name) for name in _ENCODING.findall(head)):
        return len(source.translate(None, _LETTERS))
    return max(len(source), len(source) ** 2 >> _QUADRATIC)
