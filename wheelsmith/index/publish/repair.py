"""Fix the problems that ``verify`` finds, as far as the index or given copies have what is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.files import sha256_file
from wheelsmith.index.entries.entry import IndexEntry, ProjectState
from wheelsmith.index.entries.stored_states import state_key
from wheelsmith.index.publish.release import UploadReader
from wheelsmith.index.publish.verify import IndexProblem, check_exists, unasked_pages, verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """The result of a repair.

    :param fixed: the keys of what was written or removed.
    :param left: what is still wrong, as ``verify`` says then.
    """

    fixed: tuple[str, ...]
    left: tuple[IndexProblem, ...]


def repair(storage: Storage, copies: Sequence[Path] = ()) -> Repaired:
    """Make an index whole again. Reads every wheel.

    :param copies: folders that may have the right bytes of files that are missing or damaged, at any depth.
    :raises PackageIndexError: a project's state cannot be read, or the index cannot be written.
    """
    check_exists(storage)
    return storage.transaction(lambda held: _repair(held, copies))


def _repair(storage: Storage, copies: Sequence[Path]) -> Repaired:
    # Links among the pages are removed, and the pages written; nothing published is thrown away.
    fixed = [key for key in storage.non_regular() if key.partition("/")[0] not in {"files", "_state"}]
    for key in fixed:
        storage.delete(key)
    wrong = verify(storage)
    entries = {problem.entry.key: problem.entry for problem in wrong if problem.entry}
    places = _places(copies, {path.rpartition("/")[2] for entry in entries.values() for path in entry.paths})
    with UploadReader() as reader:
        for entry in entries.values():
            fixed += _fix_wheel(storage, entry, places, reader)
    fixed += Index(storage).repair()
    if unasked := unasked_pages(storage):
        for key in unasked:
            storage.delete(key)
        fixed += unasked
        # If one of them is published in this very moment, it is written again.
        fixed += (key for key in Index(storage).repair() if key not in fixed)
    return Repaired(fixed=tuple(dict.fromkeys(fixed)), left=verify(storage) if wrong or fixed else ())


def _fix_wheel(
    storage: Storage, entry: IndexEntry, places: Mapping[str, Sequence[Path]], reader: UploadReader
) -> list[str]:
    """Write a wheel, the files beside it and its state again, as far as that can be done; return the keys."""
    fixed: list[str] = []
    wheel = storage.read(entry.path)
    if wheel is None or hashlib.sha256(wheel.data).hexdigest() != entry.sha256:
        found = _copy(places, entry.filename, entry.sha256)
        if found is None:
            return []
        storage.put(entry.path, found)
        fixed.append(entry.path)
        wheel = storage.read(entry.path)
    try:
        upload = reader.upload_of_bytes(entry.filename, wheel.data if wheel else b"")
    except WheelsmithError:
        return fixed
    made, about = upload.side_files, upload.entry.about
    # The wheel is what was published, so what it says itself is right.
    right = replace(entry.with_files(made), about=about)
    for side in right.announced:
        stored = storage.read(side.path)
        content = made.get(side.kind.suffix) or _copy(places, side.filename, side.sha256)
        if content is not None and not (stored and side.matches(stored.data)):
            storage.put(side.path, content)
            fixed.append(side.path)
    if right != entry:

        def corrected(state: ProjectState) -> ProjectState:
            entries = (
                replace(each.with_files(made), about=about) if each.key == entry.key else each for each in state.entries
            )
            return replace(state, entries=tuple(entries))

        Index(storage).change(entry.project, corrected)
        fixed.append(state_key(entry.project))
    return fixed


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
