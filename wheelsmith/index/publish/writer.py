"""Change an index so that a reader never meets a page that points at nothing, and no writer undoes another's work.

The order is the safety: files, the project's state, its pages, the lists of projects. A file stands under the hash of
its content and never changes; state is compared and swapped; pages are rendered from state alone. What a killed writer
left undone shows in no page, and ``repair`` finishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, PlannedVersion, ProjectState
from wheelsmith.index.entries.side_files.known import Announced, announced, paths, with_files
from wheelsmith.index.entries.state import add_entries, check_project, dump_state, project_of
from wheelsmith.index.entries.stored_states import existing_project, load_project, load_states, state_key
from wheelsmith.index.entries.validity import check_state
from wheelsmith.index.entries.variants import variants_files
from wheelsmith.index.publish.page_writer import put_file, put_new_file, write_all_pages, write_pages
from wheelsmith.index.publish.verify import TEMPORARY
from wheelsmith.index.storage.compare_and_swap import AT_ONCE, replace_file, retry
from wheelsmith.index.storage.protocol import Storage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelUpload:
    """A wheel to add: ``entry.upload_time`` is replaced by the time of adding.

    :param side_files: suffix → content of each file beside it that the entry announces.
    """

    entry: IndexEntry
    wheel: Path
    side_files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWords:
    """What is said of projects beside their wheels.

    :param answers: project → what became of the cells that have no wheel.
    :param planned: project → the cells that its versions are to serve.
    """

    answers: Mapping[str, Sequence[CellWithoutWheel]] = field(default_factory=dict)
    planned: Mapping[str, Sequence[PlannedVersion]] = field(default_factory=dict)

    def by_project(self) -> ReleaseWords:
        """Return the same by the normalized names.

        :raises PackageIndexError: a name is none that an index can hold.
        """
        return ReleaseWords(answers=_by_project(self.answers), planned=_by_project(self.planned))


def _by_project(given: Mapping[str, Sequence[T]]) -> dict[str, list[T]]:
    named: dict[str, list[T]] = {}
    for name, items in given.items():
        named.setdefault(check_project(name), []).extend(items)
    return named


class Index:
    """A static package index in some storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def entries(self, project: str) -> tuple[IndexEntry, ...]:
        """Return the wheels of a project, which are none when there is no such project.

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
        said: ReleaseWords | None = None,
        revise: Mapping[str, Callable[[ProjectState], ProjectState]] | None = None,
    ) -> tuple[IndexEntry, ...]:
        """Add wheels; those that are there already change nothing. Gives their entries, in the order of the offers.

        :param upload_time: UTC, for the wheels that are new, e.g. ``2026-11-21T10:00:00Z``.
        :param said: what is said beside the wheels.
        :param revise: project → what is to be done to its state before.
        :raises PackageIndexError: a file name is there with other bytes, or the storage cannot be written.
        """
        named = (said or ReleaseWords()).by_project()
        return self._storage.transaction(lambda storage: _add(storage, offers, named, revise or {}, upload_time))

    def change(self, project: str, transition: Callable[[ProjectState], ProjectState]) -> ProjectState:
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

        :param files: sha256 of a wheel → suffix → content, None where there is to be none of that kind. A wheel that
            is not there gets none.
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


def _add(
    storage: Storage,
    offers: Sequence[WheelUpload],
    said: ReleaseWords,
    revise: Mapping[str, Callable[[ProjectState], ProjectState]],
    upload_time: str,
) -> tuple[IndexEntry, ...]:
    by_project = sorted(offers, key=lambda offer: project_of(offer.entry.filename))
    wanted = {name: list(group) for name, group in groupby(by_project, lambda o: project_of(o.entry.filename))}
    projects = sorted({*wanted, *said.answers, *said.planned, *revise})

    def add(project: str) -> Callable[[ProjectState], ProjectState]:
        new = [replace(offer.entry, upload_time=upload_time) for offer in wanted.get(project, [])]
        before, words = revise.get(project), (said.answers.get(project, ()), said.planned.get(project, ()))
        return lambda state: add_entries(before(state) if before else state, new, *words)

    # Refused before anything is written, where it is to be refused.
    known = {project: load_project(storage, project)[0] for project in projects}
    for project in projects:
        add(project)(known[project])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(partial(_put, storage, _used(known.values())), offers))
        states = {project: _advance(storage, project, add(project)) for project in projects}
        # Somebody collecting at this moment may have taken an old file of the same content.
        list(pool.map(partial(_put, storage, _used(states.values())), offers))
    write_pages(storage, projects)
    entries = {entry.filename: entry for state in states.values() for entry in state.entries}
    return tuple(entries[offer.entry.filename] for offer in offers)


def _attach(storage: Storage, project: str, files: Mapping[str, Mapping[str, bytes | None]]) -> ProjectState:
    # Whoever comes back in between, as a wheel that was removed and added again, has no file there.
    known = existing_project(storage, project)
    there = {entry.sha256: files[entry.sha256] for entry in known.entries if entry.sha256 in files}

    def beside(state: ProjectState) -> ProjectState:
        return replace(state, entries=tuple(with_files(entry, there.get(entry.sha256, {})) for entry in state.entries))

    def sides(state: ProjectState) -> Iterator[tuple[Announced, bytes]]:
        for entry in state.entries:
            for side in announced(entry):
                data = there.get(entry.sha256, {}).get(side.kind.suffix)
                # Somebody may have signed it once more by now.
                if data is not None and side.is_right(data):
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
    """Write what is beside a wheel, and the wheel, where it is not there.

    :param used: keys that a state refers to.
    """
    beside = [(side, offer.side_files[side.kind.suffix]) for side in announced(offer.entry)]
    files: list[tuple[str, Path | bytes, int, str]] = [(s.path, data, len(data), s.sha256) for s, data in beside]
    for key, content, size, sha256 in [*files, (offer.entry.path, offer.wheel, offer.entry.size, offer.entry.sha256)]:
        if key in used:
            put_file(storage, key, content, size, sha256)
        else:
            put_new_file(storage, key, content, size, sha256)


def _advance(storage: Storage, project: str, transition: Callable[[ProjectState], ProjectState]) -> ProjectState:
    """Compare and swap a project's state until nobody came between."""

    def attempt() -> ProjectState:
        state, stored = load_project(storage, project)
        following = transition(state)
        _refuse_unreadable(following, project)
        replace_file(storage, state_key(project), stored, dump_state(following))
        return following

    return retry(attempt)


def _refuse_unreadable(state: ProjectState, project: str) -> None:
    """Refuse to write what nobody could read again.

    :raises PackageIndexError: it says what.
    """
    try:
        check_state(state, project)
    except ValueError as error:
        raise PackageIndexError(f"{project} cannot be so: {in_one_line(error)}", remedy="nothing was changed") from None


def _collect(storage: Storage, older_than: float) -> tuple[str, ...]:
    old = [item.key for item in storage.listing("") if item.modified < older_than]
    # After the listing: what was published meanwhile is then known to be in use.
    unused = _left(storage, old)
    gone = []
    for key in sorted(unused):
        # Whoever is about to publish a file makes it new first.
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
    """Return where wheels lie, and what is beside them."""
    return {path for state in states for entry in state.entries for path in paths(entry)}
