"""Wheels that wheelsmith need not have made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from wheelsmith.index.entries.metadata import unreadable_requirement
from wheelsmith.index.entries.side_files import CORE_METADATA, LARGEST, side_files
from wheelsmith.index.publish.release import UploadReader, WheelUpload, read_upload, upload_of
from wheelsmith.index.resolve.tag_match import accepts, wanted
from wheelsmith.model import TORCH, Cell, WheelName, read_wheel_name
from wheelsmith.platforms import cuda_toolkits

_CPYTHON = re.compile(r"cp3(?P<minor>\d+)-cp3(?P=minor)t?")
_ARCHS = ("x86_64", "aarch64")
_SHOWN = 80  # characters of a requirement


def foreign_wheels(paths: Iterable[Path]) -> tuple[WheelUpload, ...]:
    """Return wheels that wheelsmith need not have made, with the files that lie beside them.

    :raises PackageIndexError: a file beside a wheel cannot be taken.
    :raises WheelError: one cannot be read, or contradicts itself.
    """
    with UploadReader() as reader:
        return tuple(reader.external(path).with_files(_files_beside(path)) for path in paths)


def read_external(request: Mapping[str, Any]) -> dict[str, Any]:
    """Read a wheel in the worker, and refuse one that pip would not install as its version says."""
    from wheelsmith.wheel.check import framework_mistake

    path = Path(request["path"])
    read = read_upload(request)
    upload = upload_of(path, read)
    if text := unreadable_requirement(upload.side_files[CORE_METADATA]):
        raise WheelError(
            f"Requires-Dist {text[:_SHOWN]!r} cannot be read",
            where=Place(file=path.name),
            remedy="build it with requirements as PEP 508 has them",
        )
    requires = _required_of_frameworks(upload.entry)
    if requires and (why := framework_mistake(path)):
        remedy = "build it with the Requires-Dist that its version says"
        raise WheelError(why, where=Place(file=path.name), remedy=remedy)
    return {**read, "entry": replace(upload.entry, cells=_cells_of(path.name, requires)).to_json()}


def _files_beside(wheel: Path) -> dict[str, bytes]:
    """Return the files that lie beside a wheel in its folder: suffix → content."""
    found = {}
    for suffix in side_files().keys() - {CORE_METADATA}:
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
