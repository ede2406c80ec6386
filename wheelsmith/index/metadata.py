"""The METADATA file out of a wheel, byte for byte, and what an index needs to know of it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement

from wheelsmith.errors import PackageIndexError


def read_metadata(wheel: Path | IO[bytes], filename: str) -> bytes:
    """Give METADATA as the wheel holds it.

    :raises PackageIndexError: it holds none.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".dist-info/METADATA") and name.count("/") == 1:
                    return archive.read(name)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise PackageIndexError(f"{filename} is no wheel: {error}") from None
    raise PackageIndexError(f"{filename} has no METADATA")


def requires_torch(metadata: bytes) -> str | None:
    """Give the versions of torch that METADATA asks for, e.g. ``==2.11.*``; None asks for none."""
    for text in parse_email(metadata)[0].get("requires_dist", []):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.name.lower() == "torch" and requirement.marker is None:
            return str(requirement.specifier)
    return None
