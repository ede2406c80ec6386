"""Change an index so that a reader never meets a page that points at nothing, and no writer undoes another's work.

The order is the safety: files, the project's state, its pages, the lists of projects. A file stands under the hash of
its content and never changes; state is compared and swapped; pages are rendered from state alone. What a killed writer
left undone shows in no page, and ``repair`` finishes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from wheelsmith.errors import PackageIndexError
from wheelsmith.index.converge import converge, each, persist, replace_file
from wheelsmith.index.entry import Answer, IndexEntry, ProjectState
from wheelsmith.index.listing import dump_listing, listing_of, load_listing
from wheelsmith.index.pages import project_pages, root_pages
from wheelsmith.index.state import add_entries, check_project, dump_state, load_state, project_of
from wheelsmith.index.storage import Storage, Stored

STATE = "_state/"
LISTING = "_state/.listing.json"
# A file that nothing refers to goes after the grace period; one that is used again after half of it is made new.
GRACE = 7 * 86400.0


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

    def state(self, project: str) -> ProjectState:
        """Give what the index knows of a project, which is nothing when it has none of that name.

        :raises PackageIndexError: its state cannot be read.
        """
        return _load(self._storage, project)[0]

    def states(self) -> dict[str, ProjectState]:
        """Give every project's state.

        :raises PackageIndexError: one cannot be read.
        """
        return _states(self._storage)

    def add(
        self, offers: Sequence[Offer], *, upload_time: str, answers: Mapping[str, Sequence[Answer]] | None = None
    ) -> tuple[IndexEntry, ...]:
        """Add wheels; those that are there already change nothing.

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

        def checked(state: ProjectState) -> ProjectState:
            if not state.entries and not state.answers:
                raise PackageIndexError(f"{self._storage.name} has no project {project}")
            return transition(state)

        def work(storage: Storage) -> ProjectState:
            state = _advance(storage, project, checked)
            _publish_pages(storage, [project])
            return state

        return self._storage.transaction(work)

    def repair(self) -> tuple[str, ...]:
        """Render whatever is not as the states say, as after a writer was killed; gives the keys that were mended."""
        return self._storage.transaction(_repair)

    def collect(self, *, older_than: float) -> tuple[str, ...]:
        """Remove files that nothing refers to; gives their keys.

        :param older_than: seconds of the epoch; younger ones may be about to be published.
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
    aging = time.time() - GRACE / 2
    each(offers, lambda offer: _put_wheel(storage, offer, 0 if offer.entry.path in in_use else aging))
    states = {project: _advance(storage, project, add(project)) for project in projects}
    # Somebody collecting at this moment may have taken an old file of the same content.
    each(offers, lambda offer: _put_wheel(storage, offer, 0))
    _publish_pages(storage, projects)
    entries = {entry.filename: entry for state in states.values() for entry in state.entries}
    return tuple(entries[offer.entry.filename] for offer in offers)


def _put_wheel(storage: Storage, offer: Offer, oldest: float) -> None:
    """Write a wheel and its side-car where they are not there.

    :param oldest: seconds of the epoch; what was written before is written again, and so becomes new.
    """
    path = offer.entry.path
    for key, content, size in (
        (f"{path}.metadata", offer.metadata, len(offer.metadata)),
        (path, offer.wheel, offer.entry.size),
    ):
        found = storage.look(key)
        if found is None or found.size != size or found.modified < oldest:
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
    written: list[str] = []
    for project in projects:
        written += converge(storage, _state_key(project), partial(_pages_of, storage.name, project))
    return (*written, *_publish_listing(storage, projects))


def _pages_of(place: str, project: str, stored: Stored | None) -> dict[str, bytes]:
    return project_pages(_read_state(place, project, stored))


def _publish_listing(storage: Storage, projects: Iterable[str]) -> tuple[str, ...]:
    def attempt() -> None:
        # Until there is nothing to change: a state that changed meanwhile may have found the list as it wants it.
        while True:
            stored = storage.read(LISTING)
            new = {name: listing_of(_load(storage, name)[0]) for name in projects}
            if not replace_file(storage, LISTING, stored, dump_listing({**load_listing(stored), **new})):
                return

    persist(attempt)
    return tuple(converge(storage, LISTING, lambda stored: root_pages(load_listing(stored))))


def _repair(storage: Storage) -> tuple[str, ...]:
    return _publish_pages(storage, sorted(_states(storage)))


def _collect(storage: Storage, older_than: float) -> tuple[str, ...]:
    old = [item.key for item in storage.listing("files/") if item.modified < older_than]
    # After the listing: what was published meanwhile is then known to be in use.
    unused = set(old) - _in_use(storage, old)
    gone = []
    for key in sorted(unused):
        # Whoever is about to publish a file makes it new first.
        found = storage.look(key)
        if found and found.modified < older_than:
            storage.delete(key)
            gone.append(key)
    if lost := [key for key in sorted(_in_use(storage, gone)) if storage.look(key) is None]:
        raise PackageIndexError(
            f"published in the moment in which they were collected: {', '.join(lost)}", remedy="publish them again"
        )
    return tuple(gone)


def _in_use(storage: Storage, keys: Iterable[str]) -> set[str]:
    used = {entry.path for state in _states(storage).values() for entry in state.entries}
    return {key for key in keys if key.removesuffix(".metadata") in used}


def _states(storage: Storage) -> dict[str, ProjectState]:
    keys = sorted(item.key for item in storage.listing(STATE))
    names = [key.removeprefix(STATE).removesuffix(".json") for key in keys if not key.startswith(f"{STATE}.")]
    return {name: _load(storage, name)[0] for name in names}


def _load(storage: Storage, project: str) -> tuple[ProjectState, Stored | None]:
    stored = storage.read(_state_key(project))
    return _read_state(storage.name, project, stored), stored


def _read_state(place: str, project: str, stored: Stored | None) -> ProjectState:
    if stored is None:
        return ProjectState(project=project)
    return load_state(stored.data, f"{place}/{_state_key(project)}")


def _state_key(project: str) -> str:
    return f"{STATE}{project}.json"
