"""Compiled objects in the cache. The key is a digest of the command and of everything that it reads.

Only wheelsmith writes to this folder. Builds have access neither to the folder nor to the keys. A key belongs to one
command with its exact inputs, so a hostile source can affect only its own results.
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

from wheelsmith.base.files import atomic_write, atomic_write_chunks, mark_used
from wheelsmith.base.json_dataclass import Record, read_json
from wheelsmith.store.remote import RemoteCache
from wheelsmith.store.wheels import CHANGED

# Increase this number when the same key would get different content.
FORMAT = 3
_LEVEL = 1  # of zlib; most content is intermediate text of compilers, of which level 1 leaves a sixth
_CHUNK = 1 << 20  # bytes
_MAX_ACTION = 16 << 20  # bytes; the lines that a command printed are most of it
_DIGEST = re.compile(r"[0-9a-f]{64}")


class DamagedBlobError(Exception):  # always caught: the object is compiled again
    """A blob is missing or its content has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Record):
    """An output file of a command.

    :param sha256: hash of the uncompressed content, in hex.
    :param size: bytes of the uncompressed content.
    """

    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Record):
    """The result of one command.

    :param outputs: file name → output.
    :param lines: lines that it printed.
    """

    outputs: dict[str, Output]
    lines: tuple[str, ...] = ()


class Objects:
    """A content-addressed folder. Several processes may use it, because every file is renamed into place.

    ``actions/<2>/<key>.json`` lists the outputs, and ``blobs/<2>/<sha256>`` is the compressed content of one. Blobs are
    written before the action. The modification time of an action is the time of its last use.

    :param remote: a cache with the same files, for those that the folder lacks; None for no such cache.
    """

    def __init__(self, root: Path, remote: RemoteCache | None = None) -> None:
        self._root = root
        self._remote = remote

    def find(self, key: str) -> Action | None:
        """Return the stored result of a command, or None."""
        path = self._action(key)
        is_fetched = self._fetch(path, _MAX_ACTION)
        try:
            action = Action.from_json(read_json(path.read_bytes()))
        except (OSError, ValueError):
            action = None
        # `copy` removes damaged blobs, so never build a path from anything other than a digest.
        if action is None or not all(_DIGEST.fullmatch(output.sha256) for output in action.outputs.values()):
            if is_fetched:
                path.unlink(missing_ok=True)
                self._report_damage(path)
            return None
        mark_used(path)
        return action

    def copy(self, output: Output, file: IO[bytes]) -> None:
        """Write the content of an output to an open file.

        :raises DamagedBlobError: the blob is missing or damaged. Some bytes may have been written.
        """
        blob = self._blob(output.sha256)
        is_fetched = self._fetch(blob, output.size + output.size // 100 + _CHUNK)
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
        with contextlib.suppress(OSError):  # remove it, so that it is written again
            blob.unlink()
        if is_fetched:
            self._report_damage(blob)
        raise DamagedBlobError(output.sha256)

    def put(self, key: str, files: Mapping[str, Iterable[bytes]], lines: tuple[str, ...]) -> Action:
        """Store the result of a command.

        :param files: file name → chunks of its content, which need not fit into memory.
        :param lines: lines that the command printed.
        :raises OSError: the result cannot be written. No incomplete files remain.
        """
        outputs = {name: self._store_file(content) for name, content in files.items()}
        action = Action(outputs=outputs, lines=lines)
        path = self._action(key)
        atomic_write(path, json.dumps(action.to_json()).encode())
        if self._remote:
            made = (*(self._blob(output.sha256) for output in outputs.values()), path)
            self._remote.send([(self._name(each), each) for each in made])
        return action

    def _fetch(self, path: Path, most: int) -> bool:
        """Copy a file that the folder lacks from the remote cache. Return True if it was copied."""
        if self._remote is None or path.exists():
            return False
        return self._remote.fetch(self._name(path), path, most)

    def _report_damage(self, path: Path) -> None:
        if self._remote:
            self._remote.report_damage(self._name(path))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _store_file(self, content: Iterable[bytes]) -> Output:
        """Store a file under the hash of the bytes as they are written."""
        digest, size = hashlib.sha256(), 0

        def packed() -> Iterator[bytes]:
            nonlocal size
            packer = zlib.compressobj(_LEVEL)
            for chunk in content:
                digest.update(chunk)
                size += len(chunk)
                yield packer.compress(chunk)
            yield packer.flush()

        atomic_write_chunks(packed(), self._root / "blobs", lambda: self._blob(digest.hexdigest()))
        return Output(sha256=digest.hexdigest(), size=size)

    def _action(self, key: str) -> Path:
        return self._root / "actions" / key[:2] / f"{key}.json"

    def _blob(self, sha256: str) -> Path:
        return self._root / "blobs" / sha256[:2] / sha256


def verify_objects(cache: Path) -> dict[str, str | None]:
    """Return path relative to the cache → problem, for each blob; None if its content is unchanged."""
    paths = sorted(cache.glob("objects/blobs/[!.]*/[!.]*"))
    return {path.relative_to(cache).as_posix(): None if _content_hash(path) == path.name else CHANGED for path in paths}


def _content_hash(blob: Path) -> str:
    digest = hashlib.sha256()
    with contextlib.suppress(zlib.error):
        for chunk in _unpacked(blob):
            digest.update(chunk)
        return digest.hexdigest()
    return ""


def _unpacked(blob: Path, size: int | None = None) -> Iterator[bytes]:
    """Yield the content of a blob.

    :param size: expected size in bytes. Of a larger content, one byte more is yielded.
    :raises DamagedBlobError: the file cannot be read.
    :raises zlib.error: the compressed data is damaged.
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
        raise zlib.error("the blob is truncated")
