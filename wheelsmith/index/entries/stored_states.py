"""Read and write the states and the project lists of an index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.base.json_dataclass import Record, dumps_pretty, in_one_line, read_json
from wheelsmith.base.units import release_order, show_binary_size
from wheelsmith.index.entries.entry import (
    SCHEMA_VERSION,
    IndexEntry,
    ProjectState,
    ProjectStatus,
    check_release,
    check_root,
)
from wheelsmith.index.entries.metadata import About
from wheelsmith.index.entries.state import check_project
from wheelsmith.index.storage.protocol import Storage, Stored
from wheelsmith.model import TORCH

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Record):
    """One project in the project lists.

    :param roots: the roots that list the project: ``simple`` and its compute platforms.
    :param version: newest version that is not yanked, without a local part; None if there is none.
    :param torches: releases of torch that the wheels serve, oldest first.
    :param archs: CPU architectures that the wheels serve.
    :param summary: one-line summary of the newest wheel that has one.
    """

    roots: tuple[str, ...]
    version: str | None
    torches: tuple[str, ...]
    archs: tuple[str, ...]
    status: ProjectStatus
    summary: str | None = None

    def __post_init__(self) -> None:
        """Reject roots that are unsafe in a path, and releases that cannot be sorted."""
        for root in self.roots:
            check_root(root)
        for torch in self.torches:
            check_release(torch)


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


def listing_of(state: ProjectState) -> Listing:
    """Return the list entry of a project."""
    listed = [entry for entry in state.entries if entry.roots]
    about = None if state.status is ProjectStatus.QUARANTINED else newest_about(listed)
    cells = {cell for entry in listed for cell in entry.cells if cell.settings.advertise}
    newest = max((entry.version for entry in listed if entry.yanked is None), default=None)
    return Listing(
        roots=tuple(sorted({root for entry in listed for root in entry.roots})),
        version=newest.public if newest else None,
        torches=tuple(sorted({cell.release for cell in cells if cell.framework == TORCH}, key=release_order)),
        archs=tuple(sorted({cell.arch for cell in cells})),
        status=state.status,
        summary=about.summary if about else None,
    )


def load_listing(stored: Stored | None) -> dict[str, Listing]:
    """Read the project lists. A missing file means empty lists.

    :raises PackageIndexError: the lists are broken.
    """
    if stored is None:
        return {}
    try:
        return {check_project(name): Listing.from_json(item) for name, item in read_json(stored.data).items()}
    except (ValueError, KeyError, TypeError, AttributeError, PackageIndexError) as error:
        raise PackageIndexError(
            f"the project lists are broken: {in_one_line(error)}",
            remedy="rebuild them from the states: wheelsmith index repair",
        ) from None


def dump_listing(listing: Mapping[str, Listing]) -> bytes:
    """Return the project lists as JSON, with one project per line."""
    return dumps_pretty({name: item.to_json() for name, item in listing.items()})
