"""The Python code of a wheel that is parsed, within what a parser may cost."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

from wheelsmith.wheel.archive.reader import Archive
from wheelsmith.wheel.headers import LONGEST_TEXT

# Signs that are no letters, of all Python files that are parsed and of one: real ones have one in eight bytes.
_MOST_CODE, _MOST_CODE_OF_ONE = 400_000, 120_000
_LETTERS = (string.ascii_letters + string.digits + "_ \t\r").encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCode:
    """Python files, by their paths in the wheel.

    :param sources: what can be parsed at leisure.
    :param unread: files with more code than is parsed.
    """

    sources: dict[str, bytes]
    unread: tuple[str, ...]


def read_python_code(archive: Archive, words: Sequence[bytes]) -> PythonCode:
    """Read every Python file that has one of these words, or is too long to be looked at."""
    sources: dict[str, bytes] = {}
    unread: list[str] = []
    left = _MOST_CODE
    for name, member in archive.files.items():
        if not name.endswith(".py"):
            continue
        if member.size > LONGEST_TEXT:
            unread.append(name)
            continue
        data = archive.read(name)
        if not any(word in data for word in words):
            continue
        # What a parser makes of a file grows with what is no letter in it.
        code = len(data.translate(None, _LETTERS))
        if code > min(left, _MOST_CODE_OF_ONE):
            unread.append(name)
        elif code:
            left -= code
            sources[name] = data
    return PythonCode(sources=sources, unread=tuple(sorted(unread)))
