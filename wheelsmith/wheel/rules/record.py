"""RECORD tells what is in the wheel."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.archive.record import compare_record
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    wrong = compare_record(wheel.record, wheel.info, wheel.digests)
    yield finding("record", wrong, f"{len(wheel.files)} files are what RECORD says")


RULE = Rule(
    name="record",
    proves="every file is what RECORD says, by a hash no weaker than sha256, and RECORD lists every file but its "
    "signatures",
    leaves_open="who wrote RECORD: whoever changes a file can change both, and signatures are not verified",
    in_the_wild="decord 0.6.0: `top_level.txt` has another length and hash than RECORD says",
    examine=_examine,
)
