"""Digest of the checker's own code and data, so that a new checker checks cached wheels again."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

# The packages that a check imports.
_PACKAGES = ("base", "frameworks", "model", "platforms", "wheel")
_LIBRARIES = ("abi3info", "packaging")


def checker_files() -> tuple[Path, ...]:
    """Return every file of wheelsmith that can affect a check."""
    package = Path(__file__).resolve().parents[1]
    found = (path for name in _PACKAGES for path in sorted((package / name).rglob("*")))
    return tuple(path for path in found if path.is_file() and path.parent.name != "__pycache__")


@cache
def checker_digest() -> str:
    """Return the digest (hex) of the checker. A cached wheel with another digest is checked again."""
    libraries = " ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    digest = hashlib.sha256(libraries.encode())
    for path in checker_files():
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
