"""Compare all files and pages of an index with its states, and repair the differences."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.base.errors import PackageIndexError, UnreadableError, WheelsmithError
from wheelsmith.base.files import sha256_file
from wheelsmith.frameworks import find_outranked, framework
from wheelsmith.index.entries.entry import EVERYTHING, IndexEntry, ProjectState
from wheelsmith.index.entries.render import variants_files
from wheelsmith.index.entries.side_files import CORE_METADATA
from wheelsmith.index.entries.stored_states import (
    LISTING,
    RUNS,
    STATE,
    load_readable_states,
    project_of_key,
    state_key,
)
from wheelsmith.index.publish.release import UploadReader
from wheelsmith.index.publish.writer import TEMPORARY, Index, load_readme, project_pages, root_pages
from wheelsmith.index.site.listing import Listing, dump_listing, listing_of, load_listing
from wheelsmith.index.storage.protocol import Storage
from wheelsmith.model import TORCH
from wheelsmith.platforms import compute_shape

_ROOT = re.compile(rf"{EVERYTHING}|projects|{compute_shape()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexProblem:
    """One problem of an index.

    :param key: key of the affected file.
    :param message: a sentence without a full stop.
    :param remedy: the command that fixes the problem.
    :param entry: the affected wheel, if any.
    :param unexpected: True if the file is a page that no state needs.
    """

    key: str
    message: str
    remedy: str
    entry: IndexEntry | None = None
    unexpected: bool = False

    def __str__(self) -> str:
        """Return the message."""
        return self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """The result of a repair.

    :param fixed: keys of the written and removed files.
    :param left: problems that ``verify`` still finds after the repair.
    """

    fixed: tuple[str, ...]
    left: tuple[IndexProblem, ...]


def verify(storage: Storage) -> tuple[IndexProblem, ...]:
    """Return the problems of an index. This reads every wheel and changes nothing.

    :raises PackageIndexError: the storage cannot be read, or is empty.
    """
    # Read the states after listing the files, because a publisher changes the state before it writes pages.
    keys = _list_keys(storage)
    states, broken = load_readable_states(storage)
    problems = [_broken_state(name, error) for name, error in sorted(broken.items())]
    with UploadReader() as reader:
        for entry in (entry for state in states.values() for entry in state.entries):
            problems += _wheel_problems(storage, entry, reader)
    expected = expected_files(storage, states, _broken_listings(storage, broken))
    for key, data in sorted(expected.items()):
        stored = storage.read(key)
        if stored is None or stored.data != data:
            message = f"{key} is missing" if stored is None else f"{key} differs from the state"
            problems.append(IndexProblem(key=key, message=message, remedy=_repair_command(storage)))
    return (*problems, *_unexpected_files(storage, keys, expected, broken))


def advise(storage: Storage) -> tuple[IndexProblem, ...]:
    """Return suggestions for an index whose files match its states."""
    advice = []
    for name, state in load_readable_states(storage)[0].items():
        not_yanked = [entry for entry in state.entries if entry.yanked is None and entry.roots]
        for old, by in find_outranked(entry.version for entry in not_yanked).items():
            message = f"{name} {old}, for more than one torch, sorts below {by}: users without a pin get an older one"
            remedy = (
                f"build {name} {old.public} again with this wheelsmith and publish it: the new wheel "
                f"{old}.{framework(TORCH).stable_part} sorts above, and the old one stays"
            )
            advice.append(IndexProblem(key=state_key(name), message=message, remedy=remedy))
    return tuple(advice)


def expected_files(
    storage: Storage, states: Mapping[str, ProjectState], listed: Mapping[str, Listing] | None = None
) -> dict[str, bytes]:
    """Return all files that are rendered from states: key → content.

    :param listed: list entries of projects with a broken state.
    """
    listing = {**(listed or {}), **{name: listing_of(state) for name, state in states.items()}}
    expected = root_pages(listing)
    if listing:
        expected[LISTING] = dump_listing(listing)
    for state in states.values():
        expected |= project_pages(state, load_readme(storage, state))
        expected |= {file.path: file.data for file in variants_files(state)}
    return expected


def is_page(key: str) -> bool:
    """Return True if a file is in a folder of pages. Temporary files do not count."""
    root, _, rest = key.partition("/")
    return bool(rest) and bool(_ROOT.fullmatch(root)) and not TEMPORARY.fullmatch(key.rpartition("/")[2])


def repair(storage: Storage, copies: Sequence[Path] = ()) -> RepairResult:
    """Fix the problems that ``verify`` finds, if the index or the copies contain the required files.

    This reads every wheel.

    :param copies: folders that may contain missing or damaged files, at any depth.
    :raises PackageIndexError: the state of a project cannot be read, or the index cannot be written.
    """
    _list_keys(storage)
    return storage.transaction(lambda held: _repair(held, copies))


def _repair(storage: Storage, copies: Sequence[Path]) -> RepairResult:
    problems = verify(storage)
    if not problems:
        return RepairResult(fixed=(), left=())
    fixed: list[str] = []
    entries = {problem.entry.key: problem.entry for problem in problems if problem.entry}
    places = _find_files(copies, {path.rpartition("/")[2] for entry in entries.values() for path in entry.paths})
    with UploadReader() as reader:
        for entry in entries.values():
            fixed += _fix_wheel(storage, entry, places, reader)
    unexpected = [problem.key for problem in problems if problem.unexpected]
    for key in unexpected:
        storage.delete(key)
    # If one of them is published at this moment, the repair writes it again.
    fixed += [*unexpected, *Index(storage).repair()]
    return RepairResult(fixed=tuple(dict.fromkeys(fixed)), left=verify(storage))


def _list_keys(storage: Storage) -> list[str]:
    """Return all keys of an index, sorted.

    :raises PackageIndexError: the storage is empty, e.g. because the address is wrong.
    """
    keys = sorted(item.key for item in storage.listing(""))
    if not keys:
        raise PackageIndexError(
            f"there is no index: {storage.name} is empty",
            remedy="name the address of an index, or create one: wheelsmith build-matrix, wheelsmith publish",
        )
    return keys


def _broken_listings(storage: Storage, broken: Mapping[str, object]) -> dict[str, Listing]:
    """Return the list entries of projects with a broken state."""
    try:
        lists = load_listing(storage.read(LISTING))
    except PackageIndexError:
        return {}
    return {name: lists[name] for name in broken if name in lists}


def _unexpected_files(
    storage: Storage, keys: Sequence[str], expected: Mapping[str, bytes], broken: Mapping[str, object]
) -> Iterator[IndexProblem]:
    """Yield the pages that no state needs. Pages of projects with a broken state are kept."""
    for key in keys:
        if is_page(key) and key not in expected and key.split("/")[1] not in broken:
            message = f"{key} is a page that no state needs"
            yield IndexProblem(key=key, message=message, remedy=_repair_command(storage), unexpected=True)
        elif key.startswith(STATE) and not key.startswith((f"{STATE}.", RUNS)) and project_of_key(key) is None:
            remedy = "move it out of this folder, which is for states only"
            yield IndexProblem(key=key, message=f"{key} is not the state of a project", remedy=remedy)


def _broken_state(project: str, error: UnreadableError) -> IndexProblem:
    remedy = error.remedy or "restore it from a backup"
    return IndexProblem(key=state_key(project), message=str(error), remedy=remedy)


def _wheel_problems(storage: Storage, entry: IndexEntry, reader: UploadReader) -> Iterator[IndexProblem]:
    def problem(message: str, remedy: str) -> IndexProblem:
        return IndexProblem(key=entry.path, message=message, remedy=remedy, entry=entry)

    repair, remove = _repair_command(storage), _remove_command(storage, entry)
    wheel = storage.read(entry.path)
    if wheel is None or hashlib.sha256(wheel.data).hexdigest() != entry.sha256:
        yield problem(
            f"{entry.filename} is {'listed but missing' if wheel is None else 'not the file that was published'}",
            f"{repair} --from FOLDER, with a folder that contains the wheel with sha256 {entry.sha256}; "
            f"if there is no copy: {remove}",
        )
        return
    try:
        upload = reader.upload_of_bytes(entry.filename, wheel.data)
    except WheelsmithError as error:
        yield problem(error.message, f"publish another version, and: {remove}")
        return
    if entry.about != upload.entry.about:
        yield problem(f"the state describes {entry.filename} differently from its METADATA", repair)
    for side in entry.with_files(upload.side_files).announced:
        stored = storage.read(side.path)
        if side not in entry.announced:
            yield problem(f"the hash of {side.filename} differs from its page", repair)
        elif not (stored and side.matches(stored.data)):
            carried = (
                f"{repair} --from FOLDER, with a folder that contains {side.filename} with sha256 {side.sha256}; "
                f"if there is no copy: {remove}, and add the wheel again"
            )
            yield problem(
                f"{side.filename} is {'not the file that was published' if stored else 'listed but missing'}",
                repair if side.kind.suffix == CORE_METADATA else carried,
            )


def _remove_command(storage: Storage, entry: IndexEntry) -> str:
    return f"wheelsmith index remove {shlex.quote(storage.name)} {entry.project} {entry.filename}"


def _repair_command(storage: Storage) -> str:
    return f"wheelsmith index repair {shlex.quote(storage.name)}"


def _fix_wheel(
    storage: Storage, entry: IndexEntry, places: Mapping[str, Sequence[Path]], reader: UploadReader
) -> list[str]:
    """Restore a wheel, its side files and its entry, as far as possible. Return the changed keys."""
    fixed: list[str] = []
    wheel = storage.read(entry.path)
    if wheel is None or hashlib.sha256(wheel.data).hexdigest() != entry.sha256:
        found = _find_copy(places, entry.filename, entry.sha256)
        if found is None:
            return []
        storage.put(entry.path, found)
        fixed.append(entry.path)
        wheel = storage.read(entry.path)
    try:
        upload = reader.upload_of_bytes(entry.filename, wheel.data if wheel else b"")
    except WheelsmithError:
        return fixed
    side_files, about = upload.side_files, upload.entry.about
    # The wheel has the published hash, so its METADATA is right.
    expected = replace(entry.with_files(side_files), about=about)
    for side in expected.announced:
        stored = storage.read(side.path)
        content = side_files.get(side.kind.suffix) or _find_copy(places, side.filename, side.sha256)
        if content is not None and not (stored and side.matches(stored.data)):
            storage.put(side.path, content)
            fixed.append(side.path)
    if expected != entry:

        def corrected(state: ProjectState) -> ProjectState:
            entries = (
                replace(each.with_files(side_files), about=about) if each.key == entry.key else each
                for each in state.entries
            )
            return replace(state, entries=tuple(entries))

        Index(storage).change(entry.project, corrected)
        fixed.append(state_key(entry.project))
    return fixed


def _find_copy(places: Mapping[str, Sequence[Path]], name: str, sha256: str) -> Path | None:
    return next((path for path in places.get(name, ()) if sha256_file(path) == sha256), None)


def _find_files(copies: Sequence[Path], wanted: set[str]) -> dict[str, list[Path]]:
    """Return the paths of files with these names in some folders. Links are skipped."""
    found: dict[str, list[Path]] = {}
    for folder in copies:
        for path in sorted(folder.rglob("*.whl*")):
            if path.name in wanted and path.is_file() and not path.is_symlink():
                found.setdefault(path.name, []).append(path)
    return found
