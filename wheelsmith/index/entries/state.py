"""Changes to a project's state. Every function takes a state, returns a new one, and reads no clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.index.entries.entry import (
    CellWithoutWheel,
    IndexEntry,
    PlannedVersion,
    ProjectState,
    ProjectStatus,
    Removed,
    WheelTest,
    check_address,
)
from wheelsmith.model import read_wheel_name
from wheelsmith.wheel.variant_format import label_conflicts

Transition = Callable[[ProjectState], ProjectState]
_PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def project_of(filename: str) -> str:
    """Return the normalized project name of a wheel's file name.

    :raises PackageIndexError: the file name or its project name is invalid.
    """
    try:
        project = read_wheel_name(filename).project
    except ValueError as error:
        raise PackageIndexError(f"{filename!r} is not the name of a wheel: {error}") from None
    return check_project(project)


def check_project(name: str) -> str:
    """Return the normalized name of a project.

    :raises PackageIndexError: the name is not safe in a path.
    """
    project = str(canonicalize_name(name))
    if not _PROJECT.fullmatch(project):
        raise PackageIndexError(f"{name!r} is not a valid project name")
    return project


def select_version(entries: Iterable[IndexEntry], version: str) -> tuple[IndexEntry, ...]:
    """Return the wheels of a version, including variant wheels.

    :param version: the version, without a local part.
    """
    wanted = Version(version)
    return tuple(entry for entry in entries if entry.public == wanted)


def variants_by_version(entries: Iterable[IndexEntry]) -> dict[Version, list[IndexEntry]]:
    """Group the variant wheels by version, oldest first."""
    found: dict[Version, list[IndexEntry]] = {}
    for entry in sorted((each for each in entries if each.variant), key=lambda each: (each.version, each.filename)):
        found.setdefault(entry.version, []).append(entry)
    return found


# --- adding -----------------------------------------------------------------------------------------------------------


def add_entries(
    state: ProjectState,
    entries: Sequence[IndexEntry],
    answers: Sequence[CellWithoutWheel] = (),
    planned: Iterable[PlannedVersion] = (),
) -> ProjectState:
    """Add wheels and cells without a wheel. Known wheels gain cells and side files but keep their other fields.

    :param planned: the cells that the versions of these wheels should serve.
    :raises PackageIndexError: a file name was already published with other bytes, or the project takes no new wheels.
    """
    removed = {item.filename: item for item in state.removed}
    merged = {entry.filename: entry for entry in state.entries}
    for entry in entries:
        if known := merged.get(entry.filename) or removed.pop(entry.filename, None):
            _check_same_bytes(known, entry)
        merged[entry.filename] = _merge_entry(merged.get(entry.filename), entry)
    if not state.status.takes_wheels and merged.keys() - {entry.filename for entry in state.entries}:
        raise PackageIndexError(
            f"{state.project} is {state.status} and accepts no new wheels",
            remedy=f"wheelsmith index status INDEX {state.project} active",
        )
    sorted_entries = tuple(merged[name] for name in sorted(merged))
    _check_variants(sorted_entries)
    return replace(
        state,
        entries=sorted_entries,
        answers=_current_answers(sorted_entries, [*state.answers, *answers]),
        removed=tuple(removed.values()),
        planned=_merge_planned(state.planned, planned),
    )


def is_known(known: IndexEntry, new: IndexEntry) -> bool:
    """Return True if adding a wheel again would change at most its tests."""
    return replace(_merge_entry(known, new), tests=known.tests) == known


def _merge_entry(known: IndexEntry | None, new: IndexEntry) -> IndexEntry:
    """Merge a new entry into the known entry of the same wheel, if any. The result serves the cells of both."""
    if known is None:
        return replace(new, cells=tuple(sorted(new.cells, key=lambda cell: cell.id)))
    cells = {cell.id: cell for cell in (*known.cells, *new.cells)}
    return replace(
        known.with_missing_files(new),
        cells=tuple(cells[name] for name in sorted(cells)),
        provenance=known.provenance or new.provenance,
        about=known.about or new.about,
        tests=_merge_tests(new.tests, known.tests),
    )


def _check_same_bytes(known: IndexEntry | Removed, new: IndexEntry) -> None:
    if known.sha256 != new.sha256:
        raise name_conflict(new.filename, "is" if isinstance(known, IndexEntry) else "was")


def name_conflict(filename: str, where: str = "is") -> PackageIndexError:
    """Return the error for a wheel with the name of another wheel in an index."""
    return PackageIndexError(
        f"{filename} {where} in the index with other bytes, and a published file never changes",
        remedy="give the kernel a new version, in matrix.yaml or build.toml, or use another index; "
        "to withdraw the old version: wheelsmith index yank INDEX PROJECT VERSION",
    )


def _check_variants(entries: Iterable[IndexEntry]) -> None:
    """Check that each variant label of a version stands for one set of properties.

    :raises PackageIndexError: two variants contradict each other.
    """
    for version, group in variants_by_version(entries).items():
        if wrong := label_conflicts(entry.variant for entry in group if entry.variant):
            raise PackageIndexError(
                f"version {version} would have variants that contradict each other: {wrong[0]}",
                remedy="give the kernel a new version, in matrix.yaml or build.toml",
            )


def _current_answers(
    entries: Sequence[IndexEntry], answers: Iterable[CellWithoutWheel]
) -> tuple[CellWithoutWheel, ...]:
    """Return the latest answer for each unserved cell of the newest version."""
    given = [(Version(answer.version), answer) for answer in answers]
    if not given:
        return ()
    newest = max([*(entry.public for entry in entries), *(version for version, _ in given)])
    # An older version may be published later. Its answers must not replace those of the newest version.
    latest = {answer.cell.id: answer for version, answer in given if version == newest}
    served = {cell.id for entry in entries if entry.public == newest for cell in entry.cells}
    return tuple(latest[name] for name in sorted(latest) if name not in served)


def _merge_planned(before: Iterable[PlannedVersion], new: Iterable[PlannedVersion]) -> tuple[PlannedVersion, ...]:
    """Merge the planned cells of each version. Several matrices may plan cells of one version."""
    merged: dict[Version, PlannedVersion] = {}
    for item in (*before, *new):
        known = merged.get(version := Version(item.version), item)
        merged[version] = PlannedVersion(
            version=str(version),
            cells=_union(known.cells, item.cells),
            excluded=_union(known.excluded, item.excluded),
            tried=_union(known.tried, item.tried),
        )
    return tuple(merged[version] for version in sorted(merged))


def _union(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*one, *other}))


# --- changing ---------------------------------------------------------------------------------------------------------


def yank(state: ProjectState, chosen: str, reason: str) -> ProjectState:
    """Yank wheels. Installers then choose them only for an exact pin (PEP 592).

    :param chosen: a wheel's file name, or a version with or without a local part.
    :raises PackageIndexError: no wheel matches.
    """
    return _change(state, _select_files(state, chosen), lambda entry: replace(entry, yanked=reason))


def unyank(state: ProjectState, chosen: str) -> ProjectState:
    """Reverse a yank.

    :param chosen: a wheel's file name, or a version with or without a local part.
    :raises PackageIndexError: no wheel matches.
    """
    return _change(state, _select_files(state, chosen), lambda entry: replace(entry, yanked=None))


def remove(state: ProjectState, chosen: str) -> ProjectState:
    """Remove wheels from the pages. Their file names cannot be reused for other bytes.

    :param chosen: a wheel's file name, or a version with or without a local part.
    :raises PackageIndexError: no wheel matches.
    """
    return _remove_files(state, _select_files(state, chosen))


def record_test(state: ProjectState, chosen: str, test: WheelTest) -> ProjectState:
    """Record a test result of wheels. It replaces the last result of the same machine and cell.

    :param chosen: a wheel's file name, or a version with or without a local part.
    :raises PackageIndexError: no wheel matches, or no matching wheel serves the test's cell.
    """
    names = _select_files(state, chosen)
    serving = {
        entry.filename
        for entry in state.entries
        if entry.filename in names and test.cell in {None, *(cell.id for cell in entry.cells)}
    }
    if not serving:
        raise PackageIndexError(f"{chosen} has no wheel for the cell {test.cell}", remedy="name a cell that it serves")
    return _change(state, serving, lambda entry: replace(entry, tests=_merge_tests(entry.tests, [test])))


def normalize_address(text: str) -> str:
    """Return the address of an index in the form that states contain.

    :raises PackageIndexError: the address is invalid.
    """
    try:
        return check_address(text)
    except ValueError as error:
        raise PackageIndexError(str(error), remedy="--address https://wheels.example.org/") from None


def set_address(state: ProjectState, address: str) -> ProjectState:
    """Set the address of an index, for links that must be absolute.

    :raises PackageIndexError: the address is invalid.
    """
    return replace(state, address=normalize_address(address))


def set_status(state: ProjectState, status: ProjectStatus, reason: str | None) -> ProjectState:
    """Set the status of a project (PEP 792)."""
    return replace(state, status=status, status_reason=reason)


def _merge_tests(before: Iterable[WheelTest], new: Iterable[WheelTest]) -> tuple[WheelTest, ...]:
    """Return the latest test of each machine and cell."""
    last = {test.machine_and_cell: test for test in (*before, *new)}
    return tuple(last[key] for key in sorted(last))


def _remove_files(state: ProjectState, names: Collection[str]) -> ProjectState:
    """Remove wheels from the entries, and remove the plans of versions without remaining wheels."""
    newly_removed = [
        Removed(filename=item.filename, sha256=item.sha256) for item in state.entries if item.filename in names
    ]
    removed = sorted([*state.removed, *newly_removed], key=lambda item: item.filename)
    entries = tuple(entry for entry in state.entries if entry.filename not in names)
    empty = {entry.public for entry in state.entries} - {entry.public for entry in entries}
    planned = tuple(item for item in state.planned if Version(item.version) not in empty)
    return replace(state, entries=entries, removed=tuple(removed), planned=planned)


def _change(state: ProjectState, names: Collection[str], change: Callable[[IndexEntry], IndexEntry]) -> ProjectState:
    entries = (change(entry) if entry.filename in names else entry for entry in state.entries)
    return replace(state, entries=tuple(entries))


def _select_files(state: ProjectState, chosen: str) -> set[str]:
    names = {entry.filename for entry in state.entries if _matches(entry, chosen)}
    if not names:
        raise PackageIndexError(
            f"{state.project} has no wheel {chosen}",
            remedy="name a file, or a version such as 1.0 or 1.0+cu130.torch2.11",
        )
    return names


def _matches(entry: IndexEntry, chosen: str) -> bool:
    if chosen in {entry.filename, entry.variant_of}:
        return True
    try:
        version = Version(chosen)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return False
    # A variant wheel is changed together with the plain wheel of the same content.
    versions = {entry.version, read_wheel_name(entry.variant_of or entry.filename).version}
    return version in versions or (version.local is None and entry.public == version)


# --- versions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness(Record):
    """Represents the share of a version's planned cells that have a wheel.

    :param version: version of the kernel, without a local part.
    :param planned: ids of the cells that should have a wheel, sorted.
    :param missing: ids of the planned cells without an advertised wheel of the current source that is not yanked.
    """

    version: str
    planned: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a description."""
        served = len(self.planned) - len(self.missing)
        return f"version {self.version}: {served} of {len(self.planned)} combinations have a wheel"


