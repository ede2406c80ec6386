"""Change an index so that a reader never meets a page that points at nothing, and no writer undoes another's work.

The order is the safety: files, the project's state, its pages, the lists of projects. A file stands under the hash of
its content and never changes; state is compared and swapped; pages are rendered from state alone. What a killed writer
left undone shows in no page, and ``repair`` finishes it.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path

from wheelsmith.errors import PackageIndexError
from wheelsmith.index.converge import AT_ONCE, converge, persist, replace_file
from wheelsmith.index.entry import Answer, IndexEntry, ProjectState
from wheelsmith.index.listing import Listing, dump_listing, listing_of, load_listing
from wheelsmith.index.pages import project_pages, root_pages
from wheelsmith.index.state import add_entries, check_project, dump_state, load_state, project_of
from wheelsmith.index.storage import Storage, Stored
from wheelsmith.index.variants import variants_files

STATE = "_state/"
LISTING = "_state/.listing.json"
# As files.atomic_write names what it has not renamed yet; other hidden files are somebody's own.
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")
# A file that nothing refers to goes after the grace period; one that is used again after half of it is made new.
GRACE = 7 * 86400.0
# Each has files to read and write at once; more would fight over the one core that Python uses.
_PROJECTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A wheel to add: ``entry.upload_time`` is replaced by the time of adding."""

    entry: IndexEntry
    wheel: Path
    metadata: bytes


class Index:
    """A static package index in some storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def entries(self, project: str) -> tuple[IndexEntry, ...]:
        """Give the wheels of a project, which are none when there is no such project.

        :raises PackageIndexError: its state cannot be read.
        """
        return _load(self._storage, project)[0].entries

    def known(self, project: str) -> ProjectState:
        """Give the state of a project that must be there.

        :raises PackageIndexError: it is not, or its state cannot be read.
        """
        return _existing(self._storage, check_project(project))

    def states(self) -> dict[str, ProjectState]:
        """Give every project's state.

        :raises PackageIndexError: one cannot be read.
        """
        return _states(self._storage)

    def add(
        self, offers: Sequence[Offer], *, upload_time: str, answers: Mapping[str, Sequence[Answer]] | None = None
    ) -> tuple[IndexEntry, ...]:
        """Add wheels; those that are there already change nothing. Gives their entries, in the order of the offers.

        :param upload_time: UTC, for the wheels that are new, e.g. ``2026-11-21T10:00:00Z``.
        :param answers: project → what became of the cells that have no wheel.
        :raises PackageIndexError: a file name is there with other bytes, or the storage cannot be written.
        """
        return self._storage.transaction(lambda storage: _add(storage, offers, answers or {}, upload_time))

    def change(self, project: str, transition: Callable[[ProjectState], ProjectState]) -> ProjectState:
        """Give a project its next state, and render it.

        :raises PackageIndexError: there is no such project, or the transition refuses.
        """
        project = check_project(project)

        def work(storage: Storage) -> ProjectState:
            _existing(storage, project)
            state = _advance(storage, project, transition)
            _publish_pages(storage, [project])
            return state

        return self._storage.transaction(work)

    def repair(self) -> tuple[str, ...]:
        """Render whatever is not as the states say, as after a writer was killed; gives the keys that were mended."""
        return self._storage.transaction(lambda storage: _publish_pages(storage, _names(storage)))

    def collect(self, *, older_than: float) -> tuple[str, ...]:
        """Remove files that nothing refers to; gives their keys.

        :param older_than: seconds of the epoch; younger ones may be about to be published.
        :raises PackageIndexError: something was published in the moment in which it was collected.
        """
        return self._storage.transaction(lambda storage: _collect(storage, older_than))


def _add(
    storage: Storage, offers: Sequence[Offer], answers: Mapping[str, Sequence[Answer]], upload_time: str
) -> tuple[IndexEntry, ...]:
    by_project = sorted(offers, key=lambda offer: project_of(offer.entry.filename))
    wanted = {name: list(group) for name, group in groupby(by_project, lambda o: project_of(o.entry.filename))}
    projects = sorted({*wanted, *(check_project(name) for name in answers)})

    def add(project: str) -> Callable[[ProjectState], ProjectState]:
        new = [replace(offer.entry, upload_time=upload_time) for offer in wanted.get(project, [])]
        return lambda state: add_entries(state, new, answers.get(project, ()))

    # Refused before anything is written, where it is to be refused.
    known = {project: _load(storage, project)[0] for project in projects}
    for project in projects:
        add(project)(known[project])
    in_use = {entry.path for state in known.values() for entry in state.entries}

    def put(offer: Offer) -> None:
        (_put_wheel if offer.entry.path in in_use else _put_new_wheel)(storage, offer)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(put, offers))
        states = {project: _advance(storage, project, add(project)) for project in projects}
        # Somebody collecting at this moment may have taken an old file of the same content.
        list(pool.map(lambda offer: _put_wheel(storage, offer), offers))
    _publish_pages(storage, projects)
    entries = {entry.filename: entry for state in states.values() for entry in state.entries}
    return tuple(entries[offer.entry.filename] for offer in offers)


def _put_wheel(storage: Storage, offer: Offer) -> None:
    """Write a wheel that a state refers to, where it is not there."""
    path = offer.entry.path
    _put(storage, f"{path}.metadata", offer.metadata, len(offer.metadata), 0)
    _put(storage, path, offer.wheel, offer.entry.size, 0)


def _put_new_wheel(storage: Storage, offer: Offer) -> None:
    path, entry = offer.entry.path, offer.entry
    _put_new(storage, f"{path}.metadata", offer.metadata, len(offer.metadata), entry.metadata_sha256)
    _put_new(storage, path, offer.wheel, entry.size, entry.sha256)


def _put(storage: Storage, key: str, content: Path | bytes, size: int, oldest: float) -> None:
    """Write a file under the hash of its content where it is not there.

    :param oldest: seconds of the epoch; what was written before is written again, and so becomes new.
    """
    found = storage.look(key)
    if found is None or found.size != size or found.modified < oldest:
        storage.put(key, content)


def _put_new(storage: Storage, key: str, content: Path | bytes, size: int, sha256: str) -> None:
    """Write a file that no state refers to yet; what lies there was left by nobody knows whom, so it is read.

    :param sha256: of ``content``.
    """
    found = storage.look(key)
    aging = time.time() - GRACE / 2
    if found and found.size == size and found.modified >= aging:
        lies = found.sha256
        if lies is None and (stored := storage.read(key)):
            lies = hashlib.sha256(stored.data).hexdigest()
        if lies == sha256:
            return
    storage.put(key, content)


def _advance(storage: Storage, project: str, transition: Callable[[ProjectState], ProjectState]) -> ProjectState:
    """Compare and swap a project's state until nobody came between."""

    def attempt() -> ProjectState:
        state, stored = _load(storage, project)
        following = transition(state)
        replace_file(storage, _state_key(project), stored, dump_state(following))
        return following

    return persist(attempt)


