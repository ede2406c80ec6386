"""Text for figures."""

from __future__ import annotations

WAY_NAMES = {
    "usual": "the usual loop",
    "careful": "the careful loop",
    "cold": "wheelsmith, empty cache",
    "ready": "wheelsmith, cached toolchains",
    "warm": "wheelsmith, no changes",
}
_MINUTE, _HOUR = 60, 3600
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_EXACT = 10


def duration(seconds: float) -> str:
    """Return a duration as text such as ``4.5 s``, ``52 s``, ``3 min 05 s`` or ``1 h 02 min``."""
    if seconds < _EXACT:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"


def size(count: float | None) -> str:
    """Return a size as text such as ``2.5 GB``, or ``?`` if unknown."""
    if count is None:
        return "?"
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.{1 if count < _EXACT * unit else 0}f} {name}"
    return f"{count:.0f} B"


def times(more: float | None, less: float | None) -> str:
    """Return a ratio as text such as ``47×``, or a dash if a value is missing or zero."""
    if not more or not less:
        return "–"
    return f"{more / less:.{1 if more < _EXACT * less else 0}f}×"
