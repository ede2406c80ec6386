"""What a wheel says of its GPU code, against the code itself."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.gpu_code import gpu_findings, planned_code
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.variant import variant_finding


def _compute_platform(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        yield from gpu_findings(name, extension, wheel.gpu_code[name], wheel.compute)


def _variant(wheel: Inspection) -> Iterator[Finding]:
    if label := wheel.name.label:
        yield variant_finding(wheel.variant_file, wheel.path.name, label, wheel.gpu_code.values())


def _planned(wheel: Inspection) -> Iterator[Finding]:
    if wheel.expected:
        yield planned_code(wheel.gpu_code.values(), wheel.expected)


COMPUTE_PLATFORM = Rule(
    name="compute-platform",
    proves="`+cpu` needs no CUDA; `+cu13x` needs `libcudart.so.13`; the GPU code found, by capability; every cubin was "
    "assembled by the ptxas of the version's CUDA: `+cu124` by 12.4's; no PTX is newer than it reads",
    examine=_compute_platform,
)
VARIANT = Rule(
    name="variant",
    proves="of a variant wheel: `variant.json` keeps the format, and there is code for every GPU that it names",
    examine=_variant,
)
PLANNED = Rule(
    name="gpu-code",
    proves="in a build: machine code and PTX for every capability that was asked for",
    examine=_planned,
)
