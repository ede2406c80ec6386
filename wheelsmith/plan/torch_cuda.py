"""Which CUDA the torch was built for that a package index gives."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from wheelsmith.frameworks import read_local_version
from wheelsmith.model import LockedWheel
from wheelsmith.platforms import cuda_of

_RUNTIME = re.compile(r"nvidia[-_.]cuda[-_.]runtime([-_.]cu\d+)?")


def torch_cuda(wheels: Iterable[LockedWheel]) -> str | None:
    """Return the CUDA of the torch among some wheels, as ``13.0``; None where neither it nor its runtime says."""
    found = tuple(wheels)
    try:
        torch = next((Version(wheel.version) for wheel in found if wheel.name == "torch"), None)
        if torch and torch.local:
            return cuda_of(read_local_version(torch.local).compute or "")
        runtime = next((Version(wheel.version) for wheel in found if _RUNTIME.fullmatch(wheel.name)), None)
    except InvalidVersion:
        return None
    return f"{runtime.major}.{runtime.minor}" if runtime else None


def why_other_cuda(wheels: Iterable[LockedWheel], cuda: str) -> str | None:
    """Say why nothing that a CUDA made can be built or run with the torch among some wheels; None where it can be."""
    built = torch_cuda(wheels)
    if built is None or built.partition(".")[0] == cuda.partition(".")[0]:
        return None
    return f"the torch that pip finds was built for CUDA {built}, not for CUDA {cuda}"
