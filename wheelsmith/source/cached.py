"""Source trees in the cache, at ``sources/KEY/DIGEST``.

If the files no longer have this digest, the tree is made again.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wheelsmith.base.beneath import WorkFolder, make_read_only, remove_tree
from wheelsmith.base.errors import SourceError
from wheelsmith.base.files import mark_used, publish_tree
from wheelsmith.model import SourceId
from wheelsmith.source.tree import FoundFile, SourceTree, copy_into, make_tree, walk

_CACHE_FOLDER = "sources"


def find_cached(key: str, cache: Path, origin: SourceId) -> SourceTree | None:
    """Return the tree of a key, or None if it is missing or changed.

    :param origin: the identity of the source. Its tree digest is ignored and computed here.
    """
    folder = cache / _CACHE_FOLDER / key
    try:
        (tree,) = (entry.name for entry in os.scandir(folder))
        found = _with_origin(walk(folder / tree), origin)
    except (OSError, ValueError, SourceError):
        return None
    if found.id.tree != tree:
        return None
    mark_used(folder)
    return found


def make_cached(key: str, cache: Path, origin: SourceId, files: Callable[[Path], Iterator[FoundFile]]) -> SourceTree:
    """Return the tree of a key. Make it if it is missing or changed. Several runs may do this at the same time.

    :param files: takes a scratch folder, writes the files there and returns them.
    :raises SourceError: the files are refused.
    """
    if found := find_cached(key, cache, origin):
        return found
    with scratch_folder(cache) as scratch:
        tree = _with_origin(files(scratch), origin)
        made = scratch / "made"
        with WorkFolder.make(made) as folder:
            copy_into(tree, folder, tree.id.tree)
        make_read_only(made)
        final = cache / _CACHE_FOLDER / key
        if final.is_dir() and find_cached(key, cache, origin) is None:
            final.rename(final.with_name(f".changed-{secrets.token_hex(8)}"))
        publish_tree(made, final)
    if found := find_cached(key, cache, origin):
        return found
    raise SourceError(f"{final} was changed while it was read", remedy="run the same command again")


@contextmanager
def scratch_folder(cache: Path) -> Iterator[Path]:
    """Yield a scratch folder next to the cached trees, and remove it at the end.

    A prune removes the scratch folders of killed runs.
    """
    (cache / _CACHE_FOLDER).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".part-", dir=cache / _CACHE_FOLDER))
    try:
        yield folder
    finally:
        remove_tree(folder)


def changed_sources(cache: Path) -> dict[str, str | None]:
    """Compare every cached tree with its digest. Return key → message, or None if the tree is unchanged."""
    folders = (path for path in sorted((cache / _CACHE_FOLDER).glob("[!.]*")) if path.is_dir())
    nameless = SourceId(origin="", revision=None, commit=None, tree="")
    return {
        path.name: None if find_cached(path.name, cache, nameless) else "its files have changed" for path in folders
    }


def _with_origin(files: Iterator[FoundFile], origin: SourceId) -> SourceTree:
    return make_tree(files, origin=origin.origin, revision=origin.revision, commit=origin.commit)
