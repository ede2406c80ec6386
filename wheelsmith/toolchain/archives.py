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
from typing import Self

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.record import canonical_digest
from wheelsmith.model import Listener, PinnedTree
from wheelsmith.toolchain.pip_settings import PipSettings, local_folder
from wheelsmith.toolchain.remote import download, sha256_bytes, without_credentials

_PLACES = "WHEELSMITH_ARCHIVES"
_MOST_PACKED = 256 << 20  # bytes: CUTLASS with its pictures is 40 MB
_MOST_UNPACKED = 512 << 20
_MOST_MEMBERS = 30_000  # tarfile keeps them all
_MOST_TOLD = 1 << 14  # bytes that tell more of the next member; tarfile reads them at once
_TELLS_MORE = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


def fetch_tree(tree: PinnedTree, folder: Path, scratch: Path, settings: PipSettings, listen: Listener) -> None:
    """Write a folder of an archive, from the first place that has just what was pinned.

    :param folder: exists, and is empty.
    :raises ToolchainError: no place has it.
    """
    troubles = []
    for place in _places(tree):
        files: dict[str, bytes] = {}
        try:
            archive = _archive(tree, place, scratch, settings, listen)
            files = dict(_files(tree, archive))
            _compare(tree, files)
        except ToolchainError as error:
            troubles.append(f"{without_credentials(place)}: {error.message}")
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
    for place in _places(tree):
        try:
            if _local(place):
                return True
        except ToolchainError:
            continue
    return False


def _places(tree: PinnedTree) -> Iterator[str]:
    for base in os.environ.get(_PLACES, "").split():
        yield f"{base.rstrip('/')}/{tree.filename}"
    yield tree.url


def _archive(tree: PinnedTree, place: str, scratch: Path, settings: PipSettings, listen: Listener) -> Path:
    if path := _local(place):
        return path
    target = scratch / tree.filename
    # One each: a client that a mirror was too slow for is closed.
    with settings.client() as client:
        download(tree.filename, place, target, client, listen, most=_MOST_PACKED)
    return target


def _local(place: str) -> Path | None:
    """Return an archive on this machine, or None for a place on the network.

    :raises ToolchainError: it is not there, or what is there cannot be it.
    """
    try:
        path = local_folder(place)
        size = path.stat().st_size if path and path.is_file() else None
    except (OSError, ValueError, RuntimeError) as error:  # too long or not allowed; no address; a home of nobody
        raise ToolchainError(f"it cannot be looked at: {getattr(error, 'strerror', None) or error}") from error
    if path and size is None:
        raise ToolchainError("it is not there")
    if size is not None and size > _MOST_PACKED:
        raise ToolchainError(f"it is larger than {_MOST_PACKED >> 20} MiB")
    return path


def _files(tree: PinnedTree, archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what the folder holds, path → content; no more than was pinned."""
    count = size = 0
    try:
        with _BoundedGzip(archive) as stream, tarfile.open(fileobj=stream, mode="r|", tarinfo=_ShortHeader) as members:
            for number, member in enumerate(members):
                if number >= _MOST_MEMBERS:
                    raise ToolchainError(f"it holds more than {_MOST_MEMBERS} files")
                name = member.name.removeprefix("./")
                if member.isdir() or not name.startswith(tree.folder):
                    continue
                content = members.extractfile(member) if member.isreg() else None
                count, size = count + 1, size + member.size
                if content is None or count > tree.files or size > tree.size:
                    raise ToolchainError("it holds other files than were pinned")
                yield name.removeprefix(tree.folder), content.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, RecursionError) as error:
        raise ToolchainError(f"it cannot be unpacked: {error}") from error


class _ShortHeader(tarfile.TarInfo):
    """A header that tells little of the next one."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Return what a block says."""
        found = super().frombuf(buf, encoding, errors)
        if found.type == tarfile.GNUTYPE_SPARSE or (found.type in _TELLS_MORE and found.size > _MOST_TOLD):
            raise tarfile.ReadError("a header is larger than any name, or of a file with holes")
        return found


class _BoundedGzip(gzip.GzipFile):
    """A packed stream that is given up where it is too long: what is skipped is unpacked too."""

    _left = _MOST_UNPACKED
    # tarfile reads on after the end, as far as a header says that its file goes.
    _reads_after_end = 16

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes."""
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ToolchainError(f"it unpacks to more than {_MOST_UNPACKED >> 20} MiB")
        if not data and size:
            self._reads_after_end -= 1
            if self._reads_after_end < 0:
                raise EOFError("it ends within a file")
        return data


def _compare(tree: PinnedTree, files: dict[str, bytes]) -> None:
    try:
        found = canonical_digest(sorted([name, sha256_bytes(content)] for name, content in files.items()))
    except UnicodeEncodeError:  # no pinned name is no text
        found = None
    if found != tree.sha256:
        raise ToolchainError("it holds other files than were pinned")


def _write(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        # Their names are part of what was pinned.
        path = folder / PurePosixPath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
