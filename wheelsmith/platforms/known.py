"""The list of known compute platforms.

To add a platform, write a module and a facts file, and add it here.
"""

from __future__ import annotations

from functools import cache

from wheelsmith.base.units import numbers
from wheelsmith.platforms.cuda import Cuda
from wheelsmith.platforms.platform import Platform
from wheelsmith.platforms.rocm import Rocm
from wheelsmith.platforms.xpu import Xpu

CPU = "cpu"


@cache
def platforms() -> dict[str, Platform]:
    """Return every platform that has a toolkit, by name. The CPU is not among them."""
    return {each.name: each for each in (Cuda(), Rocm(), Xpu())}


def platform_of(compute: str) -> tuple[Platform, str] | None:
    """Return the platform and version of a name such as ``cu130``, ``rocm7.2``; None for ``cpu`` and unknown names."""
    found = ((each, version) for each in platforms().values() if (version := each.version_of(compute)))
    return next(found, None)


def platform_name(compute: str) -> str | None:
    """Return the platform of a compute name, e.g. ``cuda`` for ``cu130``; None for ``cpu`` and unknown names."""
    found = platform_of(compute)
    return found[0].name if found else None


@cache
def compute_shape() -> str:
    """Return the pattern of all names of compute platforms, which are also names of index roots."""
    return "|".join((CPU, *(each.compute_shape for each in platforms().values())))


def check_capability(text: str) -> None:
    """Validate a GPU architecture of any platform.

    :raises ValueError: it belongs to none; the message shows the correct form.
    """
    if not any(each.is_capability(text) for each in platforms().values()):
        named = [each for each in platforms().values() if text.lower().startswith(each.capability_prefix)]
        max(named, key=lambda each: len(each.capability_prefix)).check_capability(text)


def capability_order(text: str) -> tuple[int, tuple[object, ...]]:
    """Return a sort key for GPU architectures: by platform, then in the platform's own order.

    :raises ValueError: no platform has it.
    """
    check_capability(text)
    places = enumerate(platforms().values())
    return next((place, each.capability_order(text)) for place, each in places if each.is_capability(text))


def compute_name(compute: str) -> str:
    """Return the display name: ``CUDA 13.0`` for ``cu130``, ``CPU`` for ``cpu``, any other name unchanged."""
    found = platform_of(compute)
    return f"{found[0].title} {found[1]}" if found else "CPU" if compute == CPU else compute


def compute_order(compute: str) -> tuple[int, ...]:
    """Return a sort key: the CPU first, then by platform and version."""
    found = platform_of(compute)
    return (list(platforms().values()).index(found[0]) + 1, *numbers(found[1])) if found else (0,)
