"""The list of known compute platforms.

To add a platform, write a module and a facts file, and add it here.
"""

from __future__ import annotations

from functools import cache

from wheelsmith.base.units import numbers
from wheelsmith.platforms.cuda import Cuda
from wheelsmith.platforms.platform import Platform

CPU = "cpu"


@cache
def platforms() -> dict[str, Platform]:
    """Return every platform that has a toolkit, by name. The CPU is not among them."""
    return {each.name: each for each in (Cuda(),)}


def platform_of(compute: str) -> tuple[Platform, str] | None:
    """Return the platform and version of a name such as ``cu130``; None for ``cpu`` and unknown names."""
    found = ((each, version) for each in platforms().values() if (version := each.version_of(compute)))
    return next(found, None)


def compute_name(compute: str) -> str:
    """Return the display name: ``CUDA 13.0`` for ``cu130``, ``CPU`` for ``cpu``, any other name unchanged."""
    found = platform_of(compute)
    return f"{found[0].title} {found[1]}" if found else "CPU" if compute == CPU else compute


def compute_order(compute: str) -> tuple[int, ...]:
    """Return a sort key: the CPU first, then by platform and version."""
    found = platform_of(compute)
    return (list(platforms().values()).index(found[0]) + 1, *numbers(found[1])) if found else (0,)
