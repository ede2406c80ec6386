"""Wheels that wheelsmith need not have made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import Place, WheelError
from wheelsmith.frameworks import (
    LocalVersion,
    cuda_major,
    cuda_release,
    framework,
    read_local_version,
    torch_releases,
)
from wheelsmith.index.entries.metadata import headers_of, unreadable_requirement
from wheelsmith.index.publish.release import offer_of
from wheelsmith.index.publish.writer import Offer
from wheelsmith.index.resolve.fits import accepts
from wheelsmith.model import TORCH, Cell, WheelName, read_wheel_name, same_version
from wheelsmith.wheel import wheel_file

_CPYTHON = re.compile(r"cp3(?P<minor>\d+)-cp3(?P=minor)t?")
_ARCHS = ("x86_64", "aarch64")
_SHOWN = 80  # characters of a requirement


def foreign_wheel(path: Path) -> Offer:
    """Return a wheel that wheelsmith need not have made; which cells it serves is read from its version and METADATA.

    :raises WheelError: it cannot be read as a wheel, is not what its file name says, or requires what is nothing.
    """
    from wheelsmith.wheel.check import torch_mistake

    offer = offer_of(path, wheel_file(path), (), None)
    check_names(offer)
    _check_requirements(offer)
    cells = _cells_of(path.name, offer.entry.requires_torch)
    offer = replace(offer, entry=replace(offer.entry, cells=cells))
    if offer.entry.requires_torch is not None and (why := torch_mistake(offer.wheel)):
        raise WheelError(
            why,
            where=Place(file=offer.entry.filename),
            remedy="build it with the Requires-Dist that its version says",
        )
    return offer


def check_names(offer: Offer) -> None:
    """Refuse what installers would disagree on.

    :raises WheelError: METADATA has another name or version than the file's name.
    """
    filename, said = offer.entry.filename, headers_of(offer.metadata)
    name = read_wheel_name(filename)
    # pip finds no wheel where METADATA has another version; uv installs it.
    if canonicalize_name(said.get("name", "")) != name.project or not same_version(said.get("version"), name.version):
        raise WheelError(
            f"METADATA says {said.get('name')} {said.get('version')}",
            where=Place(file=filename),
            remedy="build it with that version: to rename the file is not enough",
        )


def _check_requirements(offer: Offer) -> None:
    """Refuse a wheel that pip would not install: where one line is nothing, nobody knows what it requires of torch."""
    text = unreadable_requirement(offer.metadata)
    if text is not None:
        raise WheelError(
            f"Requires-Dist {text[:_SHOWN]!r} cannot be read",
            where=Place(file=offer.entry.filename),
            remedy="build it with requirements as PEP 508 has them",
        )


def _cells_of(filename: str, requires_torch: str | None) -> tuple[Cell, ...]:
    """Return what a wheel serves, as far as its name and its METADATA say it.

    The local version names the compute platform, and perhaps torch, in any project's spelling. Where it names no torch,
    every release counts that METADATA takes and that was made for the platform. A wheel with nothing compiled, which
    names no platform, serves all of them; of a compiled one nobody knows.
    """
    name = read_wheel_name(filename)
    said = read_local_version(name.version.local)
    if name.label is not None or said.wrong or (said.compute is None and not _is_pure(name)):
        return ()
    if said.framework != TORCH:
        return tuple(_of_another_framework(name, said))
    torches = (said.torch,) if said.torch else tuple(t for t in torch_releases() if accepts(requires_torch, t))
    return tuple(
        Cell(release=torch, toolkit=cuda, arch=arch, python=_python(name), cxx11_abi=_cxx11_abi(torch, arch))
        for torch in torches
        for cuda in _cudas(said, torch)
        for arch in _archs(name)
    )


def _of_another_framework(name: WheelName, said: LocalVersion) -> Iterator[Cell]:
    """Yield what a wheel serves that names a framework which is built for no CUDA: what its version says."""
    cuda = cuda_release(said.compute) if said.compute and said.compute != "cpu" else None
    if said.release is None or said.compute is None or (cuda is None and said.compute != "cpu"):
        return
    calls = framework(said.framework)
    for arch in _archs(name):
        abi = calls.cxx11_abi(said.release, arch, cuda)
        yield Cell(
            framework=calls.name, release=said.release, toolkit=cuda, arch=arch, python=_python(name), cxx11_abi=abi
        )


def _cudas(said: LocalVersion, torch: str) -> tuple[str | None, ...]:
    """Return the CUDAs of a torch that a wheel is for; None is the CPU."""
    if said.compute == "cpu":
        return (None,)
    named = cuda_release(said.compute) if said.compute else None
    if named and said.torch:
        return (named,)
    release = torch_releases().get(torch)
    built = release.cuda if release else ()
    if named:
        return (named,) if named in built else ()
    if said.compute:
        return tuple(cuda for cuda in built if cuda.startswith(f"{cuda_major(said.compute)}."))
    return (None, *built)


def _archs(name: WheelName) -> tuple[str, ...]:
    platforms = {tag.platform for tag in name.tags}
    return tuple(
        a for a in _ARCHS if "any" in platforms or any(_is_linux(p) and p.endswith(f"_{a}") for p in platforms)
    )


def _is_linux(platform: str) -> bool:
    return platform.startswith(("linux", "manylinux"))


def _is_pure(name: WheelName) -> bool:
    return all(tag.platform == "any" and tag.abi == "none" for tag in name.tags)


def _python(name: WheelName) -> str | None:
    """Return the one Python that a wheel is for, e.g. ``3.12``; None where it is for several."""
    pythons = {(tag.interpreter, tag.abi) for tag in name.tags}
    if len(pythons) != 1 or not (match := _CPYTHON.fullmatch("-".join(next(iter(pythons))))):
        return None
    return f"3.{match['minor']}"


def _cxx11_abi(torch: str, arch: str) -> bool:
    release = torch_releases().get(torch)
    return release is None or release.cxx11_abi.get(arch, True)
