"""Write the index of a run, ``dist/index``: the run's wheels, and those of earlier runs that it does not replace."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from packaging.version import Version

from wheelsmith import __version__
from wheelsmith.base.files import atomic_link, atomic_write, atomic_write_chunks, sha256_file
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.base.units import show_moment
from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, NoWheel, PlannedVersion, ProjectState
from wheelsmith.index.entries.side_files import CORE_METADATA
from wheelsmith.index.entries.state import Transition, add_entries, check_project, select_version
from wheelsmith.index.entries.stored_states import RUNS, dump_state, load_project, load_states, state_key
from wheelsmith.index.publish.release import (
    UploadReader,
    WheelUpload,
    built_wheels,
    unserved_of_run,
    variant_wheels,
)
from wheelsmith.index.storage.compare_and_swap import replace_file
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.protocol import Storage, read_pieces
from wheelsmith.model import BuildResult, Status
from wheelsmith.plan.planned_run import PlannedRun
from wheelsmith.store import Store


def publish_run(
    kernels: Iterable[tuple[PlannedRun, Sequence[BuildResult]]],
    *,
    out: Path,
    store: Store,
    work: Path,
    prune: bool = False,
) -> tuple[str, ...]:
    """Write the index of a run, and link its wheels into ``wheels/``. Return the names of wheels of an older source.

    If the results are the same as in the last run and the files have not changed, nothing is written. A kernel without
    a project name or version is not in the index.

    :param kernels: each kernel of the run with its results.
    :param out: the run's output folder.
    :param work: a folder for temporary files.
    :param prune: remove the wheels of an older source.
    :raises PackageIndexError: the index cannot be written.
    """
    named = [(run, results) for run, results in kernels if run.distribution and run.version]
    if not named:
        return ()
    index = Folder(out / "index")
    markers = sorted((out / "index" / RUNS).glob("*.json"))
    digest = canonical_digest([_inputs(run, results, prune=prune) for run, results in named])
    marker = out / "index" / RUNS / f"{digest}.json"
    if markers != [marker] or marker.read_bytes() != _file_stats(out):
        for run, results in named:
            _publish_kernel(run, results, index, out, store, work, prune=prune)
        _set_marker(markers, marker, out)
    return tuple(name for run, _ in named for name in _older_wheels(index, check_project(str(run.distribution))))


def _publish_kernel(
    run: PlannedRun,
    results: Sequence[BuildResult],
    index: Folder,
    out: Path,
    store: Store,
    work: Path,
    *,
    prune: bool,
) -> None:
    project = check_project(str(run.distribution))
    with UploadReader() as reader:
        plain = built_wheels(run.plans, results, store, reader)
        uploads = (*plain, *(variant_wheels(plain, store, work, reader) if run.variants else ()))
        change = _change(run, Version(str(run.version)), results, uploads, prune=prune)
        files = _WheelFiles(out / "index", uploads, reader)
        index.transaction(lambda storage: _write(storage, project, change, files, out / "wheels"))
    for upload in plain:
        _link(out / "index" / upload.entry.path, out / "wheels" / upload.entry.filename)


def _set_marker(markers: Sequence[Path], marker: Path, out: Path) -> None:
    """Record that the index has the results of this run.

    :param markers: the records of earlier runs.
    """
    # Several notes mean that the outputs of several runs were merged. They stay, so that ``publish`` refuses the index.
    if len(markers) == 1:
        markers[0].unlink()
    atomic_write(marker, _file_stats(out))


def _older_wheels(index: Storage, project: str) -> tuple[str, ...]:
    entries = load_project(index, project)[0].entries
    return tuple(entry.filename for entry in entries if entry.older and entry.variant is None)


def _change(
    run: PlannedRun, version: Version, results: Sequence[BuildResult], uploads: Sequence[WheelUpload], *, prune: bool
) -> Transition:
    """Return the transition of the project's state."""
    now = show_moment(time.time())
    added = [replace(upload.entry, upload_time=now) for upload in uploads]
    hashes = {entry.filename: entry.sha256 for entry in added}
    answers = unserved_of_run(str(version), results, run.excluded)
    finished = (each for each in results if each.status is not Status.CANCELLED)
    digests = {item.cell.id: "" for item in run.excluded} | {each.cell.id: each.plan_digest for each in finished}

    def change(before: ProjectState) -> ProjectState:
        kept = keep_valid(before, run, digests, hashes)
        kept = replace(kept, entries=kept.current) if prune else kept
        planned = _planned([*kept.entries, *added], [*kept.answers, *answers], run, version)
        return add_entries(kept, added, answers, [planned])

    return change


class _WheelFiles:
    """Writes missing files of wheels.

    :param index: the folder of the index.
    :param uploads: the wheels of the run.
    """

    def __init__(self, index: Path, uploads: Sequence[WheelUpload], reader: UploadReader) -> None:
        self._index, self._reader = index, reader
        self._uploads = {upload.entry.path: upload for upload in uploads}

    def write(self, storage: Storage, entry: IndexEntry) -> IndexEntry | None:
        """Write missing files of an entry. Return the entry without lost side files, or None if the wheel is lost."""
        place, upload = self._index / entry.path, self._uploads.get(entry.path)
        if storage.stat(entry.path) is None or sha256_file(place) != entry.sha256:
            if upload is None:
                return None
            storage.put(entry.path, upload.wheel)
        lost = []
        for side in entry.announced:
            stored = storage.read(side.path)
            if stored and side.matches(stored.data):
                continue
            if side.kind.suffix == CORE_METADATA:
                upload = upload or self._reader.upload(place)
                storage.put(side.path, upload.side_files[CORE_METADATA])
            else:
                lost.append(side.kind.suffix)
        return entry.with_files(dict.fromkeys(lost))


