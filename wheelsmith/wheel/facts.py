"""What an index needs to know of a finished wheel."""

from __future__ import annotations

import hashlib
from pathlib import Path

from wheelsmith.files import sha256_file
from wheelsmith.model import WheelFile
from wheelsmith.wheel.archive import open_wheel


def wheel_file(path: Path) -> WheelFile:
    """Describe a wheel by its bytes."""
    contents = open_wheel(path)
    metadata = contents.files[f"{contents.info}/METADATA"]
    return WheelFile(
        filename=path.name,
        sha256=sha256_file(path),
        size=path.stat().st_size,
        metadata_sha256=hashlib.sha256(metadata).hexdigest(),
        requires_python=contents.metadata.get("Requires-Python"),
    )