def _publish_pages(storage: Storage, projects: Sequence[str]) -> tuple[str, ...]:
    """Render some projects and the lists of projects; gives the keys that were not as they should be."""
    # Project → the tag of the state that its pages were made from, and what the lists say of it.
    listed: dict[str, tuple[str, Listing]] = {}

    def pages(project: str, stored: Stored | None) -> dict[str, bytes]:
        state = _read_state(storage.name, project, stored)
        listed[project] = (stored.tag if stored else "", listing_of(state))
        for file in variants_files(state):
            # No page may be ahead of what it names by its hash.
            _put(storage, file.path, file.data, len(file.data), time.time() - GRACE / 2)
        return project_pages(state)

    def listing_now(project: str) -> Listing:
        stored, (tag, listing) = storage.read(_state_key(project)), listed[project]
        return listing if stored and stored.tag == tag else listing_of(_read_state(storage.name, project, stored))

    def publish_listing() -> None:
        # Until there is nothing to change: a state that changed meanwhile may have found the list as it wants it.
        while True:
            stored = storage.read(LISTING)
            now = dict(zip(projects, files.map(listing_now, projects), strict=True))
            if not replace_file(storage, LISTING, stored, dump_listing(load_listing(stored) | now)):
                return

    with ThreadPoolExecutor(_PROJECTS_AT_ONCE) as rendering, ThreadPoolExecutor(AT_ONCE) as files:
        written = list(
            rendering.map(lambda name: converge(storage, files, _state_key(name), partial(pages, name)), projects)
        )
        persist(publish_listing)
        roots = converge(storage, files, LISTING, lambda stored: root_pages(load_listing(stored)))
    return (*chain.from_iterable(written), *roots)


def _collect(storage: Storage, older_than: float) -> tuple[str, ...]:
    old = [item.key for item in storage.listing("") if item.modified < older_than]
    # After the listing: what was published meanwhile is then known to be in use.
    unused = _left(storage, old)
    gone = []
    for key in sorted(unused):
        # Whoever is about to publish a file makes it new first.
        found = storage.look(key)
        if found and found.modified < older_than:
            storage.delete(key)
            gone.append(key)
    if lost := sorted(key for key in set(gone) - _left(storage, gone) if storage.look(key) is None):
        raise PackageIndexError(
            f"published in the moment in which they were collected: {', '.join(lost)}", remedy="publish them again"
        )
    return tuple(gone)


def _left(storage: Storage, keys: Iterable[str]) -> set[str]:
    """Give the files that nothing refers to, and what killed processes were writing."""
    states = _states(storage).values()
    used = {entry.path for state in states for entry in state.entries}
    used |= {file.path for state in states for file in variants_files(state)}
    return {
        key
        for key in keys
        if _TEMPORARY.fullmatch(key.rpartition("/")[2])
        or (key.startswith("files/") and key.removesuffix(".metadata") not in used)
    }


def _states(storage: Storage) -> dict[str, ProjectState]:
    return {name: _load(storage, name)[0] for name in _names(storage)}


def _names(storage: Storage) -> list[str]:
    keys = sorted(item.key for item in storage.listing(STATE))
    return [key.removeprefix(STATE).removesuffix(".json") for key in keys if not key.startswith(f"{STATE}.")]


def _load(storage: Storage, project: str) -> tuple[ProjectState, Stored | None]:
    stored = storage.read(_state_key(project))
    return _read_state(storage.name, project, stored), stored


def _read_state(place: str, project: str, stored: Stored | None) -> ProjectState:
    if stored is None:
        return ProjectState(project=project)
    return load_state(stored.data, f"{place}/{_state_key(project)}", project)


def _existing(storage: Storage, project: str) -> ProjectState:
    state, stored = _load(storage, project)
    if stored is None:
        raise PackageIndexError(f"{storage.name} has no project {project}")
    return state


def _state_key(project: str) -> str:
    return f"{STATE}{project}.json"
