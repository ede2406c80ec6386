"""Patterns in which a star stands for anything but a slash."""

from __future__ import annotations


def matches(text: str, pattern: str) -> bool:
    """Say whether a text is as a pattern has it."""
    parts, wanted = text.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(_matches_part, parts, wanted))


def _matches_part(text: str, pattern: str) -> bool:
    """Compare without going back: a regular expression with several stars may take for ever."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    last = rest.pop()
    if not text.startswith(first) or not text[len(first) :].endswith(last):
        return False
    place, end = len(first), len(text) - len(last)
    for word in rest:
        found = text.find(word, place, end)
        if found < 0:
            return False
        place = found + len(word)
    return place <= end
