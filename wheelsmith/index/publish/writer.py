"""Change an index so that a reader never meets a page that points at nothing, and no writer undoes another's work.

The order is the safety: files, the project's state, its pages, the lists of projects. A file stands under the hash of
its content and never changes; state is compared and swapped; pages are rendered from state alone. What a killed writer
left undone shows in no page, and ``repair`` finishes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, PlannedVersion, ProjectState
from wheelsmith.index.entries.render import variants_files
from wheelsmith.index.entries.side_files import Announced
from wheelsmith.index.entries.state import Transition, add_entries, check_project
from wheelsmith.index.entries.stored_states import dump_state, existing_project, load_project, load_states, state_key
from wheelsmith.index.publish.page_writer import TEMPORARY, put_file, put_new_file, write_all_pages, write_pages
from wheelsmith.index.publish.release import WheelUpload
from wheelsmith.index.storage.compare_and_swap import AT_ONCE, replace_file, retry
from wheelsmith.index.storage.protocol import Storage

T = TypeVar("T")


class Index:
    """A static package index in some storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def entries(self, project: str) -> tuple[IndexEntry, ...]:
        """Return the wheels of a project, none if there is no such project.

        :raises PackageIndexError: its state cannot be read.
        """
        return load_project(self._storage, project)[0].entries

    def known(self, project: str) -> ProjectState:
        """Return the state of a project that must be there.

        :raises PackageIndexError: it is not, or its state cannot be read.
        """
        return existing_project(self._storage, check_project(project))

    def states(self) -> dict[str, ProjectState]:
        """Return every project's state.

        :raises PackageIndexError: one cannot be read.
        """
        return load_states(self._storage)

    def add(
        self,
        offers: Sequence[WheelUpload],
        *,
        upload_time: str,
        answers: Mapping[str, Sequence[CellWithoutWheel]] | None = None,
        planned: Mapping[str, Sequence[PlannedVersion]] | None = None,
        revise: Mapping[str, Transition] | None = None,
    ) -> tuple[IndexEntry, ...]:
        """Add wheels; those that are there already change nothing. Return their entries, in the order of the offers.

        :param upload_time: UTC, for the wheels that are new, e.g. ``2026-11-21T10:00:00Z``.
        :param answers: project → the cells that have no wheel.
        :param planned: project → the cells that its versions are to serve.
        :param revise: project → a change of its state that is made before.
        :raises PackageIndexError: a file name is there with other bytes, or the storage cannot be written.
        """
        changes = _additions(offers, _by_project(answers or {}), _by_project(planned or {}), revise or {}, upload_time)
        return self._storage.transaction(lambda storage: _add(storage, offers, changes))

    def change(self, project: str, transition: Transition) -> ProjectState:
        """Apply a transition to a project's state, and render its pages; return the new state.

        :raises PackageIndexError: there is no such project, or the transition refuses.
        """
        project = check_project(project)

        def work(storage: Storage) -> ProjectState:
            existing_project(storage, project)
            state = _advance(storage, project, transition)
            write_pages(storage, [project])
            return state

        return self._storage.transaction(work)

    def attach(self, project: str, files: Mapping[str, Mapping[str, bytes | None]]) -> ProjectState:
        """Put files beside wheels that are there, in the place of those of their kinds.

        :param files: sha256 of a wheel → suffix → content, None to remove that kind. A wheel that is not there gets
            none.
        :raises PackageIndexError: there is no such project, or the storage cannot be written.
        """
        return self._storage.transaction(lambda storage: _attach(storage, project, files))

    def repair(self) -> tuple[str, ...]:
        """Render whatever is not as the states say, as after a writer was killed; return the keys that were fixed."""
        return self._storage.transaction(write_all_pages)

    def collect(self, *, older_than: float) -> tuple[str, ...]:
        """Remove files that nothing refers to; return their keys.

        :param older_than: seconds of the epoch; younger ones may be about to be published.
        :raises PackageIndexError: something was published in the moment in which it was collected.
        """
        return self._storage.transaction(lambda storage: _collect(storage, older_than))


def _by_project(given: Mapping[str, Sequence[T]]) -> dict[str, list[T]]:
    """Return things by the normalized names of their projects.

    :raises PackageIndexError: a name is none that an index can hold.
    """
    named: dict[str, list[T]] = {}
    for name, items in given.items():
        named.setdefault(check_project(name), []).extend(items)
    return named


