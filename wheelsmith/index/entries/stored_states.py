"""Where the states of an index lie, and how they are read."""

from __future__ import annotations

import re

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.index.entries.entry import ProjectState
from wheelsmith.index.entries.state import load_state
from wheelsmith.index.storage.protocol import Storage, Stored

STATE = "_state/"
LISTING = "_state/.listing.json"
_STATE_KEY = re.compile(r"_state/(?P<project>[a-z0-9]([a-z0-9-]*[a-z0-9])?)\.json")


def state_key(project: str) -> str:
    """Return where a project's state lies."""
    return f"{STATE}{project}.json"


def project_in(key: str) -> str | None:
    """Return whose state lies under a key; None where it is not the place of a state."""
    match = _STATE_KEY.fullmatch(key)
    return match["project"] if match else None


def project_names(storage: Storage) -> list[str]:
    """Return the projects that have a state, or what is none in its place."""
    keys = (*(item.key for item in storage.listing(STATE)), *storage.non_regular(STATE))
    return sorted({name for key in keys if (name := project_in(key))})


def load_project(storage: Storage, project: str) -> tuple[ProjectState, Stored | None]:
    """Return a project's state, which is empty where there is none, and what is stored.

    :raises PackageIndexError: it cannot be read; an UnreadableError where it is no state.
    """
    stored = storage.read(state_key(project))
    return read_project(storage.name, project, stored), stored


def read_project(place: str, project: str, stored: Stored | None) -> ProjectState:
    """Return the state that is stored, which is empty where nothing is.

    :param place: the index, for the error.
    :raises PackageIndexError: it cannot be read.
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
    """Return every project's state, and apart why those are not states that are not."""
    states, broken = {}, {}
    for name in project_names(storage):
        try:
            states[name] = load_project(storage, name)[0]
        except UnreadableError as error:
            broken[name] = error
    return states, broken
