"""Parse and format sizes, durations, times, counts, lists and releases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise

from packaging.version import InvalidVersion, Version

_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)")
_UNITS = {
    "B": 1,
    **{f"{u}iB": 2 ** (10 * n) for n, u in enumerate("KMGT", 1)},
    **{f"{u}B": 10 ** (3 * n) for n, u in enumerate("KMGT", 1)},
}
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(s|m|h|d)")
# Other spellings, such as 8G, 8gib and 45 min.
_OTHER_SIZE = re.compile(r"([0-9.]{1,9})\s*([KMGT])(i?b)?", re.ASCII | re.IGNORECASE)
_OTHER_TIME = re.compile(r"([0-9.]{1,9})\s*([smhd])(ec|econd|in|inute|r|our|ay)?s?", re.ASCII | re.IGNORECASE)
_SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


def parse_size(text: str) -> int:
    """Return the number of bytes of a size such as ``8GiB``.

    :raises ValueError: the text is not a size.
    """
    match = _SIZE.fullmatch(text)
    if not match or float(match[1]) == 0:
        meant = None if match else _OTHER_SIZE.fullmatch(text)
        unit = f"{meant[2].upper()}{'B' if meant[3] in {'b', 'B'} else 'iB'}" if meant else ""
        raise ValueError(f"{text!r} is not a size{f': write {meant[1]}{unit}' if meant else ' such as 8GiB'}")
    return int(float(match[1]) * _UNITS[match[2]])


def show_size(count: int) -> str:
    """Format bytes as ``97.3 kB`` or ``1.2 MB``. The units are powers of ten, as on package indexes."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def show_binary_size(count: int) -> str:
    """Format memory and limits as ``64 MiB`` or ``1.5 GiB``. The units are powers of two, as in the settings."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count >= _UNITS[unit]:
            return f"{count / _UNITS[unit]:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} B"


def show_duration(seconds: float) -> str:
    """Format seconds as ``0.4s``, ``12s``, ``3m 5s``, ``2h 10m`` or ``12d 5h``."""
    if seconds < 10:  # noqa: PLR2004  # tenths are useful below this
        return f"{seconds:.1f}s" if seconds % 1 else f"{seconds:.0f}s"
    whole = round(seconds)
    for (unit, scale), (smaller, step) in pairwise((("d", 86400), ("h", 3600), ("m", 60), ("s", 1))):
        if whole >= scale:
            rest = whole % scale // step
            return f"{whole // scale}{unit} {rest}{smaller}" if rest else f"{whole // scale}{unit}"
    return f"{whole}s"


def show_moment(seconds: float) -> str:
    """Format a time as ``2026-01-02T03:04:05Z`` in UTC.

    :param seconds: since 1970.
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Format a count as ``1 file`` or ``2 files``.

    :param plural: an irregular plural of the noun.
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[str]) -> str:
    """Join names as ``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


@cache
def numbers(release: str) -> tuple[int, ...]:
    """Return a release such as ``2.11`` as a tuple of numbers, which sorts after ``2.9``; ``3.14t`` after ``3.14``."""
    plain = release.removesuffix("t")
    return (*(int(part) for part in plain.split(".") if part), *((1,) if plain != release else ()))


@cache
def is_prerelease(release: str | None) -> bool:
    """Return True for a pre-release such as ``2.16.0rc2`` or ``2.17.0.dev20261120``; False for other texts."""
    try:
        return Version(release or "0").is_prerelease
    except InvalidVersion:
        return False


def release_order(release: str) -> Version:
    """Return a sort key for releases of a framework: ``2.9``, ``2.16.0rc2``, ``2.16``. "" is the first."""
    return Version(release or "0.dev0")


def parse_shard(text: str) -> tuple[int, int] | None:
    """Return the number and the count of a shard such as ``2/3``, or None if the text is not one."""
    match = _SHARD.fullmatch(text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    return (number, count) if 1 <= number <= count else None


def parse_seconds(text: str) -> float:
    """Return the number of seconds of a duration such as ``90s``, ``45m``, ``2h`` or ``30d``.

    :raises ValueError: the text is not a duration.
    """
    match = _TIME.fullmatch(text)
    if not match or float(match[1]) == 0:
        meant = None if match else _OTHER_TIME.fullmatch(text)
        spelled = f": write {meant[1]}{meant[2].lower()}" if meant else " such as 90s, 45m, 2h or 30d"
        raise ValueError(f"{text!r} is not a duration{spelled}")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
