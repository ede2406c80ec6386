"""Mend what ``verify`` names, as far as it can be made from what is there."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wheelsmith.base.files import sha256_file
from wheelsmith.index.entries import IndexEntry, ProjectState, about_of, project_of, read_metadata
from wheelsmith.index.publish.verify import Fault, Trouble, refuse_nothing, unasked_pages, verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What a repair came to.

    :param mended: the keys of what was written or removed.
    :param left: what is still wrong, each with what mends it: just what ``verify`` says then.
    """

    mended: tuple[str, ...]
    left: tuple[Trouble, ...]


def repair(storage: Storage, copies: Sequence[Path] = ()) -> Repaired:
    """Make an index whole again. Reads every wheel.

    :param copies: folders that may have the right bytes of wheels that are missing or damaged, at any depth.
    :raises PackageIndexError: a project's state cannot be read, or the index cannot be written.
    """
    refuse_nothing(storage)
    return storage.transaction(lambda held: _repair(held, copies))


def _repair(storage: Storage, copies: Sequence[Path]) -> Repaired:
    mended = _remove_links(storage)
    wrong = verify(storage)
    places = _places(copies, {trouble.entry.filename for trouble in wrong if trouble.entry})
    for trouble in wrong:
        if trouble.entry:
            mended += _mend_wheel(storage, trouble, trouble.entry, places)
    mended += Index(storage).repair()
    if unasked := unasked_pages(storage):
        for key in unasked:
            storage.delete(key)
        mended += unasked
        # Who published one of them in this very moment finds it again.
        mended += (key for key in Index(storage).repair() if key not in mended)
    return Repaired(mended=tuple(dict.fromkeys(mended)), left=verify(storage) if wrong or mended else ())


def _remove_links(storage: Storage) -> list[str]:
    """Remove the links among the pages, which are then written; what is published is not thrown away."""
    links = [key for key in storage.irregular() if key.partition("/")[0] not in {"files", "_state"}]
    for key in links:
        storage.delete(key)
    return links


def _mend_wheel(
    storage: Storage, trouble: Trouble, entry: IndexEntry, places: Mapping[str, Sequence[Path]]
) -> list[str]:
    if trouble.fault is Fault.WHEEL:
        found = next((path for path in places.get(entry.filename, ()) if sha256_file(path) == entry.sha256), None)
        if found is None:
            return []
        metadata = read_metadata(found, entry.filename)
        storage.put(entry.path, found)
        storage.put(f"{entry.path}.metadata", metadata)
        return [entry.path, f"{entry.path}.metadata"]
    wheel = storage.read(entry.path)
    if wheel is None:
        return []
    metadata = read_metadata(io.BytesIO(wheel.data), entry.filename)
    if trouble.fault is Fault.SIDE_CAR:
        storage.put(f"{entry.path}.metadata", metadata)
        return [f"{entry.path}.metadata"]
    said = {"metadata_sha256": hashlib.sha256(metadata).hexdigest(), "about": about_of(metadata)}
    project = project_of(entry.filename)
    Index(storage).change(project, lambda state: _with_metadata(state, entry, said))
    return [f"_state/{project}.json"]


def _with_metadata(state: ProjectState, entry: IndexEntry, said: Mapping[str, Any]) -> ProjectState:
    """Correct what is known of METADATA: the wheel is what was published, so its own is right."""
    entries = (
        replace(known, **said) if (known.filename, known.sha256) == (entry.filename, entry.sha256) else known
        for known in state.entries
    )
    return replace(state, entries=tuple(entries))


def _places(copies: Sequence[Path], wanted: set[str]) -> dict[str, list[Path]]:
    """Return where files of these names lie in some folders; links are not followed."""
    found: dict[str, list[Path]] = {}
    for folder in copies:
        for path in sorted(folder.rglob("*.whl")):
            if path.name in wanted and path.is_file() and not path.is_symlink():
                found.setdefault(path.name, []).append(path)
    return found
