"""What an index needs to know of a finished wheel."""

from __future__ import annotations

import hashlib
from pathlib import Path

from wheelsmith.base.files import sha256_file
from wheelsmith.model import WheelFile
from wheelsmith.wheel.archive.contents import info_folder, open_archive
from wheelsmith.wheel.headers import LONGEST_TEXT, read_headers


def wheel_file(path: Path) -> WheelFile:
    """Describe a wheel by its bytes."""
    with open_archive(path) as archive:
        metadata = archive.read(f"{info_folder(archive)}/METADATA", LONGEST_TEXT)
    return WheelFile(
        filename=path.name,
        sha256=sha256_file(path),
        size=path.stat().st_size,
        metadata_sha256=hashlib.sha256(metadata).hexdigest(),
        requires_python=read_headers(metadata).get("Requires-Python"),
    )
