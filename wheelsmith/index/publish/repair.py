"""Fix what ``verify`` names, as far as it can be made from what is there."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.base.files import sha256_file
from wheelsmith.index.entries import IndexEntry, ProjectState, about_of, project_of
from wheelsmith.index.entries.side_files.known import announced, made_files, paths, with_files
from wheelsmith.index.entries.side_files.metadata import CORE_METADATA
from wheelsmith.index.publish.verify import Fault, Trouble, refuse_nothing, unasked_pages, verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What a repair came to.

    :param fixed: the keys of what was written or removed.
    :param left: what is still wrong, each with what fixes it: just what ``verify`` says then.
    """

    fixed: tuple[str, ...]
    left: tuple[Trouble, ...]


def repair(storage: Storage, copies: Sequence[Path] = ()) -> Repaired:
    """Make an index whole again. Reads every wheel.

    :param copies: folders that may have the right bytes of files that are missing or damaged, at any depth.
    :raises PackageIndexError: a project's state cannot be read, or the index cannot be written.
    """
    refuse_nothing(storage)
    return storage.transaction(lambda held: _repair(held, copies))


def _repair(storage: Storage, copies: Sequence[Path]) -> Repaired:
    fixed = _remove_links(storage)
    wrong = verify(storage)
    places = _places(
        copies, {path.rpartition("/")[2] for trouble in wrong if trouble.entry for path in paths(trouble.entry)}
    )
    for trouble in wrong:
        if trouble.entry:
            fixed += _fix_wheel(storage, trouble, trouble.entry, places)
    fixed += Index(storage).repair()
    if unasked := unasked_pages(storage):
        for key in unasked:
            storage.delete(key)
        fixed += unasked
        # Who published one of them in this very moment finds it again.
        fixed += (key for key in Index(storage).repair() if key not in fixed)
    return Repaired(fixed=tuple(dict.fromkeys(fixed)), left=verify(storage) if wrong or fixed else ())


def _remove_links(storage: Storage) -> list[str]:
    """Remove the links among the pages, which are then written; what is published is not thrown away."""
    links = [key for key in storage.non_regular() if key.partition("/")[0] not in {"files", "_state"}]
    for key in links:
        storage.delete(key)
    return links


def _fix_wheel(
    storage: Storage, trouble: Trouble, entry: IndexEntry, places: Mapping[str, Sequence[Path]]
) -> list[str]:
    fixed = []
    if trouble.fault is Fault.WHEEL:
        found = _copy(places, entry.filename, entry.sha256)
        if found is None:
            return []
        storage.put(entry.path, found)
        fixed.append(entry.path)
    wheel = storage.read(entry.path)
    if wheel is None:
        return []
    made = made_files(io.BytesIO(wheel.data), entry.filename)
    fixed += _fix_beside(storage, entry, made, places)
    if trouble.fault in {Fault.SIDE_CAR_HASH, Fault.ABOUT}:
        project = project_of(entry.filename)
        Index(storage).change(project, lambda state: _with_files(state, entry, made))
        fixed.append(f"_state/{project}.json")
    return fixed


def _fix_beside(
    storage: Storage, entry: IndexEntry, made: Mapping[str, bytes], places: Mapping[str, Sequence[Path]]
) -> list[str]:
    """Write again what is beside a wheel, as far as the wheel gives it or a copy is at hand; return the keys."""
    fixed = []
    for side in announced(with_files(entry, made)):
        stored = storage.read(side.path)
        if stored and side.is_right(stored.data):
            continue
        own = made.get(side.kind.suffix)
        content = _copy(places, side.filename, side.sha256) if own is None else own
        if content is not None:
            storage.put(side.path, content)
            fixed.append(side.path)
    return fixed


def _with_files(state: ProjectState, entry: IndexEntry, made: Mapping[str, bytes]) -> ProjectState:
    """Correct what is known of what the wheel gives: it is what was published, so its own is right."""
    entries = (
        replace(with_files(known, made), about=about_of(made[CORE_METADATA]))
        if (known.filename, known.sha256) == (entry.filename, entry.sha256)
        else known
        for known in state.entries
    )
    return replace(state, entries=tuple(entries))


def _copy(places: Mapping[str, Sequence[Path]], name: str, sha256: str) -> Path | None:
    return next((path for path in places.get(name, ()) if sha256_file(path) == sha256), None)


def _places(copies: Sequence[Path], wanted: set[str]) -> dict[str, list[Path]]:
    """Return where files of these names lie in some folders; links are not followed."""
    found: dict[str, list[Path]] = {}
    for folder in copies:
        for path in sorted(folder.rglob("*.whl*")):
            if path.name in wanted and path.is_file() and not path.is_symlink():
                found.setdefault(path.name, []).append(path)
    return found
