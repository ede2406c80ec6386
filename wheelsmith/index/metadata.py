"""The METADATA file out of a wheel, byte for byte."""

from __future__ import annotations

import zipfile
from pathlib import Path

from wheelsmith.errors import PackageIndexError


def read_metadata(wheel: Path) -> bytes:
    """Give METADATA as the wheel holds it.

    :raises PackageIndexError: it holds none.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".dist-info/METADATA") and name.count("/") == 1:
                    return archive.read(name)
    except zipfile.BadZipFile as error:
        raise PackageIndexError(f"{wheel.name} is no wheel: {error}") from None
    raise PackageIndexError(f"{wheel.name} has no METADATA")
