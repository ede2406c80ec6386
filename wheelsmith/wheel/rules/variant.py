"""What a variant wheel names is what it holds."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.variant import variant_finding


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if label := wheel.name.label:
        yield variant_finding(wheel.variant_file, wheel.path.name, label, wheel.gpu_code.values())


RULE = Rule(
    name="variant",
    proves="of a variant wheel: `variant.json` keeps the format, and there is linked code for every GPU that it "
    "names; the null variant has none",
    leaves_open="that the code for a GPU that is named is all that the package needs there",
    examine=_examine,
)
