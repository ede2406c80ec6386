"""Compiled objects, found by the digest of the command and of everything that it read.

Only wheelsmith writes here, never a build: a sandbox sees neither this folder nor the keys. The output of a command is
kept under the key of exactly that command and its inputs, so a hostile source can spoil its own results alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wheelsmith.base.files import atomic_pour, atomic_write, mark_used
from wheelsmith.base.json_dataclass import Record, read_json
from wheelsmith.store.wheels import CHANGED

# Raised when the same key would name other content than before.
FORMAT = 2
_LEVEL = 1  # of zlib: what compilers write for one another is text that shrinks to a sixth at once
_CHUNK = 1 << 20  # bytes
_DIGEST = re.compile(r"[0-9a-f]{64}")


class DamagedBlobError(Exception):  # it never leaves wheelsmith: the object is made again
    """The bytes of an object are gone or have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Record):
    """One file that a command made; ``sha256`` in hex and ``size`` in bytes, of the content itself."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Record):
    """The result of one command.

    :param outputs: file name → content.
    :param lines: what it printed.
    """

    outputs: dict[str, Output]
    lines: tuple[str, ...] = ()


class Objects:
    """A content-addressed folder, safe for several processes: every file appears by rename.

    ``actions/<2>/<key>.json`` names the outputs; ``blobs/<2>/<sha256>`` is their content, compressed. Blobs are written
    first. An action's modification time says when it was last used.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, key: str) -> Action | None:
        """Return the result that this command had before."""
        path = self._action(key)
        try:
            action = Action.from_json(read_json(path.read_bytes()))
        except (OSError, ValueError):
            return None
        # A damaged blob is removed: no path may be made of what is no digest.
        if not all(_DIGEST.fullmatch(output.sha256) for output in action.outputs.values()):
            return None
        mark_used(path)
        return action

    def copy(self, output: Output, file: IO[bytes]) -> None:
        """Write the content of one output to an open file.

        :raises DamagedBlobError: it is gone or has changed; some bytes may have been written.
        """
        blob = self._blob(output.sha256)
        digest = hashlib.sha256()
        try:
            for chunk in _unpacked(blob, output.size):
                digest.update(chunk)
                file.write(chunk)
        except zlib.error:
            pass
        else:
            if digest.hexdigest() == output.sha256:
                return
        with contextlib.suppress(OSError):  # so that it can be written anew
            blob.unlink()
        raise DamagedBlobError(output.sha256)

    def put(self, key: str, made: Mapping[str, Iterable[bytes]], lines: tuple[str, ...]) -> Action:
        """Keep the result of a command.

        :param made: file name → content, in pieces, which is never held whole.
        :raises OSError: it cannot be written; nothing is left half there.
        """
        outputs = {name: self._keep(content) for name, content in made.items()}
        action = Action(outputs=outputs, lines=lines)
        atomic_write(self._action(key), json.dumps(action.to_json()).encode())
        return action

    def _keep(self, content: Iterable[bytes]) -> Output:
        """Keep one file under the hash of just the bytes that are kept."""
        digest, size = hashlib.sha256(), 0

        def packed() -> Iterator[bytes]:
            nonlocal size
            packer = zlib.compressobj(_LEVEL)
            for chunk in content:
                digest.update(chunk)
                size += len(chunk)
                yield packer.compress(chunk)
            yield packer.flush()

        atomic_pour(packed(), self._root / "blobs", lambda: self._blob(digest.hexdigest()))
        return Output(sha256=digest.hexdigest(), size=size)

    def _action(self, key: str) -> Path:
        return self._root / "actions" / key[:2] / f"{key}.json"

    def _blob(self, sha256: str) -> Path:
        return self._root / "blobs" / sha256[:2] / sha256


def changed_objects(cache: Path) -> dict[str, str | None]:
    """Return the compiled objects, by path below the cache, and what differs."""
    kept = sorted(cache.glob("objects/blobs/[!.]*/[!.]*"))
    return {path.relative_to(cache).as_posix(): None if _content_hash(path) == path.name else CHANGED for path in kept}


def _content_hash(blob: Path) -> str:
    digest = hashlib.sha256()
    with contextlib.suppress(zlib.error):
        for chunk in _unpacked(blob):
            digest.update(chunk)
        return digest.hexdigest()
    return ""


def _unpacked(blob: Path, size: int | None = None) -> Iterator[bytes]:
    """Yield the content of a blob.

    :param size: that it should have; one byte more is yielded of a larger one.
    """
    unpacker, left = zlib.decompressobj(), math.inf if size is None else size + 1
    try:
        with blob.open("rb") as file:
            while left and not unpacker.eof and (packed := unpacker.unconsumed_tail or file.read(_CHUNK)):
                chunk = unpacker.decompress(packed, int(min(_CHUNK, left)))
                left -= len(chunk)
                yield chunk
    except OSError as error:
        raise DamagedBlobError(blob.name) from error
    if size is None and not unpacker.eof:
        raise zlib.error("the blob is cut off")