def completeness(state: ProjectState, version: str) -> Completeness | None:
    """Return the completeness of a version, or None if its plan is not known.

    :param version: the version, without a local part.
    """
    wanted = Version(version)
    return next((each for each in all_completeness(state) if Version(each.version) == wanted), None)


def all_completeness(state: ProjectState) -> tuple[Completeness, ...]:
    """Return the completeness of each version with a known plan, newest first."""
    served: dict[Version, set[str]] = {}
    for entry in state.entries:
        if entry.yanked is None and entry.variant is None and not entry.older:
            cells = {cell.id for cell in entry.cells if cell.settings.advertise}
            served.setdefault(entry.public, set()).update(cells)
    return tuple(_completeness(item, served.get(Version(item.version), set())) for item in reversed(state.planned))


def _completeness(planned: PlannedVersion, served: Collection[str]) -> Completeness:
    # A cell that one run excluded and another tried to build should have a wheel.
    left_out = set(planned.excluded) - set(planned.tried)
    wanted = tuple(name for name in planned.cells if name not in left_out)
    missing = tuple(name for name in wanted if name not in served)
    return Completeness(version=planned.version, planned=wanted, missing=missing)


def outdated_versions(state: ProjectState, *, keep: int, before: str | None = None) -> tuple[str, ...]:
    """Return the versions that may be removed, newest first, without local parts.

    :param keep: number of newest versions to keep. Versions with only yanked wheels do not count.
    :param before: a time in the format of ``upload_time``. Versions with later wheels are kept, too.
    """
    published: dict[Version, str] = {Version(item.version): "" for item in state.planned}
    for entry in state.entries:
        published[entry.public] = max(published.get(entry.public, ""), entry.upload_time)
    not_yanked = sorted({entry.public for entry in state.entries if entry.yanked is None}, reverse=True)
    if len(not_yanked) < keep:
        return ()
    older = sorted((version for version in published if version < not_yanked[keep - 1]), reverse=True)
    return tuple(str(version) for version in older if before is None or published[version] < before)


def remove_outdated(state: ProjectState, *, keep: int, before: str | None = None) -> ProjectState:
    """Remove the wheels and plans of outdated versions."""
    versions = {Version(version) for version in outdated_versions(state, keep=keep, before=before)}
    remaining = _remove_files(state, {entry.filename for entry in state.entries if entry.public in versions})
    planned = tuple(item for item in remaining.planned if Version(item.version) not in versions)
    answers = tuple(item for item in remaining.answers if Version(item.version) not in versions)
    return replace(remaining, planned=planned, answers=answers)
