"""METADATA keeps its specification."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.metadata import Metadata

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    text = wheel.text(f"{wheel.info}/METADATA")
    try:
        Metadata.from_email(text, validate=True)
        wrong = []
    except ExceptionGroup as group:
        wrong = [str(error) for error in group.exceptions]
    yield finding("metadata", wrong, "METADATA keeps the core metadata specification")


RULE = Rule(
    name="metadata",
    proves="METADATA keeps the core metadata specification",
    examine=_examine,
)
