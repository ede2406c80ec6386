"""Make and check variant wheels (PEP 825): a plain wheel's content under a name that pip ignores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from wheelsmith.base.units import numbers
from wheelsmith.wheel.archive import open_wheel
from wheelsmith.wheel.gpu import GpuCode
from wheelsmith.wheel.relabel import with_version
from wheelsmith.wheel.repair import pack
from wheelsmith.wheel.variant_format import VARIANT_FILE, Variant, dump_variants, sm_values

# The features of NVIDIA's provider: https://github.com/wheelnext/nvidia-variant-provider
_FEATURES = frozenset({"cuda_version_lower_bound", "cuda_version_upper_bound", "sm_arch"})
_CUDA = re.compile(r"\d{1,2}\.\d{1,2}")
# A label in wheelsmith's own form, e.g. ``cu130_80_90v``, encodes the properties.
_LABEL = re.compile(r"cu(?P<major>\d\d)(?P<minor>\d)(?P<archs>(?:_\d{2,3}[af]?v?)*)")


def make_variant(plain: Path, variant: Variant, version: str, work: Path) -> Path:
    """Make a variant wheel from a finished wheel. The same wheel always gives the same bytes.

    Repair and check the plain wheel first: auditwheel cannot read the name of a variant wheel.

    :param version: version of the variant wheel, for the file name and METADATA.
    :param work: an empty folder for temporary files and the result.
    :raises WheelError: the plain wheel cannot be read.
    """
    made = with_version(open_wheel(plain), version)
    files = {**made.files, f"{made.info}/{VARIANT_FILE}": dump_variants([variant])}
    packed = pack(replace(made, files=files), work)
    return packed.rename(packed.with_name(f"{packed.stem}-{variant.label}.whl"))


def property_mistakes(variant: Variant, code: GpuCode) -> Iterator[str]:
    """Yield contradictions between the properties of a variant, its label and its GPU code."""
    features = variant.properties.get("nvidia", {})
    yield from (f"no installer supports the feature {name}" for name in sorted(features.keys() - _FEATURES))
    claimed = features.get("sm_arch", ())
    runs = sm_values(code.machine_code, code.ptx)
    yield from (f"it has sm_arch {value}, but no code for it" for value in claimed if value not in runs)
    if not variant.properties and code.present:
        yield "the null variant is for every machine, but it has GPU code"
    elif code.machine_code and not claimed:
        yield f"it has code for {', '.join(sorted(code.machine_code))}, but no sm_arch, so it fits every GPU"
    lower = features.get("cuda_version_lower_bound", ())
    upper = features.get("cuda_version_upper_bound", ())
    if invalid := [bound for bound in (*lower, *upper) if not _CUDA.fullmatch(bound)]:
        yield f"{invalid[0]} is not a release of CUDA"
        return
    yield from _label_mistakes(variant.label, lower, claimed)
    # A driver runs machine code from its own major release of CUDA and from older ones.
    needed = max((numbers(made)[0] for made in code.assemblers), default=0)
    if lower and numbers(least := min(lower, key=numbers))[0] < needed:
        yield f"cuda_version_lower_bound is {least}, but CUDA {needed} made its code"
    if upper and numbers(most := max(upper, key=numbers))[0] < needed:
        yield f"cuda_version_upper_bound is {most}, but CUDA {needed} made its code"


def _label_mistakes(label: str, lower: tuple[str, ...], claimed: tuple[str, ...]) -> Iterator[str]:
    match = _LABEL.fullmatch(label)
    if match is None:
        return
    cuda = f"{match['major']}.{match['minor']}"
    if lower and cuda not in lower:
        yield f"the label is for CUDA {cuda}, but cuda_version_lower_bound is {', '.join(lower)}"
    archs = filter(None, match["archs"].split("_"))
    named = {f"{arch.removesuffix('v')}_{'virtual' if arch.endswith('v') else 'real'}" for arch in archs}
    if other := sorted(named - set(claimed)):
        yield f"the label has {other[0]}, but sm_arch is {', '.join(claimed) or 'missing'}"
