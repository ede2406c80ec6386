"""All the GPU code that was planned is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wheelsmith.model import WheelSpec
from wheelsmith.wheel.gpu import GpuCode
from wheelsmith.wheel.gpu.code import joined
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def compare(codes: Iterable[GpuCode], spec: WheelSpec) -> Finding:
    """Compare all the code of a wheel with what the plan asked for."""
    code = joined(codes)
    missing = [
        f"no machine code for {c}" + (", only what has yet to be linked" if c in code.relocatable else "")
        for c in map(_base, spec.gpu_archs)
        if c not in code.machine_code
    ]
    missing += [f"no PTX for {_base(c)}" for c in spec.gpu_archs if c.endswith("+PTX") and _base(c) not in code.ptx]
    return finding("gpu-code", missing, f"code for {', '.join(spec.gpu_archs) or 'no GPU'}, as planned")


def _base(capability: str) -> str:
    return capability.removesuffix("+PTX")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if wheel.expected:
        yield compare(wheel.gpu_code.values(), wheel.expected)


RULE = Rule(
    name="gpu-code",
    proves="in a build: linked machine code and PTX for every capability that was asked for",
    leaves_open="that every kernel has code for each of them: one is enough",
    examine=_examine,
)
