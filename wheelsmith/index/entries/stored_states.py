"""Read and write the states of an index."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.base.json_dataclass import dumps_pretty, in_one_line, read_json
from wheelsmith.base.units import show_binary_size
from wheelsmith.index.entries.entry import (
    SCHEMA_VERSION,
    IndexEntry,
    ProjectState,
    ProjectStatus,
)
from wheelsmith.index.entries.metadata import About
from wheelsmith.index.storage.protocol import Storage, Stored

STATE = "_state/"
LISTING = "_state/.listing.json"
# A run writes one file here, named by the digest of its results. The folder is not hidden, because CI systems may skip
# hidden files when they copy folders between jobs.
RUNS = "_state/runs"
_MAX_SIZE = 256 << 20  # bytes of a state
_STATE_KEY = re.compile(r"_state/(?P<project>[a-z0-9]([a-z0-9-]*[a-z0-9])?)\.json")


def state_key(project: str) -> str:
    """Return the key of a project's state."""
    return f"{STATE}{project}.json"


def project_of_key(key: str) -> str | None:
    """Return the project of a state's key, or None if the key is not that of a state."""
    match = _STATE_KEY.fullmatch(key)
    return match["project"] if match else None


def project_names(storage: Storage) -> list[str]:
    """Return the names of the projects that have a state, sorted."""
    return sorted(name for item in storage.listing(STATE) if (name := project_of_key(item.key)))


def dump_state(state: ProjectState) -> bytes:
    """Return a state as JSON with one wheel per line, for readable diffs."""
    return dumps_pretty(state.to_json())


@lru_cache(maxsize=8)  # one change reads the same state several times, to detect other writers
def load_state(data: bytes, place: str, project: str) -> ProjectState:
    """Read a state.

    :param place: the source of the state, for error messages.
    :param project: the project that the state must belong to.
    :raises UnreadableError: the state is broken, belongs to another project, or was written by a newer wheelsmith.
    """
    if len(data) > _MAX_SIZE:
        raise UnreadableError(f"{place} is larger than {show_binary_size(_MAX_SIZE)}")
    try:
        plain = read_json(data)
        if plain["schema_version"] > SCHEMA_VERSION:
            raise UnreadableError(f"{place} was written by a newer wheelsmith", remedy="update wheelsmith")
        state = ProjectState.from_json({**plain, "schema_version": SCHEMA_VERSION})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableError(
            f"{place} is broken: {in_one_line(error)}", remedy="restore it from a backup; nothing was changed"
        ) from None
    if state.project != project:
        raise UnreadableError(f"{place} is broken: it is the state of {state.project[:100]!r}, not of {project}")
    return state


def load_project(storage: Storage, project: str) -> tuple[ProjectState, Stored | None]:
    """Return a project's state and the stored file. The state is empty if the file does not exist.

    :raises PackageIndexError: the file cannot be read.
    :raises UnreadableError: the file is not a valid state.
    """
    stored = storage.read(state_key(project))
    return read_project(storage.name, project, stored), stored


def read_project(place: str, project: str, stored: Stored | None) -> ProjectState:
    """Return the state in a stored file, or an empty state if there is no file.

    :param place: the index, for error messages.
    :raises UnreadableError: the file is not a valid state.
    """
    if stored is None:
        return ProjectState(project=project)
    return load_state(stored.data, f"{place}/{state_key(project)}", project)


def load_existing_project(storage: Storage, project: str) -> ProjectState:
    """Return the state of a project that must exist.

    :raises PackageIndexError: the project does not exist, or its state cannot be read.
    """
    state, stored = load_project(storage, project)
    if stored is None:
        raise PackageIndexError(f"{storage.name} has no project {project}")
    return state


def load_states(storage: Storage) -> dict[str, ProjectState]:
    """Return the states of all projects.

    :raises PackageIndexError: a state cannot be read.
    """
    return {name: load_project(storage, name)[0] for name in project_names(storage)}


def load_readable_states(storage: Storage) -> tuple[dict[str, ProjectState], dict[str, UnreadableError]]:
    """Return the readable states and the errors of the broken ones, both by project."""
    states, broken = {}, {}
    for name in project_names(storage):
        try:
            states[name] = load_project(storage, name)[0]
        except UnreadableError as error:
            broken[name] = error
    return states, broken


def newest_about(entries: Iterable[IndexEntry]) -> About | None:
    """Return the description of the newest wheel that has one. Yanked wheels are used only if all are yanked."""
    newest = _newest(entry for entry in entries if entry.about)
    return newest.about if newest else None


def newest_listed(state: ProjectState) -> IndexEntry | None:
    """Return the newest listed wheel; None for a project in quarantine. Yanked wheels count only if all are yanked."""
    if state.status is ProjectStatus.QUARANTINED:
        return None
    return _newest(entry for entry in state.entries if entry.roots and entry.variant is None)


def _newest(entries: Iterable[IndexEntry]) -> IndexEntry | None:
    return max(entries, key=lambda e: (e.yanked is None and not e.older, e.version, e.filename), default=None)
