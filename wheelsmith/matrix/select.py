"""Pick cells by their names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from wheelsmith.base.errors import SelectionError
from wheelsmith.model import Cell, Excluded

_MOST_BRACES = 6  # each multiplies what a pattern stands for
_BRACES = re.compile(r"\{([^{}]*)\}")


def select(
    answers: Sequence[Cell | Excluded], *, only: Sequence[str] = (), skip: Sequence[str] = ()
) -> tuple[Cell | Excluded, ...]:
    """Keep the answers whose cell's id a pattern of ``only`` matches and none of ``skip`` does.

    Patterns are globs with braces: ``torch2{11,13}-*-cu130-*``.

    :raises SelectionError: a pattern matches no cell, or nothing is left.
    """
    ids = [cell_of(answer).id for answer in answers]
    for pattern in (*only, *skip):
        if not any(matches(pattern, name) for name in ids):
            raise SelectionError(f"{pattern!r} matches no cell", remedy=_suggest(pattern, ids))
    kept = tuple(
        answer
        for answer, name in zip(answers, ids, strict=True)
        if (not only or any(matches(p, name) for p in only)) and not any(matches(p, name) for p in skip)
    )
    if not kept:
        raise SelectionError("the selection leaves no cell", remedy="see every cell's name with: wheelsmith plan")
    return kept


def cell_of(answer: Cell | Excluded) -> Cell:
    """Return the cell that an answer is about."""
    return answer.cell if isinstance(answer, Excluded) else answer


def matches(pattern: str, name: str) -> bool:
    """Say whether a glob with braces matches a name."""
    return any(fnmatchcase(name, glob) for glob in _expand_braces(pattern))


def _expand_braces(pattern: str) -> Iterator[str]:
    match = _BRACES.search(pattern)
    if pattern.count("{") > _MOST_BRACES:
        raise SelectionError(f"more than {_MOST_BRACES} braces in one pattern")
    if not match:
        yield pattern
        return
    for choice in match[1].split(","):
        yield from _expand_braces(pattern[: match.start()] + choice + pattern[match.end() :])


def _suggest(pattern: str, ids: list[str]) -> str:
    close = difflib.get_close_matches(pattern, ids, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}see every cell's name with: wheelsmith plan"
