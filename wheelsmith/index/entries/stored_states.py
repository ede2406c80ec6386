"""Read and write the states of an index, and where they lie."""

from __future__ import annotations

import re
from functools import lru_cache

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.base.json_dataclass import by_lines, in_one_line, read_json
from wheelsmith.index.entries.entry import SCHEMA_VERSION, ProjectState
from wheelsmith.index.storage.protocol import Storage, Stored

STATE = "_state/"
LISTING = "_state/.listing.json"
# A run leaves one file here, named by its results. It is not hidden: CI systems that carry folders from job to job may
# leave hidden files behind.
RUNS = "_state/runs"
_LARGEST = 256 << 20  # bytes of a state
_STATE_KEY = re.compile(r"_state/(?P<project>[a-z0-9]([a-z0-9-]*[a-z0-9])?)\.json")


def state_key(project: str) -> str:
    """Return where a project's state lies."""
    return f"{STATE}{project}.json"


def project_in(key: str) -> str | None:
    """Return the project of which a key is the state; None if it is no place of a state."""
    match = _STATE_KEY.fullmatch(key)
    return match["project"] if match else None


def project_names(storage: Storage) -> list[str]:
    """Return the projects that have a state."""
    return sorted(name for item in storage.listing(STATE) if (name := project_in(item.key)))


def dump_state(state: ProjectState) -> bytes:
    """Write a state, one wheel a line, so that two of them can be compared by eye."""
    return by_lines(state.to_json())


@lru_cache(maxsize=8)  # one change reads the same state several times, to see that nobody came between
def load_state(data: bytes, place: str, project: str) -> ProjectState:
    """Read a state.

    :param place: where it came from, for the error.
    :param project: whose it must be.
    :raises UnreadableError: it is broken or another's, or a newer wheelsmith wrote it.
    """
    if len(data) > _LARGEST:
        raise UnreadableError(f"{place} is larger than {_LARGEST >> 20} MiB")
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
    """Return a project's state, which is empty if there is none, and what is stored.

    :raises PackageIndexError: it cannot be read; an UnreadableError if it is no state.
    """
    stored = storage.read(state_key(project))
    return read_project(storage.name, project, stored), stored


def read_project(place: str, project: str, stored: Stored | None) -> ProjectState:
    """Return the state that is stored, which is empty if nothing is.

    :param place: the index, for the error.
    :raises UnreadableError: it is no state.
    """
    if stored is None:
        return ProjectState(project=project)
    return load_state(stored.data, f"{place}/{state_key(project)}", project)


def existing_project(storage: Storage, project: str) -> ProjectState:
    """Return the state of a project that must be there.

    :raises PackageIndexError: it is not, or cannot be read.
    """
    state, stored = load_project(storage, project)
    if stored is None:
        raise PackageIndexError(f"{storage.name} has no project {project}")
    return state


def load_states(storage: Storage) -> dict[str, ProjectState]:
    """Return every project's state.

    :raises PackageIndexError: one cannot be read.
    """
    return {name: load_project(storage, name)[0] for name in project_names(storage)}


def sift_states(storage: Storage) -> tuple[dict[str, ProjectState], dict[str, UnreadableError]]:
    """Return every project's state, and the errors of those that are broken."""
    states, broken = {}, {}
    for name in project_names(storage):
        try:
            states[name] = load_project(storage, name)[0]
        except UnreadableError as error:
            broken[name] = error
    return states, broken
