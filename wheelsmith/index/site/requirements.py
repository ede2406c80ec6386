"""The requirements of a version's wheels, for the page of a project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wheelsmith.base.units import listed
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.resolve.target import ParsedWheel, glibc_of
from wheelsmith.index.site.picker import VersionOfWheels, compute_names, releases_of
from wheelsmith.model import TORCH
from wheelsmith.platforms import capability_order, compute_order


def requirements_of(version: VersionOfWheels) -> tuple[tuple[str, str], ...]:
    """Return pairs of a label and a text, for all wheels of a version together."""
    wheels = [wheel for wheel in version.wheels if wheel.yanked is None]
    cells = [cell for wheel in wheels for cell in wheel.cells]
    framework = cells[0].framework if cells else TORCH
    torch = releases_of(cells)
    others = (text for wheel in wheels for text in ParsedWheel(wheel).other_requirements(framework))
    gpu = sorted({name for wheel in wheels for name in wheel.gpu_archs}, key=capability_order)
    found = {
        "System": _system(wheels, sorted({cell.arch for cell in cells}, reverse=True)),
        "Python": "; ".join(_unique(wheel.requires_python for wheel in wheels)),
        (framework if torch else TORCH): torch or "; ".join(_unique(wheel.requires_torch for wheel in wheels)),
        "Compute": compute_names(sorted({cell.compute for cell in cells}, key=compute_order)),
        "GPU": _gpus(gpu),
        "CPU": _cpu_features(wheels),
        "Packages": ", ".join(_unique(others)),
    }
    return tuple((label, text) for label, text in found.items() if text)


def _cpu_features(wheels: Iterable[IndexEntry]) -> str:
    """Return the CPU's features that some code uses. Kernels choose this code when they run."""
    found = sorted({name for wheel in wheels for name in wheel.cpu_features})
    return f"some code for {', '.join(found)}" if found else ""


def _gpus(capabilities: list[str]) -> str:
    """Return the GPUs in words. The names of NVIDIA's architectures are numbers."""
    numbers = [text for text in capabilities if text[0].isdecimal()]
    names = [text for text in capabilities if text not in numbers]
    return "; ".join(
        f"{kind} {', '.join(found)}" for kind, found in (("compute capability", numbers), ("AMD", names)) if found
    )


def _system(wheels: Iterable[IndexEntry], archs: list[str]) -> str:
    """Return the operating system, the architectures and the oldest C library."""
    oldest = sorted({min(glibcs) for wheel in wheels if (glibcs := tuple(_glibcs(wheel)))})
    if not archs and not oldest:
        return ""
    text = f"Linux on {listed(archs)}" if archs else "Linux"
    first, *others = [f"{major}.{minor}" for major, minor in oldest] or [""]
    some = f" ({listed(others)} for some wheels)" if others else ""
    return f"{text}, glibc {first} or newer{some}" if first else text


def _glibcs(wheel: IndexEntry) -> Iterator[tuple[int, int]]:
    yield from (glibc for name in ParsedWheel(wheel).platforms if (glibc := glibc_of(name)))


def _unique(texts: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text))
