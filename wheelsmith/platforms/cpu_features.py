"""Instructions that only some CPUs have, such as AVX-512: compiler flags for them, and those of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from wheelsmith.base.files import read_facts

_CPUINFO = Path("/proc/cpuinfo")
_LISTED = re.compile(r"^(?:flags|Features)\s*:(.*)$", re.MULTILINE)


@cache
def _flags() -> dict[str, tuple[str, ...]]:
    known = read_facts(__package__, "cpu_features.json")["flags"]
    return {flag: tuple(names) for flag, names in known.items()}


def features_of_flags(argv: Iterable[str]) -> tuple[str, ...]:
    """Return the features that compiler flags allow, with the names of /proc/cpuinfo, sorted.

    ``-mavx512f`` allows ``avx512f``, and ``-march=armv8.2-a+sve`` allows ``sve``.
    """
    found = set[str]()
    for word in argv:
        if word.startswith("-march="):
            base, *extensions = word.removeprefix("-march=").split("+")
            named = (f"-march={base}", *(f"+{name}" for name in extensions))
        else:
            named = (word,)
        found.update(feature for name in named for feature in _flags().get(name, ()))
    return tuple(sorted(found))


def machine_features() -> tuple[str, ...] | None:
    """Return the features of this machine's CPU that compiler flags can require, sorted; None if they are unknown."""
    try:
        listed = _LISTED.search(_CPUINFO.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    known = {feature for features in _flags().values() for feature in features}
    return tuple(sorted(known & set(listed[1].split()))) if listed else None
