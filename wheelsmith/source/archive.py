"""A project in an archive: unpacked once, beneath the cache, and then a tree as any other.

It is kept by the hash of the archive, in a folder that is called by the hash of the tree: what was changed there since
is seen, and unpacked again.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wheelsmith.base.beneath import make_read_only, remove_tree
from wheelsmith.base.errors import Place, SourceError
from wheelsmith.base.files import mark_used, publish_tree, sha256_file
from wheelsmith.source.tree import FoundFile, SourceTree, make_tree, walk
from wheelsmith.source.unpack import ARCHIVES, unpack

MOST_PACKED = 256 << 20  # bytes
_ROOM = "sources"


def read_archive(path: Path, cache: Path) -> SourceTree:
    """Return what an archive of the user's own holds.

    :raises SourceError: it is none, or holds what must not be used.
    """
    if not path.name.endswith(ARCHIVES):
        raise SourceError(
            f"{path.name} is no folder, and no archive that is read: those are {', '.join(ARCHIVES)}",
            remedy="fix kernel.path in matrix.yaml",
        )
    check_packed_size(path, path.name)
    sha256 = sha256_file(path)
    origin = f"archive:{path.name}"
    found = find_unpacked(sha256, cache, origin) or keep_unpacked(path, path.name, sha256, cache, origin)
    if sha256_file(path) != sha256:
        raise SourceError(f"{path.name} was changed while it was read", remedy="run the same command again")
    return found


def check_packed_size(path: Path, name: str) -> None:
    """Refuse an archive that is larger than any project's.

    :raises SourceError: it is.
    """
    if path.stat().st_size > MOST_PACKED:
        raise SourceError(f"{name} is larger than {MOST_PACKED >> 20} MiB")


def find_unpacked(sha256: str, cache: Path, origin: str) -> SourceTree | None:
    """Return what an archive holds that was unpacked before; None where it was not, or is not as it was."""
    folder = cache / _ROOM / sha256
    try:
        (tree,) = (entry.name for entry in os.scandir(folder))
        found = _read(folder / tree, sha256, origin)
    except (OSError, ValueError, SourceError):
        return None
    if found.id.tree != tree:
        return None
    mark_used(folder)
    return found


def keep_unpacked(archive: Path, name: str, sha256: str, cache: Path, origin: str) -> SourceTree:
    """Unpack an archive into the cache; two runs may do so at once.

    :param name: of the archive, as people know it; its ending says what it is.
    :raises SourceError: it cannot be unpacked, or holds what must not be used.
    """
    with scratch_folder(cache) as scratch:
        try:
            root = unpack(archive, name, scratch / "unpacked")
            tree = _read(root, sha256, origin)
        except SourceError as error:
            raise SourceError(error.message, where=error.where or Place(file=name), remedy=error.remedy) from None
        made = scratch / "made"
        made.mkdir()
        root.rename(made / tree.id.tree)
        make_read_only(made)
        final = cache / _ROOM / sha256
        if final.is_dir() and find_unpacked(sha256, cache, origin) is None:
            final.rename(final.with_name(f".changed-{secrets.token_hex(8)}"))
        publish_tree(made, final)
    found = find_unpacked(sha256, cache, origin)
    if found is None:
        raise SourceError(f"{name} is changed in the cache while it is read", remedy="run the same command again")
    return found


@contextmanager
def scratch_folder(cache: Path) -> Iterator[Path]:
    """Yield a folder beside what is unpacked, which goes away at the end; a prune removes what a killed run leaves."""
    (cache / _ROOM).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".part-", dir=cache / _ROOM))
    try:
        yield folder
    finally:
        remove_tree(folder)


def changed_sources(cache: Path) -> dict[str, str | None]:
    """Compare every unpacked archive with what it was; return them by their hash, and what differs."""
    folders = (path for path in sorted((cache / _ROOM).glob("[!.]*")) if path.is_dir())
    return {
        path.name: None if find_unpacked(path.name, cache, "") else "it is not what was unpacked" for path in folders
    }


def _read(root: Path, sha256: str, origin: str) -> SourceTree:
    return make_tree(_files(root), origin=origin, commit=sha256)


def _files(root: Path) -> Iterator[FoundFile]:
    for path, entry in walk(root, lambda *_: True):
        executable = bool(entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR)
        yield FoundFile(path=path, real=root / path, executable=executable)
