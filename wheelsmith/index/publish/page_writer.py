"""Make the pages of an index say what its states say, while others change both."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.index.entries.catalogue import catalogue_key
from wheelsmith.index.entries.entry import ProjectState
from wheelsmith.index.entries.listing import Listing, dump_listing, listing_of, load_listing
from wheelsmith.index.entries.render import simple_pages, simple_roots, variants_files
from wheelsmith.index.entries.stored_states import LISTING, project_names, read_project, state_key
from wheelsmith.index.site.human import human_pages, human_root
from wheelsmith.index.storage.compare_and_swap import AT_ONCE, converge, replace_file, retry
from wheelsmith.index.storage.protocol import Listed, Storage, Stored

# As files.atomic_write names what it has not renamed yet; other hidden files are somebody's own.
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")
# A file that nothing refers to goes after the grace period; one that is used again after half of it is made new.
GRACE = 7 * 86400.0
# Each has files to read and write at once; more would fight over the one core that Python uses.
_PROJECTS_AT_ONCE = 4


def put_file(storage: Storage, key: str, content: Path | bytes, size: int, sha256: str) -> None:
    """Write a file under the hash of its content where it is not there.

    Bytes are compared with what lies there; of a wheel, the size and the hash that the storage may tell.

    :param sha256: of ``content``.
    """
    found = storage.stat(key)
    there = found is not None and found.size == size and found.sha256 in {None, sha256}
    if found and there and isinstance(content, bytes):
        there = _sha256(storage, key, found) == sha256
    if not there:
        storage.put(key, content)


def put_new_file(storage: Storage, key: str, content: Path | bytes, size: int, sha256: str) -> None:
    """Write a file that no state refers to yet. What lies there may be anything: it is read, or made new.

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


def project_pages(state: ProjectState) -> dict[str, bytes]:
    """Return the pages of one project, for installers and for people: key → bytes."""
    return simple_pages(state) | human_pages(state)


def root_pages(listing: Mapping[str, Listing]) -> dict[str, bytes]:
    """Return the pages that list projects: key → bytes."""
    return simple_roots(listing) | human_root(listing)


def write_pages(storage: Storage, projects: Sequence[str]) -> tuple[str, ...]:
    """Render some projects and the lists of projects, and remove their old pages; return the keys that changed."""
    return _Pages(storage).write(projects)


def write_all_pages(storage: Storage) -> tuple[str, ...]:
    """Render every project, and make the lists from nothing but the states; return the keys that changed.

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
        # Project → the tag of the state that its pages were made from, and its place in the lists.
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
        self._listed[project] = (stored.tag if stored else "", listing_of(state))
        for file in variants_files(state):
            # No page may be ahead of what it names by its hash.
            put_new_file(self._storage, file.path, file.data, len(file.data), file.sha256)
        before = (self._before or {}).get(project)
        return {**dict.fromkeys(_possible_pages(project, before.roots if before else ())), **project_pages(state)}

    def _change_lists(self, projects: Sequence[str], files: ThreadPoolExecutor) -> None:
        # Until there is nothing to change: a state that changed meanwhile may have found the list as it wants it.
        while True:
            stored = self._storage.read(LISTING)
            known = None if self._whole else _lists(stored)
            # Lists that cannot be read are made anew. Every project in them has a state, so it is found after them.
            named = projects if known is not None else sorted({*projects, *project_names(self._storage)})
            now = dict(zip(named, files.map(self._listing_now, named), strict=True))
            readable = {name: listing for name, listing in now.items() if listing}
            broken = {name: item for name, item in (_lists(stored) or {}).items() if name in now.keys() - readable}
            if not replace_file(self._storage, LISTING, stored, dump_listing((known or {}) | broken | readable)):
                return

    def _listing_now(self, project: str) -> Listing | None:
        """Return a project's place in the lists; None if its state is broken."""
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
        before = [f"{root}/index.{suffix}" for root in roots for suffix in ("json", "html")]
        return {**dict.fromkeys(before), **root_pages(load_listing(stored))}


def _lists(stored: Stored | None) -> dict[str, Listing] | None:
    """Return the lists; None if they are broken."""
    try:
        return load_listing(stored)
    except PackageIndexError:
        return None


def _possible_pages(project: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield the pages that a project may have had."""
    key = catalogue_key(project)
    yield from (key, key.replace("catalogue.json", "index.html"))
    for root in roots:
        yield from (f"{root}/{project}/index.json", f"{root}/{project}/index.html")
