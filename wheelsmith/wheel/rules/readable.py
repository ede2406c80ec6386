"""The file is one archive, and every unzipper reads the same in it."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.base.units import counted
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    """Say what was read: a wheel that cannot be read never comes to a rule, and is refused under this name."""
    size = sum(digest.size for digest in wheel.digests.values())
    yield Finding(rule=RULE.name, ok=True, message=f"{counted(len(wheel.files), 'file')}, {size} bytes")


RULE = Rule(
    name="readable",
    proves="the file is one zip archive without gaps, prefix or second archive, whose directory and local headers say "
    "the same; members are stored or deflated, each once, with a plain name and kind, and unpack to what is said; "
    "there is one `.dist-info` folder with METADATA, WHEEL and RECORD; nothing in it is out of proportion",
    leaves_open="links and special files are refused, though some unzippers make them",
    examine=_examine,
)
