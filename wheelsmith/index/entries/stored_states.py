"""Read and write the states of an index, and its lists of projects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.base.json_dataclass import Record, by_lines, in_one_line, read_json
from wheelsmith.base.units import numbers
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Record):
    """One project in the lists.

    :param roots: the roots that list it: ``simple`` and its compute platforms.
    :param version: the newest that is not yanked, without a local part; None if there is none.
    :param torches: releases of torch that its wheels serve, the oldest first.
    :param archs: CPU architectures that its wheels serve.
    :param summary: of the newest wheel that has one, in a line.
    """

    roots: tuple[str, ...]
    version: str | None
    torches: tuple[str, ...]
    archs: tuple[str, ...]
    status: ProjectStatus
    summary: str | None = None

    def __post_init__(self) -> None:
        """Refuse roots that could not stand in a path, and releases that cannot be sorted."""
        for root in self.roots:
            check_root(root)
        for torch in self.torches:
            check_release(torch)


def newest_about(entries: Iterable[IndexEntry]) -> About | None:
    """Return what the newest wheel tells people; a yanked one only where no other is left."""
    described = [entry for entry in entries if entry.about]
    newest = max(described, key=lambda each: (each.yanked is None, each.version, each.filename), default=None)
    return newest.about if newest else None


def listing_of(state: ProjectState) -> Listing:
    """Return the facts of a project that the lists show."""
    listed = [entry for entry in state.entries if entry.roots]
    about = None if state.status is ProjectStatus.QUARANTINED else newest_about(listed)
    cells = {cell for entry in listed for cell in entry.cells if cell.settings.advertise}
    newest = max((entry.version for entry in listed if entry.yanked is None), default=None)
    return Listing(
        roots=tuple(sorted({root for entry in listed for root in entry.roots})),
        version=newest.public if newest else None,
        torches=tuple(sorted({cell.release for cell in cells if cell.framework == TORCH}, key=numbers)),
        archs=tuple(sorted({cell.arch for cell in cells})),
        status=state.status,
        summary=about.summary if about else None,
    )


def load_listing(stored: Stored | None) -> dict[str, Listing]:
    """Read the lists; none are empty.

    :raises PackageIndexError: they are broken.
    """
    if stored is None:
        return {}
    try:
        return {check_project(name): Listing.from_json(item) for name, item in read_json(stored.data).items()}
    except (ValueError, KeyError, TypeError, AttributeError, PackageIndexError) as error:
        raise PackageIndexError(
            f"the lists of projects are broken: {in_one_line(error)}",
            remedy="make them again from the states: wheelsmith index repair",
        ) from None


def dump_listing(listing: Mapping[str, Listing]) -> bytes:
    """Write the lists, one project a line."""
    return by_lines({name: item.to_json() for name, item in listing.items()})
