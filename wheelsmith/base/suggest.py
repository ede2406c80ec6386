"""Suggest the right word or spelling for a wrong one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from wheelsmith.base.units import numbers

_RELEASE = re.compile(r"[A-Za-z]*[\s=_-]*(?P<digits>\d{1,4}(\.\d{1,3})?)", re.ASCII)


def closest(word: str, known: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """Return the known word that is most similar to a word in any case, or None if none is.

    :param cutoff: the least similarity, from 0 to 1.
    """
    import difflib  # only a mistake needs it

    lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=cutoff)
    return lower[found[0]] if found else None


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return ``did you mean 'torch'?``, or all known words if none is similar."""
    close = closest(word, known, cutoff=0.6)
    return f"did you mean {close!r}?" if close else f"choose one of: {', '.join(known)}"


def hint(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean cutlass? `` to begin a list of the known words; empty if none is similar."""
    close = closest(word, known)
    return f"did you mean {close}? " if close else ""


def nearest(release: str, known: Collection[str]) -> str:
    """Return the known release with the nearest numbers."""
    major, minor = numbers(release)
    return min(known, key=lambda name: [abs(major - numbers(name)[0]), abs(minor - numbers(name)[1])])


def respell_release(text: str, shape: re.Pattern[str], known: Collection[str]) -> str | None:
    """Return the spelling of a release as major and minor: 13.0 for ``cu130`` and ``13``. None if there is none.

    :param shape: matches the right spelling.
    :param known: the known releases, oldest first. If the minor is missing, .0 is preferred, then the newest one.
    """
    match = _RELEASE.fullmatch(text.strip())
    if match is None:
        return None
    digits = match["digits"]
    if "." in digits:
        return digits if shape.fullmatch(digits) else None
    if f"{digits}.0" in known:
        return f"{digits}.0"
    newest = next((name for name in reversed([*known]) if name.startswith(f"{digits}.")), None)
    split = (f"{digits[:n]}.{digits[n:]}" for n in range(1, len(digits)))
    return newest or next((each for each in split if shape.fullmatch(each) and (not known or each in known)), None)
