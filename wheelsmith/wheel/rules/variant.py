"""What a variant wheel names is what it holds."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.variant import variant_finding


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if label := wheel.name.label:
        yield variant_finding(wheel.variant_file, wheel.path.name, label, wheel.gpu_code.values())
        said, version = wheel.labelled.compute, wheel.local_version.compute
        if version and said and version != said:
            yield finding("variant", [f"the label says {said}, the version {version}: they compete within it"], "")
        if wheel.labelled.wrong:
            yield finding("variant", [reason.replace("version", "label") for reason in wheel.labelled.wrong], "")


RULE = Rule(
    name="variant",
    proves="of a variant wheel: `variant.json` keeps the format, there is linked code for every GPU that it "
    "names, and what made the code is no newer major than the CUDA that it asks for; a label such as `cu130_80` says "
    "the same; the null variant has none, and needs no CUDA",
    leaves_open="that the code for a GPU that is named is all that the package needs there",
    examine=_examine,
)
