"""Write the index of a run, ``dist/index``: the run's wheels, and those of earlier runs that it does not replace."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from packaging.version import Version

from wheelsmith import __version__
from wheelsmith.base.files import atomic_link, atomic_write, atomic_write_chunks, sha256_file
from wheelsmith.base.json_dataclass import canonical_digest, parse_json
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
    matrix: str,
    store: Store,
    work: Path,
    prune: bool = False,
) -> tuple[str, ...]:
    """Write the index of a run, and link its wheels into ``wheels/``. Return the names of wheels of an older source.

    If the results are the same as in the last run and the files have not changed, nothing is written. A kernel without
    a project name or version is not in the index. The wheels of other matrices with this output folder stay.

    :param kernels: each kernel of the run with its results.
    :param out: the run's output folder.
    :param matrix: the path of the matrix file relative to ``out``; any other text for a run without a file.
    :param work: a folder for temporary files.
    :param prune: remove the wheels of an older source.
    :raises PackageIndexError: the index cannot be written.
    """
    named = [(run, results) for run, results in kernels if run.distribution and run.version]
    if not named:
        return ()
    index = Folder(out / "index")
    markers = sorted((out / "index" / RUNS).glob("*.json"))
    digest = canonical_digest([matrix, *(_inputs(run, results, prune=prune) for run, results in named)])
    marker = out / "index" / RUNS / f"{digest}.json"
    planned = _read_planned_cells(markers)
    if markers != [marker] or marker.read_bytes() != _marker(out, planned):
        for run, results in named:
            others = {cell for name, cells in planned.items() if name != matrix for cell in cells.get(_name(run), ())}
            _publish_kernel(run, results, index, out, store, work, others=others, prune=prune)
        planned[matrix] = planned.get(matrix, {}) | {_name(run): list(run.cells) for run, _ in named}
        _set_marker(markers, marker, _marker(out, planned))
    return tuple(name for run, _ in named for name in _older_wheels(index, _name(run)))


def _name(run: PlannedRun) -> str:
    return check_project(str(run.distribution))


def _publish_kernel(
    run: PlannedRun,
    results: Sequence[BuildResult],
    index: Folder,
    out: Path,
    store: Store,
    work: Path,
    *,
    others: Collection[str],
    prune: bool,
) -> None:
    project = _name(run)
    with UploadReader() as reader:
        plain = built_wheels(run.plans, results, store, reader)
        uploads = (*plain, *(variant_wheels(plain, store, work, reader) if run.variants else ()))
        change = _change(run, Version(str(run.version)), results, uploads, others=others, prune=prune)
        files = _WheelFiles(out / "index", uploads, reader)
        index.transaction(lambda storage: _write(storage, project, change, files, out / "wheels"))
    for upload in plain:
        _link(out / "index" / upload.entry.path, out / "wheels" / upload.entry.filename)


def _read_planned_cells(markers: Sequence[Path]) -> dict[str, dict[str, list[str]]]:
    """Return the cells of the matrices that wrote an index: path of the matrix → project → IDs of its cells."""
    if len(markers) != 1:
        return {}
    with suppress(ValueError, OSError):
        return dict(parse_json(markers[0].read_bytes()).get("matrices", {}))  # old records have none
    return {}


def _set_marker(markers: Sequence[Path], marker: Path, content: bytes) -> None:
    """Record that the index has the results of this run.

    :param markers: the records of earlier runs.
    """
    # Several notes mean that the outputs of several runs were merged. They stay, so that ``publish`` refuses the index.
    if len(markers) == 1:
        markers[0].unlink()
    atomic_write(marker, content)


def _older_wheels(index: Storage, project: str) -> tuple[str, ...]:
    entries = load_project(index, project)[0].entries
    return tuple(entry.filename for entry in entries if entry.older and entry.variant is None)


def _change(
    run: PlannedRun,
    version: Version,
    results: Sequence[BuildResult],
    uploads: Sequence[WheelUpload],
    *,
    others: Collection[str],
    prune: bool,
) -> Transition:
    """Return the transition of the project's state.

    :param others: IDs of the cells of other matrices with the same output folder.
    """
    now = show_moment(time.time())
    added = [replace(upload.entry, upload_time=now) for upload in uploads]
    hashes = {entry.filename: entry.sha256 for entry in added}
    answers = unserved_of_run(str(version), results, run.excluded)
    finished = (each for each in results if each.status is not Status.CANCELLED)
    digests = {item.cell.id: "" for item in run.excluded if not item.waits}
    digests |= {each.cell.id: each.plan_digest for each in finished}

    def change(before: ProjectState) -> ProjectState:
        kept = keep_valid(before, run, digests, hashes, others)
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
    state: ProjectState,
    run: PlannedRun,
    digests: Mapping[str, str],
    hashes: Mapping[str, str],
    others: Collection[str] = (),
) -> ProjectState:
    """Return the parts of the earlier state that this run does not replace. Wheels of an older source are marked.

    Wheels for cells of other matrices alone stay as they are.

    :param digests: id of each finished cell of the run → digest of its plan; empty for an excluded cell.
    :param hashes: file name → sha256 of each wheel of the run.
    :param others: IDs of the cells of other matrices with the same output folder.
    """
    there = {*run.cells, *others}
    planned = {plan.cell.id: plan.build_digest for plan in run.plans}

    def valid(entry: IndexEntry) -> IndexEntry | None:
        """Return a wheel with only the cells that the run did not build differently or exclude; None if none remain."""
        made = entry.provenance
        if made is None or entry.public != Version(str(run.version)):
            return entry
        cells = (cell for cell in entry.cells if cell.id in there)
        kept = tuple(cell for cell in cells if digests.get(cell.id, made.plan_digest) == made.plan_digest)
        older = made.source.tree not in run.trees and (run.commit is None or made.source.commit != run.commit)
        older = older or any(planned.get(cell.id, made.plan_digest) != made.plan_digest for cell in kept)
        older = older if any(cell.id in run.cells for cell in kept) else entry.older
        return replace(entry, cells=kept, older=older) if kept else None

    same_bytes = [entry for entry in state.entries if hashes.get(entry.filename, entry.sha256) == entry.sha256]
    return replace(
        state,
        entries=tuple(filter(None, map(valid, same_bytes))),
        answers=tuple(each for each in state.answers if each.cell.id in there and each.cell.id not in digests),
        removed=tuple(item for item in state.removed if hashes.get(item.filename, item.sha256) == item.sha256),
        planned=tuple(_of_others(item, others, str(run.version)) for item in state.planned),
    )


def _of_others(planned: PlannedVersion, others: Collection[str], version: str) -> PlannedVersion:
    """Return the planned cells without those of this run's matrix, if it is this run's version."""
    if Version(planned.version) != Version(version):
        return planned
    cells, excluded, tried = (
        tuple(cell for cell in cells if cell in others) for cells in (planned.cells, planned.excluded, planned.tried)
    )
    return replace(planned, cells=cells, excluded=excluded, tried=tried)


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


def _marker(out: Path, planned: Mapping[str, Mapping[str, Sequence[str]]]) -> bytes:
    """Return the content of a run's record: the size and time of every file, and the cells of the matrices."""
    found = {
        item.key: (item.size, item.modified)
        for prefix in ("index/", "wheels/")
        for item in Folder(out).listing(prefix)
        if item.key != "index/_state/.lock" and not item.key.startswith(f"index/{RUNS}/")
    }
    return json.dumps({"files": found, "matrices": planned}, sort_keys=True).encode()
