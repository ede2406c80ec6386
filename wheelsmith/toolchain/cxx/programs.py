"""Which programs of pinned compilers decide what they make."""

from __future__ import annotations

from pathlib import Path

_PLACES = (
    "bin/*g++",
    "bin/*gcc",
    "usr/bin/*",
    "usr/lib/gcc*/*/*/cc1*",
    "usr/lib/gcc*/*/*/collect2*",
    "runtime/lib/*/l*",
)


def programs_of(folder: Path) -> tuple[str, ...]:
    """Return the programs that decide the bytes of an object, below the compilers' folder."""
    found = (path for place in _PLACES for path in folder.glob(place) if not path.is_symlink())
    return tuple(sorted(str(path.relative_to(folder)) for path in found))
