"""An index in a folder: several processes may add to it at once, and any of them may be killed.

``files/<sha256[:2]>/<sha256>/<wheel>`` and its ``.metadata`` are written once; ``_state/<project>.json`` is the sole
truth; pages are rendered from it. The order of writing is the safety: files, state, pages, roots. What a killed writer
left undone, the next one does.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import parse_wheel_filename

from wheelsmith.errors import PackageIndexError
from wheelsmith.files import atomic_copy, atomic_write, sha256_file
from wheelsmith.index.metadata import read_metadata
from wheelsmith.index.render import file_path, render_project, render_roots
from wheelsmith.model import Cell, IndexEntry, WheelFile

STATE = "_state"
_SCHEMA = 1
_PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedWheel:
    """A wheel to add, and the cells that it serves."""

    wheel: WheelFile
    path: Path
    cells: tuple[Cell, ...]


class FolderIndex:
    """A static index under one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, wheels: Sequence[IndexedWheel], *, upload_time: str) -> tuple[IndexEntry, ...]:
        """Add wheels in one transaction; those that are there already change nothing.

        :param upload_time: UTC, for the wheels that are new, e.g. ``2026-11-21T10:00:00Z``.
        :raises PackageIndexError: a file name is there with other bytes, or the folder cannot be written.
        """
        try:
            with self._lock():
                return self._add(wheels, upload_time)
        except OSError as error:
            raise PackageIndexError(
                f"the index at {self._root} cannot be written: {error.strerror or error}",
                remedy="free some disk or mend its permissions, or choose another place with --out",
            ) from error

    def entries(self) -> dict[str, tuple[IndexEntry, ...]]:
        """Give every entry by project.

        :raises PackageIndexError: a state file cannot be read.
        """
        found = {}
        for path in sorted((self._root / STATE).glob("*.json")):
            try:
                data = json.loads(path.read_bytes())
                found[path.stem] = tuple(IndexEntry.from_json(item) for item in data["entries"])
            except (ValueError, KeyError, TypeError) as error:
                raise PackageIndexError(
                    f"{path} is broken: {error}", remedy="restore it from a backup; nothing was changed"
                ) from None
        return found

    def _add(self, wheels: Sequence[IndexedWheel], upload_time: str) -> tuple[IndexEntry, ...]:
        known = self.entries()
        merged = {project: {entry.filename: entry for entry in entries} for project, entries in known.items()}
        answers = []
        for wheel in wheels:
            project = _project(wheel.wheel.filename)
            entries = merged.setdefault(project, {})
            entry = _merge(wheel, entries.get(wheel.wheel.filename), upload_time)
            self._put_file(wheel, entry)
            entries[entry.filename] = entry
            answers.append(entry)
        state = {project: tuple(entries[name] for name in sorted(entries)) for project, entries in merged.items()}
        for project, kept in state.items():
            self._write_state(project, kept)
        # Every page, not only those of the projects just added to: a writer that was killed may have left some undone.
        for project, kept in state.items():
            self._write_pages(render_project(project, kept))
        self._write_pages(render_roots(state))
        return tuple(answers)

    def _put_file(self, wheel: IndexedWheel, entry: IndexEntry) -> None:
        path = self._root / file_path(entry)
        if path.is_file() and path.stat().st_size == entry.size:
            return
        if sha256_file(wheel.path) != entry.sha256:
            raise PackageIndexError(f"{wheel.path} changed while it was being published")
        atomic_write(path.with_name(path.name + ".metadata"), read_metadata(wheel.path))
        atomic_copy(wheel.path, path)

    def _write_state(self, project: str, entries: tuple[IndexEntry, ...]) -> None:
        data = {
            "schema_version": _SCHEMA,
            "project": project,
            "entries": [entry.to_json() for entry in entries],
        }
        self._write_pages({f"{STATE}/{project}.json": json.dumps(data, indent=1, sort_keys=True).encode() + b"\n"})

    def _write_pages(self, pages: dict[str, bytes]) -> None:
        for name, data in pages.items():
            path = self._root / name
            if not path.is_file() or path.read_bytes() != data:
                atomic_write(path, data)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        folder = self._root / STATE
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _project(filename: str) -> str:
    project = str(parse_wheel_filename(filename)[0])
    if not _PROJECT.fullmatch(project):
        raise PackageIndexError(f"{project!r} is not a project name that an index can hold")
    return project


def _merge(wheel: IndexedWheel, known: IndexEntry | None, upload_time: str) -> IndexEntry:
    """Give the entry of a wheel that may be there already; it then serves its old cells and the new ones."""
    file = wheel.wheel
    if known is None:
        return IndexEntry(
            filename=file.filename,
            sha256=file.sha256,
            size=file.size,
            requires_python=file.requires_python,
            metadata_sha256=file.metadata_sha256,
            upload_time=upload_time,
            cells=_ordered(wheel.cells),
        )
    if known.sha256 != file.sha256:
        raise PackageIndexError(
            f"{file.filename} is in the index with other bytes, and a published file never changes",
            remedy="give the kernel a new version, in matrix.yaml or build.toml; or start another index with --out",
        )
    cells = {cell.id: cell for cell in (*known.cells, *wheel.cells)}
    return replace(known, cells=_ordered(tuple(cells.values())))


def _ordered(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    return tuple(sorted(cells, key=lambda cell: cell.id))
