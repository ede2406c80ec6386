"""What may become of a project's state: every function here takes one and gives the next, and reads no clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.base.json_dataclass import by_lines, in_one_line, read_json
from wheelsmith.index.entries.entry import (
    SCHEMA_VERSION,
    CellWithoutWheel,
    IndexEntry,
    PlannedVersion,
    ProjectState,
    ProjectStatus,
    Removed,
    WheelTest,
)
from wheelsmith.index.entries.planned import merge_planned
from wheelsmith.index.entries.side_files.known import with_more
from wheelsmith.index.entries.validity import check_address, check_entry, check_state, check_tests
from wheelsmith.model import read_wheel_name
from wheelsmith.wheel.variant_format import label_conflicts

_PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def project_of(filename: str) -> str:
    """Return the normalized project name of a wheel's file name.

    :raises PackageIndexError: it is not the name of a wheel, or of a project that an index can hold.
    """
    try:
        project = read_wheel_name(filename).project
    except ValueError as error:
        raise PackageIndexError(f"{filename!r} is not the name of a wheel: {error}") from None
    return check_project(project)


def check_project(name: str) -> str:
    """Return the normalized form of a project's name.

    :raises PackageIndexError: it could not stand in a path.
    """
    project = str(canonicalize_name(name))
    if not _PROJECT.fullmatch(project):
        raise PackageIndexError(f"{name!r} is not a project name that an index can hold")
    return project


def version_of(entry: IndexEntry) -> Version:
    """Return the version that an entry's file name has, with its local part."""
    return _version_in(entry.filename)


def public_of(entry: IndexEntry) -> Version:
    """Return the version that an entry's file name has, without its local part."""
    return _public_in(entry.filename)


@lru_cache(maxsize=4096)  # one change of a project asks several times for the version of each of its wheels
def _version_in(filename: str) -> Version:
    return read_wheel_name(filename).version


@lru_cache(maxsize=4096)  # likewise
def _public_in(filename: str) -> Version:
    return Version(_version_in(filename).public)


def by_version(entries: Iterable[IndexEntry]) -> dict[Version, list[IndexEntry]]:
    """Return the variant wheels among some wheels by their version, oldest first."""
    variants = sorted((version_of(entry), entry.filename, entry) for entry in entries if entry.variant)
    found: dict[Version, list[IndexEntry]] = {}
    for version, _, entry in variants:
        found.setdefault(version, []).append(entry)
    return found


def dump_state(state: ProjectState) -> bytes:
    """Write a state, one wheel a line, so that two of them can be compared by eye."""
    return by_lines(state.to_json())


@lru_cache(maxsize=8)  # one change reads the same state several times, to see that nobody came between
def load_state(data: bytes, place: str, project: str) -> ProjectState:
    """Read a state.

    :param place: where it came from, for the error.
    :param project: whose it must be.
    :raises PackageIndexError: it is broken or another's, or a newer wheelsmith wrote it.
    """
    try:
        plain = read_json(data)
        if plain["schema_version"] > SCHEMA_VERSION:
            raise UnreadableError(f"{place} was written by a newer wheelsmith", remedy="update wheelsmith")
        state = ProjectState.from_json({**plain, "schema_version": SCHEMA_VERSION})
        check_state(state, project)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(
            f"{place} is broken: {in_one_line(error)}", remedy="restore it from a backup; nothing was changed"
        ) from None
    return state


def add_entries(
    state: ProjectState,
    entries: Sequence[IndexEntry],
    answers: Sequence[CellWithoutWheel] = (),
    planned: Iterable[PlannedVersion] = (),
) -> ProjectState:
    """Add wheels, and what became of the cells that have none; what is there already stays as it is.

    :param planned: which cells the versions of these wheels are to serve.
    :raises PackageIndexError: a file name is or was there with other bytes, or the project takes no wheels.
    """
    gone = {item.filename: item for item in state.removed}
    merged = {entry.filename: entry for entry in state.entries}
    for entry in entries:
        _check_new(entry, state.project)
        if known := merged.get(entry.filename) or gone.pop(entry.filename, None):
            _check_same(known, entry)
        merged[entry.filename] = _merged(merged.get(entry.filename), entry)
    if not state.status.takes_wheels and merged.keys() - {entry.filename for entry in state.entries}:
        raise PackageIndexError(
            f"{state.project} is {state.status}, and takes no new wheels",
            remedy=f"wheelsmith index status INDEX {state.project} active",
        )
    kept = tuple(merged[name] for name in sorted(merged))
    _check_variants(kept)
    return replace(
        state,
        entries=kept,
        answers=_answers(kept, [*state.answers, *answers]),
        removed=tuple(gone.values()),
        planned=merge_planned(state.planned, planned),
    )


