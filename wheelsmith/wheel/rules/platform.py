"""What the platform must have: auditwheel's analysis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from wheelsmith.wheel import auditwheel
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

# PEP 600's names for the platforms of PEP 513, 571 and 599.
_LEGACY = {"manylinux1_": "manylinux_2_5_", "manylinux2010_": "manylinux_2_12_", "manylinux2014_": "manylinux_2_17_"}
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if not wheel.extensions:
        return
    shown = auditwheel.show(wheel.path)
    claimed = sorted({tag.platform for tag in wheel.name.tags})
    earned = str(shown["sym_tag"])
    wrong = [f"the tag says {tag}, the symbols need {earned}" for tag in claimed if not _no_older(tag, earned)]
    yield finding("platform-tag", wrong, f"{', '.join(claimed)}: the symbols need {earned}")
    foreign = [name for name in shown["external_libs"] if not _matches(name, auditwheel.PROVIDED)]
    yield finding(
        "libraries",
        [f"{name} is neither the platform's nor torch's" for name in foreign],
        f"from torch and CUDA: {', '.join(sorted(shown['external_libs'])) or 'none'}",
    )


def _no_older(claimed: str, earned: str) -> bool:
    """Say whether every machine that ``claimed`` names has the symbols that ``earned`` names."""
    for old, new in _LEGACY.items():
        claimed = claimed.replace(old, new)
    one, other = _MANYLINUX.fullmatch(claimed), _MANYLINUX.fullmatch(earned)
    if not one or not other:
        return claimed == earned
    return one[3] == other[3] and (int(one[1]), int(one[2])) >= (int(other[1]), int(other[2]))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


RULE = Rule(
    name="platform-tag",
    proves="the tag promises no older glibc and libstdc++ than the symbols need, and every library is the platform's, "
    "torch's or CUDA's",
    examine=_examine,
)
