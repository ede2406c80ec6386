"""What a variant promises of a GPU and its driver, against its label and the code that it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wheelsmith.base.units import numbers
from wheelsmith.platforms import cuda_toolkits
from wheelsmith.wheel.gpu import GpuCode
from wheelsmith.wheel.variant_format import Variant, sm_values

# What NVIDIA's provider answers for: https://github.com/wheelnext/nvidia-variant-provider
_FEATURES = frozenset({"cuda_version_lower_bound", "cuda_version_upper_bound", "sm_arch"})
_CUDA = re.compile(r"\d{1,2}\.\d{1,2}")
# A label as wheelsmith spells it, ``cu130_80_90v``: such a label says what the properties are.
_SPELLED = re.compile(r"cu(?P<major>\d\d)(?P<minor>\d)(?P<archs>(?:_\d{2,3}[af]?v?)*)")


def property_mistakes(variant: Variant, code: GpuCode) -> Iterator[str]:
    """Find where the properties of a variant are not what its label says, or not what its code needs."""
    features = variant.properties.get("nvidia", {})
    yield from (f"no installer knows the feature {name}" for name in sorted(features.keys() - _FEATURES))
    claimed = features.get("sm_arch", ())
    runs = sm_values(code.machine_code, code.ptx)
    yield from (f"it says sm_arch {value}, and has no code for that" for value in claimed if value not in runs)
    if not variant.properties and code.present:
        yield "the null variant is for every machine, and it has GPU code"
    elif code.machine_code and not claimed:
        yield f"it has code for {', '.join(sorted(code.machine_code))}, and names no sm_arch: every GPU takes it"
    lower, upper = features.get("cuda_version_lower_bound", ()), features.get("cuda_version_upper_bound", ())
    bounds = [*lower, *upper]
    if wrong := [bound for bound in bounds if not _CUDA.fullmatch(bound)]:
        yield f"{wrong[0]} is no release of CUDA"
        return
    yield from _against_label(variant.label, lower, claimed)
    yield from _against_code(code, lower, upper)


def _against_label(label: str, lower: tuple[str, ...], claimed: tuple[str, ...]) -> Iterator[str]:
    spelled = _SPELLED.fullmatch(label)
    if spelled is None:
        return
    cuda = f"{spelled['major']}.{spelled['minor']}"
    if lower and cuda not in lower:
        yield f"the label says CUDA {cuda}, cuda_version_lower_bound says {', '.join(lower)}"
    named = {f"{arch.removesuffix('v')}_{'virtual' if arch.endswith('v') else 'real'}" for arch in _archs(spelled)}
    if other := sorted(named - set(claimed)):
        yield f"the label says {other[0]}, sm_arch says {', '.join(claimed) or 'nothing'}"


def _archs(spelled: re.Match[str]) -> list[str]:
    return [arch for arch in spelled["archs"].split("_") if arch]


def _against_code(code: GpuCode, lower: tuple[str, ...], upper: tuple[str, ...]) -> Iterator[str]:
    """Find what a driver that is let in cannot run: it runs machine code of its own major and of older ones."""
    needed = max((numbers(made)[0] for made in code.assemblers), default=0)
    if lower and (least := min(lower, key=numbers)) and numbers(least)[0] < needed:
        yield f"cuda_version_lower_bound says {least}, and CUDA {needed} made its code"
    if lower and upper and numbers(max(upper, key=numbers)) <= numbers(min(lower, key=numbers)):
        yield f"no CUDA is at least {min(lower, key=numbers)} and below {max(upper, key=numbers)}"
    if upper and numbers(max(upper, key=numbers))[0] < needed:
        yield f"cuda_version_upper_bound says {', '.join(upper)}, and CUDA {needed} made its code"
    known = [toolkit for version, toolkit in cuda_toolkits().items() if version in lower]
    reads = min((numbers(toolkit.ptx) for toolkit in known), default=None)
    newer = [version for version in sorted(code.ptx_versions, key=numbers) if reads and numbers(version) > reads]
    if newer and not code.machine_code:
        yield f"a driver of CUDA {min(lower, key=numbers)} does not read its PTX {newer[-1]}"