def yank(state: ProjectState, chosen: str, reason: str) -> ProjectState:
    """Mark wheels as not to be chosen any more: installers take them for an exact pin alone (PEP 592).

    :param chosen: a wheel's file name, or a version, with its local part or without.
    :raises PackageIndexError: there is no such wheel.
    """
    return _change(state, _chosen(state, chosen), lambda entry: replace(entry, yanked=reason))


def unyank(state: ProjectState, chosen: str) -> ProjectState:
    """Take back a yank.

    :raises PackageIndexError: there is no such wheel.
    """
    return _change(state, _chosen(state, chosen), lambda entry: replace(entry, yanked=None))


def remove(state: ProjectState, chosen: str) -> ProjectState:
    """List wheels no more; their names never get other bytes.

    :param chosen: a wheel's file name, or a version, with its local part or without.
    :raises PackageIndexError: there is no such wheel.
    """
    return _without(state, _chosen(state, chosen))


def _without(state: ProjectState, names: set[str]) -> ProjectState:
    """List wheels no more; what was planned for a version that has none left goes, too."""
    gone = [Removed(filename=item.filename, sha256=item.sha256) for item in state.entries if item.filename in names]
    removed = sorted([*state.removed, *gone], key=lambda item: item.filename)
    entries = tuple(entry for entry in state.entries if entry.filename not in names)
    empty = {public_of(entry) for entry in state.entries} - {public_of(entry) for entry in entries}
    planned = tuple(item for item in state.planned if Version(item.version) not in empty)
    return replace(state, entries=entries, removed=tuple(removed), planned=planned)


def record_test(state: ProjectState, chosen: str, test: WheelTest) -> ProjectState:
    """Say what a test of wheels came to, in the place of what was said before of the same machine and cell.

    :param chosen: a wheel's file name, or a version, with its local part or without.
    :raises PackageIndexError: there is no such wheel, none of them serves the test's cell, or its words can stand on no
        page.
    """
    names = _chosen(state, chosen)
    serving = {
        entry.filename
        for entry in state.entries
        if entry.filename in names and test.cell in {None, *(cell.id for cell in entry.cells)}
    }
    if not serving:
        raise PackageIndexError(f"{chosen} has no wheel for the cell {test.cell}", remedy="name a cell that it serves")
    return _change(state, serving, lambda entry: _with_test(entry, test))


def _with_test(entry: IndexEntry, test: WheelTest) -> IndexEntry:
    tests = merge_tests(entry.tests, [test])
    try:
        # A state that says what it may not is one that nobody can read any more.
        check_tests(entry.filename, tests)
    except ValueError as error:
        raise PackageIndexError(
            f"this cannot be said of a test: {in_one_line(error)}",
            remedy="name the machine in one line, short, and each time alike",
        ) from None
    return replace(entry, tests=tests)


def drop_versions(state: ProjectState, versions: Iterable[str]) -> ProjectState:
    """List the wheels of some versions no more, and forget what was planned for those.

    :param versions: without local parts; those that have no wheel are forgotten all the same.
    """
    gone = {Version(version) for version in versions}
    without = _without(state, {entry.filename for entry in state.entries if public_of(entry) in gone})
    planned = tuple(item for item in without.planned if Version(item.version) not in gone)
    answers = tuple(item for item in without.answers if Version(item.version) not in gone)
    return replace(without, planned=planned, answers=answers)


def merge_tests(before: Iterable[WheelTest], new: Iterable[WheelTest]) -> tuple[WheelTest, ...]:
    """Return the last test of each machine and cell."""
    last = {test.machine_and_cell: test for test in (*before, *new)}
    return tuple(last[key] for key in sorted(last))


def index_address(text: str) -> str:
    """Return the address of an index as its states have it.

    :raises PackageIndexError: it is no such address.
    """
    try:
        return check_address(text)
    except ValueError as error:
        raise PackageIndexError(str(error), remedy="--address https://wheels.example.org/") from None


