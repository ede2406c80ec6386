"""Change an index so that a reader never meets a page that points at nothing, and no writer undoes another's work.

The order is the safety: files, the project's state, its pages, the lists of projects. A file stands under the hash of
its content and never changes; state is compared and swapped; pages are rendered from state alone. What a killed writer
left undone shows in no page, and ``repair`` finishes it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path

from wheelsmith.errors import PackageIndexError
from wheelsmith.index.entry import Answer, IndexEntry, ProjectState
from wheelsmith.index.listing import Listing, dump_listing, listing_of, load_listing
from wheelsmith.index.pages import project_pages, root_pages
from wheelsmith.index.state import add_entries, check_project, dump_state, load_state, project_of
from wheelsmith.index.storage import Conflict, Storage, Stored, T

STATE = "_state/"
LISTING = "_state/.listing.json"
# A file that nothing refers to goes after the grace period; one that is used again before half of it is made new.
GRACE = 7 * 86400.0
_ATTEMPTS = 100
_AT_ONCE = 8
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

    for project in projects:
        # Refused before anything is written, where it is to be refused.
        add(project)(_load(storage, project)[0])
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(partial(_put_wheel, storage), offers))
    states = {project: _advance(storage, project, add(project)) for project in projects}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # Somebody collecting at this moment may have taken an old file of the same content.
        list(pool.map(partial(_put_wheel, storage), offers))
    _publish_pages(storage, projects)
    entries = {entry.filename: entry for state in states.values() for entry in state.entries}
    return tuple(entries[offer.entry.filename] for offer in offers)


def _put_wheel(storage: Storage, offer: Offer) -> None:
    path = offer.entry.path
    for key, content, size in (
        (f"{path}.metadata", offer.metadata, len(offer.metadata)),
        (path, offer.wheel, offer.entry.size),
    ):
        found = storage.look(key)
        if found is None or found.size != size or found.modified < time.time() - GRACE / 2:
            storage.put(key, content)


def _advance(storage: Storage, project: str, transition: Callable[[ProjectState], ProjectState]) -> ProjectState:
    """Compare and swap a project's state until nobody came between."""

    def attempt() -> ProjectState:
        state, stored = _load(storage, project)
        following = transition(state)
        _replace(storage, _state_key(project), stored, dump_state(following))
        return following

    return _persist(attempt)


def _publish_pages(storage: Storage, projects: Sequence[str]) -> tuple[str, ...]:
    """Render some projects and the lists of projects; gives the keys that were not as they should be."""
    # Project → the tag of the state that its pages were made from, and what the lists say of it.
    listed: dict[str, tuple[str, Listing]] = {}

    def render(project: str) -> list[str]:
        def pages(stored: Stored | None) -> dict[str, bytes]:
            state = _parse(storage, project, stored)
            listed[project] = (stored.tag if stored else "", listing_of(state))
            return project_pages(state)

        return _render(storage, files, _state_key(project), pages)

    def listing_now(project: str) -> Listing:
        stored, (tag, listing) = storage.read(_state_key(project)), listed[project]
        return listing if stored and stored.tag == tag else listing_of(_parse(storage, project, stored))

    def publish_listing() -> None:
        stored = storage.read(LISTING)
        now = dict(zip(projects, files.map(listing_now, projects), strict=True))
        _replace(storage, LISTING, stored, dump_listing(load_listing(stored) | now))

    with ThreadPoolExecutor(_PROJECTS_AT_ONCE) as rendering, ThreadPoolExecutor(_AT_ONCE) as files:
        written = list(rendering.map(render, projects))
        _persist(publish_listing)
        roots = _render(storage, files, LISTING, lambda stored: root_pages(load_listing(stored)))
    return (*chain.from_iterable(written), *roots)


def _render(
    storage: Storage, files: Executor, source: str, render: Callable[[Stored | None], dict[str, bytes]]
) -> list[str]:
    """Bring pages to what ``render`` makes of ``source``; gives the keys of those that were not so."""

    def attempt() -> list[str]:
        first = storage.read(source)
        pages = render(first)
        keys = list(pages)
        stored = dict(zip(keys, files.map(storage.read, keys), strict=True))
        # What the pages are made of is read after their tags: a slow writer cannot put an older page over a newer one.
        if (now := storage.read(source)) != first:
            pages |= render(now)
        written = {key: files.submit(_replace, storage, key, stored[key], pages[key]) for key in keys}
        # None may still be writing when another attempt begins.
        wait(written.values())
        return [key for key, new in written.items() if new.result()]

    return _persist(attempt)


def _replace(storage: Storage, key: str, stored: Stored | None, data: bytes) -> bool:
    if stored and stored.data == data:
        return False
    storage.swap(key, data, stored.tag if stored else None)
    return True


def _persist(attempt: Callable[[], T]) -> T:
    """Do something again as long as others are faster, waiting longer and longer, and not in step with them."""
    for number in range(_ATTEMPTS):
        try:
            return attempt()
        except Conflict:
            if number == _ATTEMPTS - 1:
                raise
            time.sleep(random.uniform(0, min(2.0, 0.01 * 2**number)))  # noqa: S311  # not a secret
    raise AssertionError


def _repair(storage: Storage) -> tuple[str, ...]:
    return _publish_pages(storage, _names(storage))


def _collect(storage: Storage, older_than: float) -> tuple[str, ...]:
    old = [item.key for item in storage.listing("files/") if item.modified < older_than]
    # After the listing: what was published meanwhile is then known to be in use.
    used = {entry.path for state in _states(storage).values() for entry in state.entries}
    gone = [key for key in old if key.removesuffix(".metadata") not in used]
    for key in gone:
        storage.delete(key)
    return tuple(sorted(gone))


def _states(storage: Storage) -> dict[str, ProjectState]:
    return {name: _load(storage, name)[0] for name in _names(storage)}


def _names(storage: Storage) -> list[str]:
    keys = sorted(item.key for item in storage.listing(STATE))
    return [key.removeprefix(STATE).removesuffix(".json") for key in keys if not key.startswith(f"{STATE}.")]


def _load(storage: Storage, project: str) -> tuple[ProjectState, Stored | None]:
    stored = storage.read(_state_key(project))
    return _parse(storage, project, stored), stored


def _parse(storage: Storage, project: str, stored: Stored | None) -> ProjectState:
    if stored is None:
        return ProjectState(project=project)
    return load_state(stored.data, f"{storage.name}/{_state_key(project)}")


def _state_key(project: str) -> str:
    return f"{STATE}{project}.json"
