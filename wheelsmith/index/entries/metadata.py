"""The METADATA file out of a wheel, byte for byte, and what an index needs to know of it."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from wheelsmith.base.errors import PackageIndexError

_LARGEST = 16 << 20  # bytes
# Bytes of headers, without the text behind them: what parses them takes ever longer for the next one.
_LONGEST = 512 << 10
_END = re.compile(rb"\r?\n\r?\n")
# Where torch's wheels are installed; of more lines than any project has, markers are not asked.
_PLACES = tuple(
    {
        "extra": "",
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": arch,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    for python in ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
    for arch in ("x86_64", "aarch64")
)
_MOST = 20


def read_metadata(wheel: Path | IO[bytes], filename: str) -> bytes:
    """Return METADATA as the wheel holds it.

    :raises PackageIndexError: it holds none.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".dist-info/METADATA") and name.count("/") == 1:
                    if archive.getinfo(name).file_size > _LARGEST:
                        raise PackageIndexError(f"the METADATA of {filename} is larger than {_LARGEST >> 20} MiB")
                    return archive.read(name)
    # An archive may be encrypted or compressed in a way that nobody knows, and its names may be none.
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, zlib.error) as error:
        raise PackageIndexError(f"{filename} is no wheel: {error}") from None
    raise PackageIndexError(f"{filename} has no METADATA")


def headers_of(metadata: bytes) -> RawMetadata:
    """Return what METADATA's headers say, as the packaging library names them.

    :raises PackageIndexError: they are longer than any project's.
    """
    block = _END.split(metadata[: _LONGEST + 1], maxsplit=1)[0]
    if len(block) > _LONGEST:
        raise PackageIndexError(f"a METADATA has headers of more than {_LONGEST >> 10} KiB")
    return parse_email(block)[0]


def requires_torch(metadata: bytes) -> str | None:
    """Return the versions of torch that METADATA asks for on Linux, e.g. ``==2.11.*``; None where it asks for none.

    All lines count together, so what is returned may be narrower than what some Python is asked for, and never wider.
    """
    needs = [requirement for requirement in _requirements(metadata) if _is_torch(requirement)]
    asked = [need for place, need in enumerate(needs) if place >= _MOST or _is_asked(need)]
    if not asked:
        return None
    return str(SpecifierSet(",".join(str(need.specifier) for need in asked if need.specifier)))


def requires_beside_torch(metadata: bytes) -> tuple[str, ...]:
    """Return what METADATA asks for beside torch, in its order; what only an extra asks for is left out."""
    return tuple(
        str(requirement)
        for requirement in _requirements(metadata)
        if not _is_torch(requirement) and "extra ==" not in str(requirement.marker)
    )


def unreadable_requirement(metadata: bytes) -> str | None:
    """Return the first Requires-Dist of METADATA that is none; None where each can be read."""
    return next((text for text in _texts(metadata) if _read(text) is None), None)


def _is_torch(requirement: Requirement) -> bool:
    return requirement.name.lower() == "torch"


def _is_asked(requirement: Requirement) -> bool:
    """Say whether a requirement holds wherever torch's wheels may be installed; what cannot be said, may."""
    try:
        return requirement.marker is None or any(map(requirement.marker.evaluate, _PLACES))
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion, ValueError, RecursionError):
        return True


def _requirements(metadata: bytes) -> Iterator[Requirement]:
    return filter(None, map(_read, _texts(metadata)))


def _texts(metadata: bytes) -> list[str]:
    return headers_of(metadata).get("requires_dist", [])


def _read(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError):
        return None
