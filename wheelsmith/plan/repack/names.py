"""The names of a Hub repo's build folders: what each was built for, and which cells that serves.

The grammar is the Hub loader's: kernels/src/kernels/variants.py in huggingface/kernels.
"""

from __future__ import annotations

import re
from dataclasses import replace

from packaging.version import Version

from wheelsmith.base.sanitize import visible
from wheelsmith.frameworks import Framework, framework, frameworks, torch_releases
from wheelsmith.model import CUDA, TORCH, Cell
from wheelsmith.plan.repack.types import HubVariant
from wheelsmith.platforms import CPU, platform_of, platforms

_STABLE = "torch-stable-abi"
_COMPILED = re.compile(
    r"(?P<framework>[a-z]+(?:-[a-z]+)*)(?P<digits>\d{2,4})(?:-(?P<abi>cxx11|cxx98))?"
    r"-(?P<compute>[a-z]+\d*)-(?P<arch>[a-z0-9_]+)-(?P<os>[a-z]+)"
)
_NOARCH = re.compile(r"torch-(?P<backend>[a-z]+)")
# What ``torch-<backend>`` was called when one folder was for all.
_UNIVERSAL = "universal"
_BACKENDS = (CPU, CUDA)
_ARCHS = ("x86_64", "aarch64")


def read_variant_name(name: str) -> HubVariant | str:
    """Return what a build folder is for, or why no wheel is made of it."""
    if noarch := _NOARCH.fullmatch(name):
        return _noarch(name, noarch["backend"])
    found = _COMPILED.fullmatch(name)
    stable = found is not None and found["framework"] == _STABLE
    calls = TORCH if stable else found["framework"] if found else ""
    if found is None or calls not in frameworks():
        return f"{visible(name[:80])!r} is no name of a variant"
    if found["os"] != "linux":
        return f"it is for {found['os']}, and wheels are made for Linux"
    if found["arch"] not in _ARCHS:
        return f"it is for {found['arch']}, and wheels are made for {' and '.join(_ARCHS)}"
    platform = platform_of(found["compute"])
    if platform is None and found["compute"] != CPU:
        return _foreign(found["compute"])
    if platform and platform[1] not in platform[0].toolkits():
        return f"{platform[0].title} {platform[1]} is not known: wheelsmith knows {', '.join(platform[0].toolkits())}"
    return HubVariant(
        name=name,
        framework=calls,
        release=f"{found['digits'][0]}.{found['digits'][1:]}",
        stable_abi=stable,
        backends=(platform[0].name if platform else CPU,),
        toolkit=platform[1] if platform else None,
        arch=found["arch"],
        cxx11_abi=None if found["abi"] is None else found["abi"] == "cxx11",
    )


def cells_of(variant: HubVariant) -> tuple[Cell, ...] | str:
    """Return every cell that a variant serves, or why it serves none that is known.

    What is built for torch's stable ABI serves every torch from its floor on, and what is not compiled serves all.
    """
    calls = framework(variant.framework)
    if variant.release is None:
        everything = (
            _cell(calls, release, toolkit, arch)
            for release, known in reversed(torch_releases().items())  # wheels name the first as what they are made for
            for backend in variant.backends
            for toolkit in ((None,) if backend == CPU else known.cuda)
            for arch in _ARCHS
        )
        return tuple(cell for cell in everything if _why_not(calls, cell) is None)
    asked = _cell(calls, variant.release, variant.toolkit, variant.arch or "")
    if variant.stable_abi:
        floor = Version(variant.release)
        later = (replace(asked, release=release) for release in calls.releases() if Version(release) >= floor)
        cells = tuple(_with_abi(calls, cell) for cell in later)
        return tuple(c for c in cells if _why_not(calls, c) is None) or (
            f"it is for torch {variant.release} and newer, of which wheelsmith knows none for {asked.compute}"
        )
    if why := _why_not(calls, asked):
        return why
    if variant.cxx11_abi is not None and asked.cxx11_abi is not None and variant.cxx11_abi != asked.cxx11_abi:
        has = "the C++11 ABI" if asked.cxx11_abi else "the C++ ABI from before C++11"
        return f"torch {asked.release} for {asked.compute} on {asked.arch} has {has}, and this build the other one"
    return (asked,)


def _noarch(name: str, backend: str) -> HubVariant | str:
    if backend != _UNIVERSAL and backend not in _BACKENDS:
        return _foreign(backend)
    backends = _BACKENDS if backend == _UNIVERSAL else (backend,)
    return HubVariant(
        name=name, framework=TORCH, release=None, stable_abi=False, backends=backends, toolkit=None, arch=None
    )


def _foreign(compute: str) -> str:
    known = ["the CPU", *(each.title for each in platforms().values())]
    return f"it is for {compute}, and wheels are made for {' and '.join(known)}"


def _cell(calls: Framework, release: str, toolkit: str | None, arch: str) -> Cell:
    return _with_abi(calls, Cell(framework=calls.name, release=release, toolkit=toolkit, arch=arch))


def _with_abi(calls: Framework, cell: Cell) -> Cell:
    return replace(cell, cxx11_abi=calls.cxx11_abi(cell.release, cell.arch, cell.toolkit))


def _why_not(calls: Framework, cell: Cell) -> str | None:
    return calls.why_impossible(cell, any_minor=False)
