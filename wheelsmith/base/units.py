"""Sizes, durations and counts as people write them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)")
_UNITS = {
    "B": 1,
    **{f"{u}iB": 2 ** (10 * n) for n, u in enumerate("KMGT", 1)},
    **{f"{u}B": 10 ** (3 * n) for n, u in enumerate("KMGT", 1)},
}
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(s|m|h|d)")


def parse_size(text: str) -> int:
    """Return the bytes of ``8GiB``.

    :raises ValueError: it is no size.
    """
    match = _SIZE.fullmatch(text)
    if not match or float(match[1]) == 0:
        raise ValueError(f"{text!r} is not a size such as 8GiB")
    return int(float(match[1]) * _UNITS[match[2]])


def show_size(count: int) -> str:
    """Return ``97.3 kB`` or ``1.2 MB``, in powers of ten as package indexes do."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 file`` or ``2 files``.

    :param plural: where an s does not make it.
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def parse_seconds(text: str) -> float:
    """Return the seconds of ``90s``, ``45m``, ``2h`` or ``30d``.

    :raises ValueError: it is no duration.
    """
    match = _TIME.fullmatch(text)
    if not match or float(match[1]) == 0:
        raise ValueError(f"{text!r} is not a duration such as 90s, 45m, 2h or 30d")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
