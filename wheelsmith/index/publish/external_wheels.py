"""Wheels that wheelsmith need not have made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelsmith.base.beneath import NotRegularError, open_file
from wheelsmith.base.errors import PackageIndexError, Place, WheelError
from wheelsmith.frameworks import (
    Framework,
    LocalVersion,
    cuda_major,
    cuda_release,
    framework,
    frameworks,
    read_local_version,
    torch_releases,
)
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.entries.metadata import headers_of, unreadable_requirement
from wheelsmith.index.entries.side_files.known import LARGEST, side_files
from wheelsmith.index.entries.side_files.metadata import CORE_METADATA
from wheelsmith.index.publish.release import offer_of, with_beside
from wheelsmith.index.publish.writer import WheelUpload
from wheelsmith.index.resolve.tag_match import accepts, wanted
from wheelsmith.model import TORCH, Cell, WheelName, read_wheel_name, same_version
from wheelsmith.platforms import cuda_toolkits
from wheelsmith.wheel import wheel_file

_CPYTHON = re.compile(r"cp3(?P<minor>\d+)-cp3(?P=minor)t?")
_ARCHS = ("x86_64", "aarch64")
_SHOWN = 80  # characters of a requirement


def foreign_wheel(path: Path) -> WheelUpload:
    """Return a wheel that wheelsmith need not have made; which cells it serves is read from its version and METADATA.

    :raises PackageIndexError: what lies beside it cannot be taken.
    :raises WheelError: it cannot be read as a wheel, is not what its file name says, or requires what is nothing.
    """
    from wheelsmith.wheel.check import framework_mistake

    offer = offer_of(path, wheel_file(path), (), None)
    offer = with_beside(offer, _carried(path, offer.side_files))
    check_names(offer)
    _check_requirements(offer)
    requires = _required_of_frameworks(offer.entry)
    offer = replace(offer, entry=replace(offer.entry, cells=_cells_of(path.name, requires)))
    if requires and (why := framework_mistake(offer.wheel)):
        raise WheelError(
            why,
            where=Place(file=offer.entry.filename),
            remedy="build it with the Requires-Dist that its version says",
        )
    return offer


def _carried(wheel: Path, made: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return what lies beside a wheel in its folder and does not follow from it: suffix → content."""
    found = {}
    for suffix in (each for each in side_files() if each not in made):
        path = wheel.with_name(f"{wheel.name}{suffix}")
        try:
            with open_file(path) as file:
                found[suffix] = file.read(LARGEST + 1)
        except (FileNotFoundError, NotRegularError):
            continue
        except OSError as error:
            raise PackageIndexError(f"{path} cannot be read: {error.strerror}") from None
        if len(found[suffix]) > LARGEST:
            raise PackageIndexError(f"{path} is larger than {LARGEST >> 20} MiB", remedy="move it away from the wheel")
    return found


def check_names(offer: WheelUpload) -> None:
    """Refuse what installers would disagree on.

    :raises WheelError: METADATA has another name or version than the file's name.
    """
    filename, said = offer.entry.filename, headers_of(offer.side_files[CORE_METADATA])
    name = read_wheel_name(filename)
    # pip finds no wheel where METADATA has another version; uv installs it.
    if canonicalize_name(said.get("name", "")) != name.project or not same_version(said.get("version"), name.version):
        raise WheelError(
            f"METADATA says {said.get('name')} {said.get('version')}",
            where=Place(file=filename),
            remedy="build it with that version: to rename the file is not enough",
        )


def _check_requirements(offer: WheelUpload) -> None:
    """Refuse a wheel that pip would not install: where one line is nothing, nobody knows what it requires of torch."""
    text = unreadable_requirement(offer.side_files[CORE_METADATA])
    if text is not None:
        raise WheelError(
            f"Requires-Dist {text[:_SHOWN]!r} cannot be read",
            where=Place(file=offer.entry.filename),
            remedy="build it with requirements as PEP 508 has them",
        )


def _required_of_frameworks(entry: IndexEntry) -> dict[str, str]:
    """Return the frameworks that METADATA asks for, each with the versions that it takes."""
    others = {name: each.project for name, each in frameworks().items() if name != TORCH}
    asked = {TORCH: entry.requires_torch, **{name: wanted(entry.requires, own) for name, own in others.items()}}
    return {name: versions for name, versions in asked.items() if versions is not None}


def _cells_of(filename: str, requires: Mapping[str, str]) -> tuple[Cell, ...]:
    """Return what a wheel serves, as far as its name and its METADATA say it.

    The local version names the compute platform, and perhaps a release of a framework, torch's in any project's
    spelling. Where it names none, every release counts that METADATA takes and that was made for the platform: of
    torch, but where another framework alone is required. A wheel with nothing compiled, which names no platform, serves
    all of them; of a compiled one nobody knows.
    """
    name = read_wheel_name(filename)
    said = read_local_version(name.version.local)
    if name.label is not None or said.wrong or (said.compute is None and not _is_pure(name)):
        return ()
    open_to = TORCH if said.stable or TORCH in requires else next(iter(requires), TORCH)
    calls = framework(said.framework if said.release else open_to)
    takes = (r for r in calls.releases() if accepts(requires.get(calls.name), r))
    return tuple(
        Cell(
            framework=calls.name,
            release=release,
            toolkit=cuda,
            arch=arch,
            python=_python(name),
            cxx11_abi=calls.cxx11_abi(release, arch, cuda),
        )
        for release in ((said.release,) if said.release else takes)
        for cuda in _cudas(said, calls, release)
        for arch in _archs(name)
    )


def _cudas(said: LocalVersion, calls: Framework, release: str) -> tuple[str | None, ...]:
    """Return the CUDAs of a release that a wheel is for; None is the CPU."""
    if said.compute == "cpu":
        return (None,)
    named = cuda_release(said.compute) if said.compute else None
    if named and (said.release or not calls.by_compute):
        return (named,)
    known = torch_releases().get(release) if calls.by_compute else None
    built = known.cuda if known else () if calls.by_compute else tuple(cuda_toolkits())
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
