"""Change an index so that a reader never meets a page that points at nothing, and no writer undoes another's work.

The order is the safety: files, the project's state, its pages, the lists of projects. A file stands under the hash of
its content and never changes; state is compared and swapped; pages are rendered from state alone. What a killed writer
left undone shows in no page, and ``repair`` finishes it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from wheelsmith.errors import PackageIndexError
from wheelsmith.index.entry import Answer, IndexEntry, ProjectState
from wheelsmith.index.listing import dump_listing, listing_of, load_listing
from wheelsmith.index.pages import project_pages, root_pages
from wheelsmith.index.state import add_entries, check_project, dump_state, load_state, project_of
from wheelsmith.index.storage import Conflict, Storage, Stored, T
from wheelsmith.index.variants import variants_files

STATE = "_state/"
LISTING = "_state/.listing.json"
# A file that nothing refers to goes after the grace period; one that is used again before half of it is made new.
GRACE = 7 * 86400.0
_ATTEMPTS = 100
_AT_ONCE = 8


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
        list(pool.map(lambda offer: _put_wheel(storage, offer), offers))
    states = {project: _advance(storage, project, add(project)) for project in projects}
    for offer in offers:
        # Somebody collecting at this moment may have taken an old file of the same content.
        _put_wheel(storage, offer)
    _publish_pages(storage, projects)
    entries = {entry.filename: entry for state in states.values() for entry in state.entries}
    return tuple(entries[offer.entry.filename] for offer in offers)


def _put_wheel(storage: Storage, offer: Offer) -> None:
    path = offer.entry.path
    _put(storage, f"{path}.metadata", offer.metadata, len(offer.metadata))
    _put(storage, path, offer.wheel, offer.entry.size)


def _put(storage: Storage, key: str, content: Path | bytes, size: int) -> None:
    """Write a file under the hash of its content, unless it is there, and will be for a while."""
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
    written = []
    for project in projects:
        written += _render(storage, partial(_project_pages, storage, project))
    return (*written, *_publish_listing(storage, projects))


def _project_pages(storage: Storage, project: str) -> dict[str, bytes]:
    state = _load(storage, project)[0]
    for file in variants_files(state):
        # No page may be ahead of what it names by its hash.
        _put(storage, file.path, file.data, len(file.data))
    return project_pages(state)


def _publish_listing(storage: Storage, projects: Iterable[str]) -> tuple[str, ...]:
    def attempt() -> None:
        stored = storage.read(LISTING)
        new = {name: listing_of(_load(storage, name)[0]) for name in projects}
        _replace(storage, LISTING, stored, dump_listing({**load_listing(stored), **new}))

    _persist(attempt)
    return tuple(_render(storage, lambda: root_pages(load_listing(storage.read(LISTING)))))


def _render(storage: Storage, render: Callable[[], dict[str, bytes]]) -> list[str]:
    """Bring pages to what ``render`` gives; gives the keys of those that were not so."""
    keys = tuple(render())

    def attempt() -> list[str]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            stored = dict(zip(keys, pool.map(storage.read, keys), strict=True))
            # Rendered after the tags were read, so a slow writer cannot put an older page over a newer one.
            pages = render()
            written = pool.map(lambda key: _replace(storage, key, stored[key], pages[key]), keys)
            return [key for key, new in zip(keys, written, strict=True) if new]

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
    return _publish_pages(storage, sorted(_states(storage)))


def _collect(storage: Storage, older_than: float) -> tuple[str, ...]:
    old = [item.key for item in storage.listing("files/") if item.modified < older_than]
    # After the listing: what was published meanwhile is then known to be in use.
    states = _states(storage).values()
    used = {entry.path for state in states for entry in state.entries}
    used |= {file.path for state in states for file in variants_files(state)}
    gone = [key for key in old if key.removesuffix(".metadata") not in used]
    for key in gone:
        storage.delete(key)
    return tuple(sorted(gone))


def _states(storage: Storage) -> dict[str, ProjectState]:
    keys = sorted(item.key for item in storage.listing(STATE))
    names = [key.removeprefix(STATE).removesuffix(".json") for key in keys if not key.startswith(f"{STATE}.")]
    return {name: _load(storage, name)[0] for name in names}


def _load(storage: Storage, project: str) -> tuple[ProjectState, Stored | None]:
    key = _state_key(project)
    stored = storage.read(key)
    if stored is None:
        return ProjectState(project=project), None
    return load_state(stored.data, f"{storage.name}/{key}"), stored


def _state_key(project: str) -> str:
    return f"{STATE}{project}.json"