def set_address(state: ProjectState, address: str) -> ProjectState:
    """Note where an index is found, for what its pages must name by a whole address.

    :raises PackageIndexError: it is no such address.
    """
    return replace(state, address=index_address(address))


def set_status(state: ProjectState, status: ProjectStatus, reason: str | None) -> ProjectState:
    """Say of a project what its owner thinks of it (PEP 792)."""
    return replace(state, status=status, status_reason=reason)


def _merged(known: IndexEntry | None, new: IndexEntry) -> IndexEntry:
    """Return the entry of a wheel that may be there already; it then serves its old cells and the new ones."""
    if known is None:
        return replace(new, cells=tuple(sorted(new.cells, key=lambda cell: cell.id)))
    cells = {cell.id: cell for cell in (*known.cells, *new.cells)}
    return replace(
        with_more(known, new),
        cells=tuple(cells[name] for name in sorted(cells)),
        provenance=known.provenance or new.provenance,
        about=known.about or new.about,
        tests=merge_tests(new.tests, known.tests),
    )


def is_known(known: IndexEntry, new: IndexEntry) -> bool:
    """Say whether an index that has a wheel would learn nothing by being offered it again, but perhaps of its tests."""
    return replace(_merged(known, new), tests=known.tests) == known


def _check_same(known: IndexEntry | Removed, new: IndexEntry) -> None:
    if known.sha256 != new.sha256:
        where = "is" if isinstance(known, IndexEntry) else "was"
        raise PackageIndexError(
            f"{new.filename} {where} in the index with other bytes, and a published file never changes",
            remedy="give the kernel a new version, in matrix.yaml or build.toml; or start another index",
        )


def _check_new(entry: IndexEntry, project: str) -> None:
    try:
        check_entry(entry, project)
    except ValueError as error:
        raise PackageIndexError(
            f"{entry.filename!r} cannot be held: {in_one_line(error)}", remedy="build it again, with a plain name"
        ) from None


def _check_variants(entries: Iterable[IndexEntry]) -> None:
    """Refuse labels that an installer could not tell apart: each stands for one set of properties of a version."""
    for version, group in by_version(entries).items():
        if wrong := label_conflicts(entry.variant for entry in group if entry.variant):
            raise PackageIndexError(
                f"version {version} would have variants that contradict each other: {wrong[0]}",
                remedy="give the kernel a new version, in matrix.yaml or build.toml",
            )


def _answers(entries: Sequence[IndexEntry], answers: Iterable[CellWithoutWheel]) -> tuple[CellWithoutWheel, ...]:
    """Keep the last answer of each cell, for the newest version, where no wheel of that version serves the cell."""
    given = [(Version(answer.version), answer) for answer in answers]
    if not given:
        return ()
    versions = [public_of(entry) for entry in entries]
    newest = max([*versions, *(version for version, _ in given)])
    # An older version may be published later: what it says of a cell takes nothing from the newest one's answer.
    latest = {answer.cell.id: answer for version, answer in given if version == newest}
    served = {
        cell.id for entry, version in zip(entries, versions, strict=True) if version == newest for cell in entry.cells
    }
    return tuple(latest[name] for name in sorted(latest) if name not in served)


def _change(state: ProjectState, names: set[str], change: Callable[[IndexEntry], IndexEntry]) -> ProjectState:
    entries = (change(entry) if entry.filename in names else entry for entry in state.entries)
    return replace(state, entries=tuple(entries))


def _chosen(state: ProjectState, chosen: str) -> set[str]:
    names = {entry.filename for entry in state.entries if _is(entry, chosen)}
    if not names:
        raise PackageIndexError(
            f"{state.project} has no wheel {chosen}",
            remedy="name a file, or a version such as 1.0 or 1.0+cu130.torch2.11",
        )
    return names


def _is(entry: IndexEntry, chosen: str) -> bool:
    if chosen in {entry.filename, entry.variant_of}:
        return True
    try:
        version = Version(chosen)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return False
    # What is said of a wheel is said of the variant wheel with the same content.
    named = {version_of(entry), read_wheel_name(entry.variant_of or entry.filename).version}
    return version in named or (version.local is None and public_of(entry) == version)