def _write(storage: Storage, project: str, change: Transition, files: _WheelFiles, links: Path) -> None:
    """Write files, then the state, then pages. Then remove files and pages without a reference.

    :param links: the folder ``wheels/``, in which plain wheels have a second link.
    """
    from wheelsmith.index.publish.verify import expected_files, is_page

    before, stored = load_project(storage, project)
    state = change(before)
    present = (files.write(storage, entry) for entry in state.entries)
    state = replace(state, entries=tuple(entry for entry in present if entry))
    replace_file(storage, state_key(project), stored, dump_state(state))
    states = load_states(storage)
    expected = expected_files(storage, states)
    for key, data in sorted(expected.items()):
        replace_file(storage, key, storage.read(key), data)
    used = {path for each in states.values() for entry in each.entries for path in entry.paths}
    used |= {item.path for each in states.values() for item in each.removed} | expected.keys()
    for item in list(storage.listing("")):
        is_file = item.key.startswith("files/")
        if item.key not in used and (is_file or is_page(item.key)):
            if is_file:
                # Remove the link first. If the run is killed here, the next run still finds the file and tries again.
                (links / item.key.rpartition("/")[2]).unlink(missing_ok=True)
            storage.delete(item.key)


def keep_valid(
    state: ProjectState, run: PlannedRun, digests: Mapping[str, str], hashes: Mapping[str, str]
) -> ProjectState:
    """Return the parts of the earlier state that this run does not replace. Wheels of an older source are marked.

    :param digests: id of each finished cell of the run → digest of its plan; empty for an excluded cell.
    :param hashes: file name → sha256 of each wheel of the run.
    """
    planned = {plan.cell.id: plan.build_digest for plan in run.plans}

    def valid(entry: IndexEntry) -> IndexEntry | None:
        """Return a wheel with only the cells that the run did not build differently or exclude; None if none remain."""
        made = entry.provenance
        if made is None or entry.public != Version(str(run.version)):
            return entry
        cells = (cell for cell in entry.cells if cell.id in run.cells)
        kept = tuple(cell for cell in cells if digests.get(cell.id, made.plan_digest) == made.plan_digest)
        older = made.source.tree not in run.trees and (run.commit is None or made.source.commit != run.commit)
        older = older or any(planned.get(cell.id, made.plan_digest) != made.plan_digest for cell in kept)
        return replace(entry, cells=kept, older=older) if kept else None

    same_bytes = [entry for entry in state.entries if hashes.get(entry.filename, entry.sha256) == entry.sha256]
    return replace(
        state,
        entries=tuple(filter(None, map(valid, same_bytes))),
        answers=tuple(each for each in state.answers if each.cell.id in run.cells and each.cell.id not in digests),
        removed=tuple(item for item in state.removed if hashes.get(item.filename, item.sha256) == item.sha256),
        planned=tuple(item for item in state.planned if Version(item.version) != Version(str(run.version))),
    )


def _planned(
    entries: Iterable[IndexEntry], answers: Iterable[CellWithoutWheel], run: PlannedRun, version: Version
) -> PlannedVersion:
    """Return the planned cells of the matrix, and those that this or an earlier run excluded or tried to build."""
    status = {answer.cell.id: answer.status for answer in answers if Version(answer.version) == version}
    tried = {cell.id for entry in select_version(entries, str(version)) for cell in entry.cells}
    tried |= {name for name, found in status.items() if found is NoWheel.FAILED}
    excluded = {name for name, found in status.items() if found is NoWheel.EXCLUDED}
    return PlannedVersion(
        version=str(version),
        cells=tuple(sorted(run.offered)),
        excluded=tuple(sorted(excluded.intersection(run.offered))),
        tried=tuple(sorted(tried.intersection(run.offered))),
    )


def _link(file: Path, name: Path) -> None:
    """Link a wheel of the index to a second path, or copy it if links are not possible."""
    named = name.is_file() and not name.is_symlink() and name.samefile(file)
    if not named and not atomic_link(file, name):
        # The key contains the hash, which pieces_of verifies.
        atomic_write_chunks(read_pieces(file, "/".join(file.parts[-4:])), name.parent, partial(Path, name))


def _inputs(run: PlannedRun, results: Sequence[BuildResult], *, prune: bool) -> list[object]:
    """Return all inputs of the index as plain data."""
    outcomes = [
        [each.plan_digest, *(part and part.to_json() for part in (each.cell, each.wheel, each.failure))]
        for each in results
    ]
    source = [run.distribution, run.version, run.trees, run.commit, run.cells, run.offered, prune]
    return [__version__, run.variants, source, outcomes, [item.to_json() for item in run.excluded]]


def _file_stats(out: Path) -> bytes:
    """Return the size and the modification time of every file in ``index/`` and ``wheels/``, as JSON."""
    found = {
        item.key: (item.size, item.modified)
        for prefix in ("index/", "wheels/")
        for item in Folder(out).listing(prefix)
        if item.key != "index/_state/.lock" and not item.key.startswith(f"index/{RUNS}/")
    }
    return json.dumps(found, sort_keys=True).encode()
