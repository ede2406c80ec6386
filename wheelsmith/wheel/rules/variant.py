"""A variant wheel holds what its variant names."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.gpu import joined
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.variant import property_mistakes
from wheelsmith.wheel.variant_format import VARIANT_FILE, variant_of


def _examine(wheel: Inspection) -> Iterator[Finding]:
    label = wheel.name.label
    if not label:
        return
    variant = variant_of(wheel.info_file(VARIANT_FILE), wheel.path.name, label)
    wrong = list(property_mistakes(variant, joined(wheel.gpu_code.values())))
    said, version = wheel.labelled.compute, wheel.local_version.compute
    if version and said and version != said:
        wrong.append(f"the label says {said}, the version {version}: they compete within it")
    wrong += [reason.replace("version", "label") for reason in wheel.labelled.wrong]
    claimed = variant.properties.get("nvidia", {}).get("sm_arch", ())
    yield finding("variant", wrong, f"{label}: {', '.join(claimed) or 'any GPU or none'}")


RULE = Rule(
    name="variant",
    proves="of a variant wheel: `variant.json` keeps the format, there is linked code for every GPU that it "
    "names, and what made the code is no newer major than the CUDA that it asks for; a label such as `cu130_80` says "
    "the same; the null variant has none, and needs no CUDA",
    leaves_open="that the code for a GPU that is named is all that the package needs there",
    examine=_examine,
)
