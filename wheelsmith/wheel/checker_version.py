"""Which check it is that a wheel passed: what it is made of, as one digest."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

# Below the package: all that the check is made of and reads. Of what else it imports, it takes names and shapes alone.
_PARTS = ("wheel", "frameworks", "platforms", "base/zip_archive")
_BESIDE = (
    "base/files.py",
    "base/projects.json",
    "base/projects.py",
    "base/parse_cost.py",
    "base/json_dataclass.py",
    "base/units.py",
    "model/cell.py",
    "model/plan.py",
    "model/wheel_name.py",
)
_LIBRARIES = ("abi3info", "packaging")
# Raised when what is digested here is digested otherwise.
_FORMAT = b"1"


def parts() -> tuple[Path, ...]:
    """Return every file of this package that decides what the check finds."""
    package = Path(__file__).resolve().parents[1]
    inside = (path for part in _PARTS for path in sorted((package / part).rglob("*")) if path.is_file())
    kept = (path for path in inside if path.parent.name != "__pycache__")
    return (*kept, *(package / name for name in _BESIDE))


@cache
def checker_digest() -> str:
    """Return the digest (hex) of the check: a wheel that another one passed has not passed this one."""
    libraries = " ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    digest = hashlib.sha256(_FORMAT + libraries.encode())
    for path in parts():
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
