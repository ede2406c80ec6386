"""Change an index without broken links on its pages and without lost changes of other writers.

The order of the writes guarantees this: files, the state of the project, its pages, the project lists. Files are
stored under the hash of their content and never change. States change by compare and swap. Pages are rendered from
states, and from METADATA whose hash is in a state. If a writer is killed, ``repair`` completes its work.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.index.entries.catalogue import catalogue_key
from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, PlannedVersion, ProjectState
from wheelsmith.index.entries.metadata import Readme, read_readme
from wheelsmith.index.entries.render import simple_pages, simple_roots, variants_files
from wheelsmith.index.entries.side_files import CORE_METADATA, AnnouncedFile
from wheelsmith.index.entries.state import Transition, add_entries, check_project
from wheelsmith.index.entries.stored_states import (
    LISTING,
    dump_state,
    load_existing_project,
    load_project,
    load_states,
    newest_listed,
    project_names,
    read_project,
    state_key,
)
from wheelsmith.index.publish.release import WheelUpload
from wheelsmith.index.site.human import human_pages, human_root
from wheelsmith.index.site.listing import Listing, dump_listing, listing_of, load_listing
from wheelsmith.index.storage.compare_and_swap import MAX_CONCURRENT, converge, replace_file, retry
from wheelsmith.index.storage.protocol import Listed, Storage, Stored

# Temporary files of files.atomic_write. Other hidden files belong to the user.
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")
# Seconds after which gc removes a file without a reference. A publisher rewrites such a file after half of this time.
GRACE_SECONDS = 7 * 86400.0
# Each project reads and writes several files concurrently. More projects would only compete for Python's single core.
_MAX_PROJECTS = 4


def put_file(storage: Storage, key: str, content: Path | bytes, size: int, sha256: str) -> None:
    """Write a file under the hash of its content if it is missing or differs.

    Bytes are compared with the stored content. For a wheel, only the size and the hash reported by the storage are
    compared.

    :param size: size of ``content`` in bytes.
    :param sha256: hash of ``content``.
    """
    found = storage.stat(key)
    is_stored = found is not None and found.size == size and found.sha256 in {None, sha256}
    if found and is_stored and isinstance(content, bytes):
        is_stored = _stored_sha256(storage, key, found) == sha256
    if not is_stored:
        storage.put(key, content)


def put_new_file(storage: Storage, key: str, content: Path | bytes, size: int, sha256: str) -> None:
    """Write a file that no state refers to yet. An existing file is kept only if it is recent and has the right hash.

    :param size: size of ``content`` in bytes.
    :param sha256: hash of ``content``.
    """
    found = storage.stat(key)
    is_recent = found and found.size == size and found.modified >= time.time() - GRACE_SECONDS / 2
    if not (found and is_recent and _stored_sha256(storage, key, found) == sha256):
        storage.put(key, content)


def _stored_sha256(storage: Storage, key: str, found: Listed) -> str | None:
    """Return the hash of a stored file: as reported by the storage, or of its content."""
    if found.sha256 is not None:
        return found.sha256
    stored = storage.read(key)
    return hashlib.sha256(stored.data).hexdigest() if stored else None


def project_pages(state: ProjectState, readme: Readme | None = None) -> dict[str, bytes]:
    """Return all pages of one project, for installers and for people: key → bytes.

    :param readme: the description of the project.
    """
    return simple_pages(state) | human_pages(state, readme)


def load_readme(storage: Storage, state: ProjectState) -> Readme | None:
    """Return the description in METADATA of the newest wheel; None if there is none, or METADATA is damaged.

    The state contains the hash of METADATA, so equal states have equal descriptions.
    """
    newest = newest_listed(state)
    metadata = next((file for file in newest.announced if file.kind.suffix == CORE_METADATA), None) if newest else None
    stored = storage.read(metadata.path) if metadata else None
    return read_readme(stored.data) if metadata and stored and metadata.matches(stored.data) else None


def root_pages(listing: Mapping[str, Listing]) -> dict[str, bytes]:
    """Return the pages that list the projects: key → bytes."""
    return simple_roots({name: item.roots for name, item in listing.items()}) | human_root(listing)


def write_pages(storage: Storage, projects: Sequence[str]) -> tuple[str, ...]:
    """Render the pages of some projects and the project lists, and remove old pages. Return the changed keys."""
    return _PageWriter(storage).write(projects)


def write_all_pages(storage: Storage) -> tuple[str, ...]:
    """Render the pages of all projects, and rebuild the project lists from the states. Return the changed keys.

    A project with a broken state keeps its pages and its list entry.
    """
    return _PageWriter(storage, rebuild_lists=True).write(project_names(storage))


class _PageWriter:
    """Renders the pages of an index once.

    :param rebuild_lists: True rebuilds the project lists. False changes the entries of the rendered projects.
    """

    def __init__(self, storage: Storage, *, rebuild_lists: bool = False) -> None:
        self._storage = storage
        self._old_lists = _load_lists(storage.read(LISTING))
        self._rebuild_lists = rebuild_lists
        # Project → the tag of the rendered state, and the project's list entry.
        self._rendered: dict[str, tuple[str, Listing]] = {}

    def write(self, projects: Sequence[str]) -> tuple[str, ...]:
        storage = self._storage
        with ThreadPoolExecutor(_MAX_PROJECTS) as rendering, ThreadPoolExecutor(MAX_CONCURRENT) as files:

            def render(name: str) -> list[str]:
                try:
                    return converge(storage, files, state_key(name), partial(self._render_project, name))
                except UnreadableError:
                    if not self._rebuild_lists:
                        raise
                    return []

            written = list(rendering.map(render, projects))
            retry(lambda: self._change_lists(projects, files))
            roots = converge(storage, files, LISTING, self._render_lists)
        return (*chain.from_iterable(written), *roots)

    def _render_project(self, project: str, stored: Stored | None) -> dict[str, bytes | None]:
        state = read_project(self._storage.name, project, stored)
        self._rendered[project] = (stored.tag if stored else "", listing_of(state))
        for file in variants_files(state):
            # A page must not refer to a file that does not exist yet.
            put_new_file(self._storage, file.path, file.data, len(file.data), file.sha256)
        before = (self._old_lists or {}).get(project)
        pages = project_pages(state, load_readme(self._storage, state))
        return {**dict.fromkeys(_possible_pages(project, before.roots if before else ())), **pages}

    def _change_lists(self, projects: Sequence[str], files: ThreadPoolExecutor) -> None:
        # Repeat until nothing changes, because another writer may have changed a state and seen the older list.
        while True:
            stored = self._storage.read(LISTING)
            known = None if self._rebuild_lists else _load_lists(stored)
            # Unreadable lists are rebuilt from the states. Every listed project has a state.
            projects_to_list = projects if known is not None else sorted({*projects, *project_names(self._storage)})
            now = dict(zip(projects_to_list, files.map(self._current_listing, projects_to_list), strict=True))
            readable = {name: listing for name, listing in now.items() if listing}
            broken = {name: item for name, item in (_load_lists(stored) or {}).items() if name in now.keys() - readable}
            if not replace_file(self._storage, LISTING, stored, dump_listing((known or {}) | broken | readable)):
                return

    def _current_listing(self, project: str) -> Listing | None:
        """Return the list entry of a project, or None if its state is broken."""
        try:
            stored = self._storage.read(state_key(project))
            tag, listing = self._rendered.get(project, ("", None))
            if stored and stored.tag == tag and listing:
                return listing
            return listing_of(read_project(self._storage.name, project, stored))
        except UnreadableError:
            return None

    def _render_lists(self, stored: Stored | None) -> dict[str, bytes | None]:
        roots = {root for item in (self._old_lists or {}).values() for root in item.roots}
        before = [f"{root}/index.{suffix}" for root in roots for suffix in ("json", "html")]
        return {**dict.fromkeys(before), **root_pages(load_listing(stored))}


def _load_lists(stored: Stored | None) -> dict[str, Listing] | None:
    """Return the project lists, or None if they are broken."""
    try:
        return load_listing(stored)
    except PackageIndexError:
        return None


def _possible_pages(project: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield the keys of all pages that a project may have had."""
    key = catalogue_key(project)
    yield from (key, key.replace("catalogue.json", "index.html"))
    for root in roots:
        yield from (f"{root}/{project}/index.json", f"{root}/{project}/index.html")


