"""A project in an archive: unpacked into the cache once, then a tree as any other."""

from __future__ import annotations

from pathlib import Path

from wheelsmith.base.errors import Place, SourceError
from wheelsmith.base.files import sha256_file
from wheelsmith.model import SourceId
from wheelsmith.source.cached import make_cached
from wheelsmith.source.tree import SourceTree, walk
from wheelsmith.source.unpack import ARCHIVES, unpack


def read_archive(path: Path, cache: Path) -> SourceTree:
    """Return what an archive of the user's own holds.

    :raises SourceError: it is none, or holds what must not be used.
    """
    if not path.name.endswith(ARCHIVES):
        raise SourceError(
            f"{path.name} is no folder, and no archive that is read: those are {', '.join(ARCHIVES)}",
            remedy="fix kernel.path in matrix.yaml",
        )
    sha256 = sha256_file(path)
    found = unpack_cached(path, path.name, archive_id(f"archive:{path.name}", sha256), cache)
    if sha256_file(path) != sha256:
        raise SourceError(f"{path.name} was changed while it was read", remedy="run the same command again")
    return found


def archive_id(origin: str, sha256: str) -> SourceId:
    """Return the identity of an archive's tree, which is not known yet."""
    return SourceId(origin=origin, revision=None, commit=sha256, tree="")


def unpack_cached(archive: Path, name: str, origin: SourceId, cache: Path) -> SourceTree:
    """Return an archive's tree, unpacked into the cache unless it is there.

    :param name: the archive's file name; its ending is its format.
    :param origin: the tree's identity; ``commit`` is the archive's sha256.
    :raises SourceError: it cannot be unpacked, or holds what must not be used.
    """
    try:
        return make_cached(
            str(origin.commit), cache, origin, lambda scratch: walk(unpack(archive, name, scratch / "unpacked"))
        )
    except SourceError as error:
        raise SourceError(error.message, where=error.where or Place(file=name), remedy=error.remedy) from None
