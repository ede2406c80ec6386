"""The METADATA file out of a wheel, byte for byte, and what an index needs to know of it."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from packaging.metadata import RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement

from wheelsmith.base.errors import PackageIndexError

_LARGEST = 16 << 20  # bytes
# Bytes of headers, without the text behind them: what parses them takes ever longer for the next one.
_LONGEST = 512 << 10
_END = re.compile(rb"\r?\n\r?\n")


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
    """Return the versions of torch that METADATA asks for, e.g. ``==2.11.*``; None asks for none."""
    for requirement in _requirements(metadata):
        if _is_torch(requirement):
            return str(requirement.specifier)
    return None


def requires_beside_torch(metadata: bytes) -> tuple[str, ...]:
    """Return what METADATA asks for beside torch, in its order; what only an extra asks for is left out."""
    return tuple(
        str(requirement)
        for requirement in _requirements(metadata)
        if not _is_torch(requirement) and "extra ==" not in str(requirement.marker)
    )


def _is_torch(requirement: Requirement) -> bool:
    return requirement.name.lower() == "torch" and requirement.marker is None


def _requirements(metadata: bytes) -> Iterator[Requirement]:
    for text in headers_of(metadata).get("requires_dist", []):
        try:
            yield Requirement(text)
        except (InvalidRequirement, RecursionError):
            continue