T = TypeVar("T")


class Index:
    """A static package index in a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def entries(self, project: str) -> tuple[IndexEntry, ...]:
        """Return the wheels of a project. The result is empty if the project does not exist.

        :raises PackageIndexError: the state cannot be read.
        """
        return load_project(self._storage, project)[0].entries

    def known(self, project: str) -> ProjectState:
        """Return the state of a project that must exist.

        :raises PackageIndexError: the project does not exist, or its state cannot be read.
        """
        return load_existing_project(self._storage, check_project(project))

    def states(self) -> dict[str, ProjectState]:
        """Return the states of all projects.

        :raises PackageIndexError: a state cannot be read.
        """
        return load_states(self._storage)

    def add(
        self,
        uploads: Sequence[WheelUpload],
        *,
        upload_time: str,
        answers: Mapping[str, Sequence[CellWithoutWheel]] | None = None,
        planned: Mapping[str, Sequence[PlannedVersion]] | None = None,
        revise: Mapping[str, Transition] | None = None,
    ) -> tuple[IndexEntry, ...]:
        """Add wheels. Return their entries in the order of the uploads.

        :param upload_time: UTC time for new wheels, e.g. ``2026-11-21T10:00:00Z``. Known wheels keep theirs.
        :param answers: project → the unserved cells.
        :param planned: project → the planned cells of its versions.
        :param revise: project → a change of its state that is applied first.
        :raises PackageIndexError: a file name was published with other bytes, or the storage cannot be written.
        """
        new: dict[str, list[IndexEntry]] = {}
        for entry in (upload.entry for upload in uploads):
            published = replace(entry, upload_time=upload_time, served_at=self._storage.served_at(entry.path))
            new.setdefault(check_project(entry.project), []).append(published)
        changes = _transitions(new, answers or {}, planned or {}, revise or {})
        return self._storage.transaction(lambda storage: _add(storage, uploads, changes))

    def change(self, project: str, transition: Transition) -> ProjectState:
        """Apply a transition to the state of a project and render its pages. Return the new state.

        :raises PackageIndexError: the project does not exist, or the transition raised this error.
        """
        project = check_project(project)

        def work(storage: Storage) -> ProjectState:
            load_existing_project(storage, project)
            state = _change_state(storage, project, transition)
            write_pages(storage, [project])
            return state

        return self._storage.transaction(work)

    def attach(self, project: str, files: Mapping[str, Mapping[str, bytes | None]]) -> ProjectState:
        """Add, replace or remove side files of listed wheels.

        :param files: sha256 of a wheel → suffix → content, or None to remove the file. Unlisted wheels are skipped.
        :raises PackageIndexError: the project does not exist, or the storage cannot be written.
        """
        return self._storage.transaction(lambda storage: _attach(storage, project, files))

    def repair(self) -> tuple[str, ...]:
        """Render all pages and write those that differ from the states. Return the changed keys."""
        return self._storage.transaction(write_all_pages)

    def remove_unused(self, *, older_than: float) -> tuple[str, ...]:
        """Remove files that no state refers to. Return their keys.

        :param older_than: time in seconds of the epoch. Newer files are kept, because a publisher may be using them.
        :raises PackageIndexError: a file was published at the moment of its removal.
        """
        return self._storage.transaction(lambda storage: _remove_unused(storage, older_than))


def _transitions(
    new: Mapping[str, Sequence[IndexEntry]],
    answers: Mapping[str, Sequence[CellWithoutWheel]],
    planned: Mapping[str, Sequence[PlannedVersion]],
    revise: Mapping[str, Transition],
) -> dict[str, Transition]:
    """Return the transition of each project."""

    def addition(project: str, before: Transition | None) -> Transition:
        more = (new.get(project, []), answers.get(project, ()), planned.get(project, ()))
        return lambda state: add_entries(before(state) if before else state, *more)

    return {name: addition(name, revise.get(name)) for name in sorted({*new, *answers, *planned, *revise})}


def _add(storage: Storage, uploads: Sequence[WheelUpload], changes: Mapping[str, Transition]) -> tuple[IndexEntry, ...]:
    # Invalid changes must fail before anything is written.
    known = {project: load_project(storage, project)[0] for project in changes}
    for project, change in changes.items():
        change(known[project])
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        list(pool.map(partial(_put_wheel, storage, _used_paths(known.values())), uploads))
        states = {project: _change_state(storage, project, change) for project, change in changes.items()}
        # gc may have removed an old file of the same content at this moment.
        list(pool.map(partial(_put_wheel, storage, _used_paths(states.values())), uploads))
    write_pages(storage, list(changes))
    entries = {entry.filename: entry for state in states.values() for entry in state.entries}
    return tuple(entries[upload.entry.filename] for upload in uploads)


def _attach(storage: Storage, project: str, files: Mapping[str, Mapping[str, bytes | None]]) -> ProjectState:
    # Only these wheels get files. A wheel that another writer adds from now on gets none.
    known = load_existing_project(storage, project)
    wanted = {entry.sha256: files[entry.sha256] for entry in known.entries if entry.sha256 in files}

    def attach(state: ProjectState) -> ProjectState:
        return replace(state, entries=tuple(entry.with_files(wanted.get(entry.sha256, {})) for entry in state.entries))

    def attached_files(state: ProjectState) -> Iterator[tuple[AnnouncedFile, bytes]]:
        for entry in state.entries:
            for side in entry.announced:
                data = wanted.get(entry.sha256, {}).get(side.kind.suffix)
                # Another writer may have replaced the signature.
                if data is not None and side.matches(data):
                    yield side, data

    for side, data in attached_files(attach(known)):
        put_new_file(storage, side.path, data, len(data), side.sha256)
    state = _change_state(storage, project, attach)
    # gc may have removed an old file of the same content at this moment.
    for side, data in attached_files(state):
        put_file(storage, side.path, data, len(data), side.sha256)
    write_pages(storage, [project])
    return state


def _put_wheel(storage: Storage, used: Collection[str], upload: WheelUpload) -> None:
    """Write a wheel and its side files if they are missing.

    :param used: keys that a state refers to.
    """
    entry = upload.entry
    side_files = [(side, upload.side_files[side.kind.suffix]) for side in entry.announced]
    files: list[tuple[str, Path | bytes, int, str]] = [(s.path, data, len(data), s.sha256) for s, data in side_files]
    for key, content, size, sha256 in [*files, (entry.path, upload.wheel, entry.size, entry.sha256)]:
        if key in used:
            put_file(storage, key, content, size, sha256)
        else:
            put_new_file(storage, key, content, size, sha256)


def _change_state(storage: Storage, project: str, transition: Transition) -> ProjectState:
    """Apply a transition to the state of a project by compare and swap, with retries. Return the new state."""

    def attempt() -> ProjectState:
        state, stored = load_project(storage, project)
        following = transition(state)
        replace_file(storage, state_key(project), stored, dump_state(following))
        return following

    return retry(attempt)


def _remove_unused(storage: Storage, older_than: float) -> tuple[str, ...]:
    old = [item.key for item in storage.listing("") if item.modified < older_than]
    # Read the states after the listing, so that files published in between count as used.
    unused = _unused_keys(storage, old)
    removed = []
    for key in sorted(unused):
        # A publisher rewrites an old file before it refers to it, so check the age again.
        found = storage.stat(key)
        if found and found.modified < older_than:
            storage.delete(key)
            removed.append(key)
    if lost := sorted(key for key in set(removed) - _unused_keys(storage, removed) if storage.stat(key) is None):
        raise PackageIndexError(
            f"gc removed files that were published at the same moment: {', '.join(lost)}", remedy="publish them again"
        )
    return tuple(removed)


def _unused_keys(storage: Storage, keys: Iterable[str]) -> set[str]:
    """Return the keys without a reference, including temporary files of killed processes."""
    states = load_states(storage).values()
    used = _used_paths(states) | {file.path for state in states for file in variants_files(state)}
    return {
        key
        for key in keys
        if TEMPORARY.fullmatch(key.rpartition("/")[2]) or (key.startswith("files/") and key not in used)
    }


def _used_paths(states: Iterable[ProjectState]) -> set[str]:
    """Return the paths of all wheels and side files."""
    return {path for state in states for entry in state.entries for path in entry.paths}