def _additions(
    offers: Sequence[WheelUpload],
    answers: Mapping[str, Sequence[CellWithoutWheel]],
    planned: Mapping[str, Sequence[PlannedVersion]],
    revise: Mapping[str, Transition],
    upload_time: str,
) -> dict[str, Transition]:
    """Return the change of each project's state."""
    new: dict[str, list[IndexEntry]] = {}
    for offer in offers:
        new.setdefault(check_project(offer.entry.project), []).append(replace(offer.entry, upload_time=upload_time))

    def addition(project: str, before: Transition | None) -> Transition:
        more = (new.get(project, []), answers.get(project, ()), planned.get(project, ()))
        return lambda state: add_entries(before(state) if before else state, *more)

    return {name: addition(name, revise.get(name)) for name in sorted({*new, *answers, *planned, *revise})}


def _add(storage: Storage, offers: Sequence[WheelUpload], changes: Mapping[str, Transition]) -> tuple[IndexEntry, ...]:
    # Refused before anything is written, where it is to be refused.
    known = {project: load_project(storage, project)[0] for project in changes}
    for project, change in changes.items():
        change(known[project])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(partial(_put, storage, _used(known.values())), offers))
        states = {project: _advance(storage, project, change) for project, change in changes.items()}
        # Somebody collecting at this moment may have taken an old file of the same content.
        list(pool.map(partial(_put, storage, _used(states.values())), offers))
    write_pages(storage, list(changes))
    entries = {entry.filename: entry for state in states.values() for entry in state.entries}
    return tuple(entries[offer.entry.filename] for offer in offers)


def _attach(storage: Storage, project: str, files: Mapping[str, Mapping[str, bytes | None]]) -> ProjectState:
    # A wheel that comes back in between, as one that was removed and added again, has no file there.
    known = existing_project(storage, project)
    there = {entry.sha256: files[entry.sha256] for entry in known.entries if entry.sha256 in files}

    def beside(state: ProjectState) -> ProjectState:
        return replace(state, entries=tuple(entry.with_files(there.get(entry.sha256, {})) for entry in state.entries))

    def sides(state: ProjectState) -> Iterator[tuple[Announced, bytes]]:
        for entry in state.entries:
            for side in entry.announced:
                data = there.get(entry.sha256, {}).get(side.kind.suffix)
                # Somebody may have signed it once more by now.
                if data is not None and side.matches(data):
                    yield side, data

    for side, data in sides(beside(known)):
        put_new_file(storage, side.path, data, len(data), side.sha256)
    state = _advance(storage, project, beside)
    # Somebody collecting at this moment may have taken an old file of the same content.
    for side, data in sides(state):
        put_file(storage, side.path, data, len(data), side.sha256)
    write_pages(storage, [project])
    return state


def _put(storage: Storage, used: Collection[str], offer: WheelUpload) -> None:
    """Write the files beside a wheel, and the wheel, where they are not there.

    :param used: keys that a state refers to.
    """
    beside = [(side, offer.side_files[side.kind.suffix]) for side in offer.entry.announced]
    files: list[tuple[str, Path | bytes, int, str]] = [(s.path, data, len(data), s.sha256) for s, data in beside]
    for key, content, size, sha256 in [*files, (offer.entry.path, offer.wheel, offer.entry.size, offer.entry.sha256)]:
        if key in used:
            put_file(storage, key, content, size, sha256)
        else:
            put_new_file(storage, key, content, size, sha256)


def _advance(storage: Storage, project: str, transition: Transition) -> ProjectState:
    """Compare and swap a project's state until nobody came between."""

    def attempt() -> ProjectState:
        state, stored = load_project(storage, project)
        following = transition(state)
        replace_file(storage, state_key(project), stored, dump_state(following))
        return following

    return retry(attempt)


def _collect(storage: Storage, older_than: float) -> tuple[str, ...]:
    old = [item.key for item in storage.listing("") if item.modified < older_than]
    # After the listing: what was published meanwhile is then known to be in use.
    unused = _left(storage, old)
    gone = []
    for key in sorted(unused):
        # A publisher of a file makes it new first.
        found = storage.stat(key)
        if found and found.modified < older_than:
            storage.delete(key)
            gone.append(key)
    if lost := sorted(key for key in set(gone) - _left(storage, gone) if storage.stat(key) is None):
        raise PackageIndexError(
            f"published in the moment in which they were collected: {', '.join(lost)}", remedy="publish them again"
        )
    return tuple(gone)


def _left(storage: Storage, keys: Iterable[str]) -> set[str]:
    """Return the files that nothing refers to, and what killed processes were writing."""
    states = load_states(storage).values()
    used = _used(states) | {file.path for state in states for file in variants_files(state)}
    return {
        key
        for key in keys
        if TEMPORARY.fullmatch(key.rpartition("/")[2]) or (key.startswith("files/") and key not in used)
    }


def _used(states: Iterable[ProjectState]) -> set[str]:
    """Return the paths of wheels and of the files beside them."""
    return {path for state in states for entry in state.entries for path in entry.paths}
