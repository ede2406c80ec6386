"""RECORD tells what is in the wheel."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.archive import record_mistakes
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    contents = wheel.contents
    yield finding("record", record_mistakes(contents), f"{len(contents.files)} files are what RECORD says")


RULE = Rule(
    name="record",
    proves="every file is what RECORD says, and RECORD lists every file",
    examine=_examine,
)
