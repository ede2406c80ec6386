"""The Python code of a wheel that is parsed, within what a parser may cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError
from wheelsmith.base.parse_cost import parsing_cost
from wheelsmith.base.zip_archive import Archive
from wheelsmith.wheel.headers import LONGEST_TEXT

# Of what all Python files that are parsed may cost, and one: for real ones it is an eighth of their bytes.
_MOST_CODE, _MOST_CODE_OF_ONE = 400_000, 120_000


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
        code = parsing_cost(data)
        if code > min(left, _MOST_CODE_OF_ONE):
            unread.append(name)
        elif code:
            left -= code
            sources[name] = data
    return PythonCode(sources=sources, unread=tuple(sorted(unread)))


class PythonFiles:
    """The Python files of a wheel, read one at a time, within what a parser may cost altogether."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._texts: dict[str, bytes] = {}
        self._left = _MOST_CODE
        self.names = tuple(name for name in archive.files if name.endswith(".py"))

    def mentioning(self, words: Iterable[bytes]) -> frozenset[str]:
        """Return the files that have one of these words, and those that are too long to be looked at."""
        found = re.compile(b"|".join(map(re.escape, words)))
        return frozenset(name for name in self.names if self._is_long(name) or found.search(self._archive.read(name)))

    def text(self, name: str) -> bytes | None:
        """Return what one of them holds; None where there is none.

        :raises WheelError: there is more code in it, or in all that were asked for, than is parsed.
        """
        if name not in self._archive.files:
            return None
        if name not in self._texts:
            data = b"" if self._is_long(name) else self._archive.read(name)
            code = parsing_cost(data)
            if self._is_long(name) or code > min(self._left, _MOST_CODE_OF_ONE):
                raise WheelError(f"{name} has more code than is parsed")
            self._left -= code
            self._texts[name] = data
        return self._texts[name]

    def _is_long(self, name: str) -> bool:
        return self._archive.files[name].size > LONGEST_TEXT
