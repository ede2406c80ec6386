"""Compare what the cache keeps by hash with the hashes that it is kept under."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path

from wheelsmith.base.files import sha256_file

_CHUNK = 1 << 20


def changed_wheels(cache: Path) -> dict[str, str | None]:
    """Return the finished wheels, by path below the cache, and what differs."""
    kept = (path for folder in _inside(cache / "store" / "wheels") for path in _inside(folder))
    return {_name(path, cache): _why(sha256_file(path) == path.parent.name) for path in kept}


def changed_objects(cache: Path) -> dict[str, str | None]:
    """Return the compiled pieces, by path below the cache, and what differs."""
    kept = (path for folder in _inside(cache / "objects" / "blobs") for path in _inside(folder))
    return {_name(path, cache): _why(_content_hash(path) == path.name) for path in kept}


def _inside(folder: Path) -> Iterator[Path]:
    """Yield what is in a folder and finished."""
    yield from sorted(folder.glob("[!.]*"))


def _name(path: Path, cache: Path) -> str:
    return path.relative_to(cache).as_posix()


def _why(same: bool) -> str | None:  # noqa: FBT001  # a verdict, not a switch
    return None if same else "its content has another hash"


def _content_hash(path: Path) -> str:
    digest, unpacker = hashlib.sha256(), zlib.decompressobj()
    try:
        with path.open("rb") as file:
            while packed := unpacker.unconsumed_tail or file.read(_CHUNK):
                digest.update(unpacker.decompress(packed, _CHUNK))
    except zlib.error:
        return ""
    return digest.hexdigest() if unpacker.eof else ""
