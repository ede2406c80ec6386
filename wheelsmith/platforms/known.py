"""The compute platforms that there are: a further one is a module, its facts, and a line here."""

from __future__ import annotations

from functools import cache

from wheelsmith.base.units import numbers
from wheelsmith.platforms.cuda import Cuda
from wheelsmith.platforms.platform import Platform

CPU = "cpu"


@cache
def platforms() -> dict[str, Platform]:
    """Return every platform with a toolkit by its name; the CPU needs none."""
    return {each.name: each for each in (Cuda(),)}


def platform_of(compute: str) -> tuple[Platform, str] | None:
    """Return the platform and its version that a name is of, as ``cu130``; None of ``cpu`` and of no platform's."""
    found = ((each, version) for each in platforms().values() if (version := each.version_of(compute)))
    return next(found, None)


def compute_name(compute: str) -> str:
    """Return ``CUDA 13.0`` of ``cu130``, and ``CPU`` of ``cpu``; another word as it is."""
    found = platform_of(compute)
    return f"{found[0].title} {found[1]}" if found else "CPU" if compute == CPU else compute


def compute_order(compute: str) -> tuple[int, ...]:
    """Order compute platforms: CPU first, then by platform and version."""
    found = platform_of(compute)
    return (list(platforms().values()).index(found[0]) + 1, *numbers(found[1])) if found else (0,)
