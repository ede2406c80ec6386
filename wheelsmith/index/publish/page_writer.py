"""Make the pages of an index say what its states say, while others change both."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.index.entries.catalogue import catalogue_key
from wheelsmith.index.entries.listing import Listing, dump_listing, listing_of, load_listing
from wheelsmith.index.entries.stored_states import LISTING, project_names, read_project, state_key
from wheelsmith.index.entries.variants import variants_files
from wheelsmith.index.publish.pages import project_pages, root_pages
from wheelsmith.index.storage.compare_and_swap import AT_ONCE, converge, replace_file, retry
from wheelsmith.index.storage.protocol import Listed, Storage, Stored

# A file that nothing refers to goes after the grace period; one that is used again after half of it is made new.
GRACE = 7 * 86400.0
# Each has files to read and write at once; more would fight over the one core that Python uses.
_PROJECTS_AT_ONCE = 4


def put_file(storage: Storage, key: str, content: Path | bytes, size: int, sha256: str) -> None:
    """Write a file under the hash of its content where it is not there.

    What was given as bytes is compared with what lies there; of a wheel, its size and what hash the storage tells.

    :param sha256: of ``content``.
    """
    found = storage.stat(key)
    there = found is not None and found.size == size and found.sha256 in {None, sha256}
    if found and there and isinstance(content, bytes):
        there = _sha256(storage, key, found) == sha256
    if not there:
        storage.put(key, content)


def put_new_file(storage: Storage, key: str, content: Path | bytes, size: int, sha256: str) -> None:
    """Write a file that no state refers to yet. What lies there was left by nobody knows whom: it is read, or made new.

    :param sha256: of ``content``.
    """
    found = storage.stat(key)
    young = found and found.size == size and found.modified >= time.time() - GRACE / 2
    if not (found and young and _sha256(storage, key, found) == sha256):
        storage.put(key, content)


def _sha256(storage: Storage, key: str, found: Listed) -> str | None:
    """Return the hash of what lies there: as the storage tells it, or by reading it."""
    if found.sha256 is not None:
        return found.sha256
    stored = storage.read(key)
    return hashlib.sha256(stored.data).hexdigest() if stored else None


def write_pages(storage: Storage, projects: Sequence[str]) -> tuple[str, ...]:
    """Render some projects and the lists of projects; returns the keys that were not as they should be.

    A page of theirs that nothing asks for any more is removed.
    """
    return _Pages(storage).write(projects)


def write_all_pages(storage: Storage) -> tuple[str, ...]:
    """Render every project, and make the lists from nothing but the states; returns what was not as it should be.

    A project whose state is broken keeps its pages, and its place in the lists.
    """
    return _Pages(storage, whole=True).write(project_names(storage))


class _Pages:
    """One rendering.

    :param whole: the lists are made anew, not changed.
    """

    def __init__(self, storage: Storage, *, whole: bool = False) -> None:
        self._storage = storage
        self._before = _lists(storage.read(LISTING))
        self._whole = whole
        # Project → the tag of the state that its pages were made from, and what the lists say of it.
        self._listed: dict[str, tuple[str, Listing]] = {}

    def write(self, projects: Sequence[str]) -> tuple[str, ...]:
        storage = self._storage
        with ThreadPoolExecutor(_PROJECTS_AT_ONCE) as rendering, ThreadPoolExecutor(AT_ONCE) as files:

            def bring(name: str) -> list[str]:
                try:
                    return converge(storage, files, state_key(name), partial(self._of_project, name))
                except UnreadableError:
                    if not self._whole:
                        raise
                    return []

            written = list(rendering.map(bring, projects))
            retry(lambda: self._change_lists(projects, files))
            roots = converge(storage, files, LISTING, self._of_lists)
        return (*chain.from_iterable(written), *roots)

    def _of_project(self, project: str, stored: Stored | None) -> dict[str, bytes | None]:
        state = read_project(self._storage.name, project, stored)
        listing = listing_of(state)
        self._listed[project] = (stored.tag if stored else "", listing)
        for file in variants_files(state):
            # No page may be ahead of what it names by its hash.
            put_new_file(self._storage, file.path, file.data, len(file.data), file.sha256)
        before = (self._before or {}).get(project)
        return _with_gone(project_pages(state), _possible_pages(project, before.roots if before else ()))

    def _change_lists(self, projects: Sequence[str], files: ThreadPoolExecutor) -> None:
        # Until there is nothing to change: a state that changed meanwhile may have found the list as it wants it.
        while True:
            stored = self._storage.read(LISTING)
            known = None if self._whole else _lists(stored)
            # Lists that nobody can read are made anew. Whoever is in them has a state, so it is found after them.
            named = projects if known is not None else sorted({*projects, *project_names(self._storage)})
            now = dict(zip(named, files.map(self._listing_now, named), strict=True))
            readable = {name: listing for name, listing in now.items() if listing}
            broken = {name: item for name, item in (_lists(stored) or {}).items() if name in now.keys() - readable}
            if not replace_file(self._storage, LISTING, stored, dump_listing((known or {}) | broken | readable)):
                return

    def _listing_now(self, project: str) -> Listing | None:
        """Return what the lists are to say of a project; None where its state is broken."""
        try:
            stored = self._storage.read(state_key(project))
            tag, listing = self._listed.get(project, ("", None))
            if stored and stored.tag == tag and listing:
                return listing
            return listing_of(read_project(self._storage.name, project, stored))
        except UnreadableError:
            return None

    def _of_lists(self, stored: Stored | None) -> dict[str, bytes | None]:
        roots = {root for item in (self._before or {}).values() for root in item.roots}
        return _with_gone(root_pages(load_listing(stored)), _root_keys(roots))


def _lists(stored: Stored | None) -> dict[str, Listing] | None:
    """Return what the lists say; None where they are broken."""
    try:
        return load_listing(stored)
    except PackageIndexError:
        return None


def _with_gone(pages: Mapping[str, bytes], before: Iterable[str]) -> dict[str, bytes | None]:
    return {**dict.fromkeys(before), **pages}


def _possible_pages(project: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield the pages that a project may have had."""
    key = catalogue_key(project)
    yield from (key, key.replace("catalogue.json", "index.html"))
    for root in roots:
        yield from (f"{root}/{project}/index.json", f"{root}/{project}/index.html")


def _root_keys(roots: Iterable[str]) -> Iterator[str]:
    for root in roots:
        yield from (f"{root}/index.json", f"{root}/index.html")
