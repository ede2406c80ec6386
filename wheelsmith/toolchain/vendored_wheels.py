"""The wheels of environments in the vendored folder, found by their hashes: what else lies there is passed over."""

from __future__ import annotations

import stat
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.files import sha256_file
from wheelsmith.base.offline import WHEELS, vendored_folder
from wheelsmith.model import LockedWheel, read_wheel_name

_LARGEST = 8 << 30  # bytes: torch's own has 0.9 GiB


def vendored_wheel(wheel: LockedWheel) -> Path | None:
    """Return the file that is just this wheel; None where there is none."""
    folder = vendored_folder()
    if folder is None or not (folder / WHEELS).is_dir():
        return None
    for path in sorted((folder / WHEELS).iterdir()):
        # A link or a pipe may have no end, and a file as good as none.
        found = path.lstat()
        readable = stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST
        if readable and _is_named(path.name, wheel) and sha256_file(path) == wheel.sha256:
            return path
    return None


def _is_named(filename: str, wheel: LockedWheel) -> bool:
    try:
        name = read_wheel_name(filename)
        return (name.project, name.version) == (canonicalize_name(wheel.name), Version(wheel.version))
    except ValueError:
        return False
