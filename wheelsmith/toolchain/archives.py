"""Folders out of archives that no package index has, compared with what was pinned of them.

An archive of one tag differs by who packed it, and when; so what it holds is pinned, and any packing of it will do.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.record import canonical_digest
from wheelsmith.model import Listener, PinnedTree
from wheelsmith.toolchain.pip_settings import PipSettings, local_folder
from wheelsmith.toolchain.remote import download, sha256_bytes

if TYPE_CHECKING:
    import httpx

_PLACES = "WHEELSMITH_ARCHIVES"
_MOST_PACKED = 256 << 20  # bytes: CUTLASS with its pictures is 40 MB
_MOST_UNPACKED = 1 << 30


def fetch_tree(tree: PinnedTree, folder: Path, scratch: Path, settings: PipSettings, listen: Listener) -> None:
    """Write a folder of an archive, from the first place that has just what was pinned.

    :param folder: exists, and is empty.
    :raises ToolchainError: no place has it.
    """
    troubles = []
    with settings.client() as client:
        for place in _places(tree):
            files: dict[str, bytes] = {}
            try:
                archive = _archive(tree, place, scratch, client, listen)
                files = dict(_files(tree, archive))
                _compare(tree, files)
            except ToolchainError as error:
                troubles.append(f"{place}: {error.message}")
                continue
            _write(files, folder)
            return
    raise ToolchainError(
        f"{tree.filename} cannot be had: {'; '.join(troubles)}",
        remedy=f"put it into a folder, or name a mirror that has it under this name: {_PLACES}=FOLDER-OR-URL …; "
        f"a clone can pack it: git archive --prefix {tree.folder.partition('/')[0]}/ -o {tree.filename} TAG",
    )


def is_at_hand(tree: PinnedTree) -> bool:
    """Say whether a folder that is named for archives has one."""
    return any((path := local_folder(place)) and path.is_file() for place in _places(tree))


def _places(tree: PinnedTree) -> Iterator[str]:
    for base in os.environ.get(_PLACES, "").split():
        yield f"{base.rstrip('/')}/{tree.filename}"
    yield tree.url


def _archive(tree: PinnedTree, place: str, scratch: Path, client: httpx.Client, listen: Listener) -> Path:
    if path := local_folder(place):
        if not path.is_file():
            raise ToolchainError("it is not there")
        return path
    target = scratch / tree.filename
    download(tree.filename, place, target, client, listen, most=_MOST_PACKED)
    return target


def _files(tree: PinnedTree, archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what the folder holds, path → content; no more than was pinned."""
    count = size = 0
    try:
        with _BoundedGzip(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as members:
            for member in members:
                name = member.name.removeprefix("./")
                if member.isdir() or not name.startswith(tree.folder):
                    continue
                content = members.extractfile(member) if member.isreg() else None
                count, size = count + 1, size + member.size
                if content is None or count > tree.files or size > tree.size:
                    raise ToolchainError("it holds other files than were pinned")
                yield name.removeprefix(tree.folder), content.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise ToolchainError(f"it cannot be unpacked: {error}") from error


class _BoundedGzip(gzip.GzipFile):
    """A packed stream that is given up where it is too long: what is skipped is unpacked too."""

    _left = _MOST_UNPACKED

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes."""
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ToolchainError(f"it unpacks to more than {_MOST_UNPACKED >> 20} MiB")
        return data


def _compare(tree: PinnedTree, files: dict[str, bytes]) -> None:
    found = canonical_digest(sorted([name, sha256_bytes(content)] for name, content in files.items()))
    if found != tree.sha256:
        raise ToolchainError("it holds other files than were pinned")


def _write(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        # Their names are part of what was pinned.
        path = folder / PurePosixPath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
