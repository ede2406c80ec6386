"""Parse the names of a Hub repo's build folders, and find the cells that each serves.

The grammar is the Hub loader's: kernels/src/kernels/variants.py in huggingface/kernels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from packaging.version import Version

from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.sanitize import visible
from wheelsmith.frameworks import framework, frameworks, torch_releases
from wheelsmith.model import ARCHES, CUDA, TORCH, Cell
from wheelsmith.platforms import CPU, platform_of, platforms

_STABLE = "torch-stable-abi"
_COMPILED = re.compile(
    r"(?P<framework>[a-z]+(?:-[a-z]+)*)(?P<digits>\d{2,4})(?:-(?P<abi>cxx11|cxx98))?"
    r"-(?P<compute>[a-z]+\d*)-(?P<arch>[a-z0-9_]+)-(?P<os>[a-z]+)"
)
_NOARCH = re.compile(r"torch-(?P<backend>[a-z]+)")
_UNIVERSAL = "universal"  # in older repos: one folder for every backend
_BACKENDS = (CPU, CUDA)


class NoWheelError(Exception):  # the reason of a VariantResult
    """A build folder cannot become a wheel. The message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubVariant(Record):
    """The parsed name of a build folder.

    :param release: the framework's release; the oldest one for a stable-ABI build; None if nothing is compiled.
    :param backends: kernel-builder's names of the compute platforms; several only if nothing is compiled.
    :param toolkit: the toolkit of its GPU code; None for the CPU, and if nothing is compiled.
    :param cxx11_abi: None if the name does not contain the C++ ABI.
    """

    name: str
    framework: str
    release: str | None
    stable_abi: bool
    backends: tuple[str, ...]
    toolkit: str | None
    arch: str | None
    cxx11_abi: bool | None = None


def read_variant_name(name: str) -> HubVariant:
    """Parse the name of a build folder.

    :raises NoWheelError: it is not the name of a variant, or it is for an unsupported platform.
    """
    if noarch := _NOARCH.fullmatch(name):
        return _noarch(name, noarch["backend"])
    found = _COMPILED.fullmatch(name)
    stable = found is not None and found["framework"] == _STABLE
    framework_name = TORCH if stable else found["framework"] if found else ""
    if found is None or framework_name not in frameworks() or not framework(framework_name).on_hub:
        raise NoWheelError(f"{visible(name[:80])!r} is not a variant name")
    if found["os"] != "linux":
        raise NoWheelError(f"it is for {found['os']}, but wheelsmith makes wheels for Linux")
    if found["arch"] not in ARCHES:
        raise NoWheelError(f"it is for {found['arch']}, but wheelsmith makes wheels for {' and '.join(ARCHES)}")
    platform = platform_of(found["compute"])
    if platform is None and found["compute"] != CPU:
        raise _unsupported_platform(found["compute"])
    if platform and platform[1] not in (known := platform[0].toolkits()):
        raise NoWheelError(f"{platform[0].title} {platform[1]} is not known: wheelsmith knows {', '.join(known)}")
    return HubVariant(
        name=name,
        framework=framework_name,
        release=f"{found['digits'][0]}.{found['digits'][1:]}",
        stable_abi=stable,
        backends=(platform[0].name if platform else CPU,),
        toolkit=platform[1] if platform else None,
        arch=found["arch"],
        cxx11_abi=None if found["abi"] is None else found["abi"] == "cxx11",
    )


def _noarch(name: str, backend: str) -> HubVariant:
    if backend != _UNIVERSAL and backend not in _BACKENDS:
        raise _unsupported_platform(backend)
    backends = _BACKENDS if backend == _UNIVERSAL else (backend,)
    return HubVariant(
        name=name, framework=TORCH, release=None, stable_abi=False, backends=backends, toolkit=None, arch=None
    )


def _unsupported_platform(compute: str) -> NoWheelError:
    known = ["the CPU", *(each.title for name, each in platforms().items() if name in _BACKENDS)]
    return NoWheelError(f"it is for {compute}, but wheelsmith repacks builds for {' and '.join(known)}")


def cells_of(variant: HubVariant) -> tuple[Cell, ...]:
    """Return every cell that a variant serves.

    A stable-ABI build serves every torch from its release on. A folder without compiled code serves every cell.

    :raises NoWheelError: it serves no known cell.
    """
    if variant.release is None:
        everything = (
            _cell(variant.framework, release, toolkit, arch)
            for release, known in reversed(torch_releases().items())  # the plan names the first one
            for backend in variant.backends
            for toolkit in ((None,) if backend == CPU else known.cuda)
            for arch in ARCHES
        )
        return tuple(cell for cell in everything if _why_not(cell) is None)
    own = _cell(variant.framework, variant.release, variant.toolkit, variant.arch or "")
    if variant.stable_abi:
        floor = Version(variant.release)
        later = (release for release in framework(variant.framework).releases() if Version(release) >= floor)
        cells = (_cell(own.framework, release, own.toolkit, own.arch) for release in later)
        if found := tuple(cell for cell in cells if _why_not(cell) is None):
            return found
        raise NoWheelError(f"it is for torch {variant.release} and newer, but wheelsmith knows none for {own.compute}")
    if why := _why_not(own):
        raise NoWheelError(why)
    if variant.cxx11_abi is not None and own.cxx11_abi is not None and variant.cxx11_abi != own.cxx11_abi:
        has = "the C++11 ABI" if own.cxx11_abi else "the C++ ABI from before C++11"
        raise NoWheelError(
            f"torch {own.release} for {own.compute} on {own.arch} has {has}, but this build has the other one"
        )
    return (own,)


def _cell(name: str, release: str, toolkit: str | None, arch: str) -> Cell:
    cell = Cell(framework=name, release=release, toolkit=toolkit, arch=arch)
    return replace(cell, cxx11_abi=framework(name).cxx11_abi(release, arch, toolkit))


def _why_not(cell: Cell) -> str | None:
    return framework(cell.framework).why_impossible(cell, any_minor=False)
