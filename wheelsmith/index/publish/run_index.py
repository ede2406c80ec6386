"""A run's own index: it follows the source until it is published, and it is whole when the run ends."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.version import Version

from wheelsmith import __version__
from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.files import atomic_link, atomic_pour, atomic_write, sha256_file
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.base.units import counted, show_moment
from wheelsmith.index.entries import IndexEntry, PlannedVersion, ProjectState, check_project, project_of
from wheelsmith.index.entries.side_files.known import announced, made_files, paths
from wheelsmith.index.entries.state import public_of
from wheelsmith.index.publish.input_folders import RUNS
from wheelsmith.index.publish.release import IndexRelease, built_wheels, unserved_cells, variant_wheels
from wheelsmith.index.publish.unpublished import set_unpublished, unpublished
from wheelsmith.index.publish.verify import TEMPORARY, unasked_pages
from wheelsmith.index.publish.writer import Index, ReleaseWords, WheelUpload
from wheelsmith.index.storage import Folder, Storage
from wheelsmith.index.storage.protocol import pieces_of
from wheelsmith.model import BuildResult, SourceId, Status
from wheelsmith.plan.planned_run import PlannedRun
from wheelsmith.store import Store

_DEPTH = 3  # slashes in files/<ab>/<sha256>/<wheel>

# Path → size, times, place on the disk: what changes with every change of a file, and cannot be put back.
Seen = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSources:
    """What the wheels of a run may be made from, whether it made them or not.

    :param trees: digests of their files.
    :param commit: of a repo, all of whose files are theirs; None for a folder.
    """

    trees: frozenset[str]
    commit: str | None = None

    def include(self, source: SourceId) -> bool:
        """Say whether a source is one of them."""
        return source.tree in self.trees or (self.commit is not None and source.commit == self.commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseState:
    """What a run says of the wheels of its version.

    :param project: the normalized name.
    :param version: of the kernel, without a local part.
    :param sources: what its wheels may be made from.
    :param cells: id of each cell that the matrix has, answered by this run or not.
    :param offered: those of them that are to have a wheel which everybody may see.
    :param digests: id of each cell that the run answered → what builds it; None for one that is left out.
    :param hashes: file name → sha256 of each wheel.
    """

    project: str
    version: Version
    sources: RunSources
    cells: frozenset[str]
    offered: frozenset[str]
    digests: Mapping[str, str | None]
    hashes: Mapping[str, str]


def publish_run(run: PlannedRun, results: Sequence[BuildResult], *, out: Path, store: Store, work: Path) -> None:
    """Put every wheel of a run into its own index at once, and name the plain ones beside it for who wants files.

    A run whose project has no name or no version has no index.

    :param out: the run's output folder.
    :param work: a folder for this.
    :raises PackageIndexError: a wheel is in the index with other bytes and was published, or the index has lost wheels.
    """
    if not (run.distribution and run.version):
        return
    digest, seen, notes = _digest(run, results), _seen(out), _notes(out)
    note = out / "index" / RUNS / f"{digest}.json"
    before = _read_note(notes[0]) if len(notes) == 1 else {}
    if notes == [note] and before == seen:
        return
    # A run that is killed from here on has told a part, whatever the one before it had told. Several notes are of runs
    # that were laid over one another: they stay, so that nobody publishes what is left of them.
    if len(notes) == 1:
        notes[0].unlink()
    offers = built_wheels(run.plans, results, store)
    beside = variant_wheels(offers, store, work) if run.variants else ()
    version = Version(run.version)
    answers, planned = unserved_cells(str(version), results, run.excluded), _planned(run, results, version)
    said = ReleaseWords(answers={run.distribution: answers}, planned={run.distribution: (planned,)})
    release = IndexRelease(offers=(*offers, *beside), said=said)
    made = ReleaseState(
        project=check_project(run.distribution),
        version=version,
        sources=RunSources(trees=frozenset(run.trees), commit=run.commit),
        cells=frozenset(run.cells),
        offered=frozenset(run.offered),
        digests={i.cell.id: None for i in run.excluded} | {r.cell.id: r.plan_digest for r in results},
        hashes={offer.entry.filename: offer.entry.sha256 for offer in release.offers},
    )
    Folder(out / "index").transaction(lambda held: _tell(held, release, made, out / "wheels"))
    known = {key for key, found in seen.items() if before.get(key) == found}
    _make_whole(out / "index", release.offers, store, known)
    _name(offers, out)
    atomic_write(note, json.dumps(_seen(out)).encode())


def follow_source(state: ProjectState, changing: frozenset[str], made: ReleaseState) -> ProjectState:
    """Take from a state what an earlier run put there under this version and this run says otherwise.

    :param changing: sha256 of each wheel that was never published; all others stay as they are.
    """
    entries = (_followed(entry, made) if entry.sha256 in changing else entry for entry in state.entries)
    answers = (answer for answer in state.answers if answer.cell.id in made.cells)
    planned = tuple(_still_planned(item, made) for item in state.planned)
    return replace(state, entries=tuple(entry for entry in entries if entry), answers=tuple(answers), planned=planned)


def _still_planned(planned: PlannedVersion, made: ReleaseState) -> PlannedVersion:
    if Version(planned.version) != made.version:
        return planned
    cells = tuple(cell for cell in planned.cells if cell in made.offered)
    # What this run says of a cell takes the place of what an earlier one said.
    excluded, tried = (
        tuple(cell for cell in given if cell in made.offered and cell not in made.digests)
        for given in (planned.excluded, planned.tried)
    )
    return replace(planned, cells=cells, excluded=excluded, tried=tried)


def _followed(entry: IndexEntry, made: ReleaseState) -> IndexEntry | None:
    """Return what is left of a wheel; None for nothing."""
    if public_of(entry) != made.version or entry.provenance is None:
        return entry
    is_its_own = made.sources.include(entry.provenance.source)
    if made.hashes.get(entry.filename, entry.sha256) != entry.sha256 or not is_its_own:
        return None
    digest = entry.provenance.plan_digest
    asked = (cell for cell in entry.cells if cell.id in made.cells)
    cells = tuple(cell for cell in asked if made.digests.get(cell.id, digest) == digest)
    return replace(entry, cells=cells) if cells else None


def _planned(run: PlannedRun, results: Sequence[BuildResult], version: Version) -> PlannedVersion:
    offered = set(run.offered)
    left_out = {item.cell.id for item in run.excluded} & offered
    tried = {result.cell.id for result in results if result.status is not Status.CANCELLED} & offered
    return PlannedVersion(
        version=str(version),
        cells=tuple(sorted(offered)),
        excluded=tuple(sorted(left_out)),
        tried=tuple(sorted(tried)),
    )


def _tell(storage: Storage, release: IndexRelease, made: ReleaseState, names: Path) -> None:
    """Put a release into the index in the place of what this source was before.

    :param names: the folder in which wheels of the index have a second name.
    """
    index, changing = Index(storage), unpublished(storage)
    before = index.entries(made.project)
    published = {entry.sha256 for entry in before} - changing
    # Before the wheels are there: a run that is killed must not leave wheels behind that pass for published.
    changing |= {offer.entry.sha256 for offer in release.offers} - published
    set_unpublished(storage, changing)
    now = show_moment(time.time())
    follow = partial(follow_source, changing=changing, made=made)
    index.add(release.offers, upload_time=now, said=release.said, revise={made.project: follow})
    entries = [entry for state in index.states().values() for entry in state.entries]
    _drop(storage, changing, [entry for entry in before if entry.sha256 in changing], _paths(entries), names)
    set_unpublished(storage, changing & {entry.sha256 for entry in entries})


def _drop(
    storage: Storage, changing: frozenset[str], before: Iterable[IndexEntry], used: set[str], names: Path
) -> None:
    """Remove the wheels that nothing refers to any more, and that nobody can have met.

    :param before: those of them that the index had; what else lies there a killed run left.
    """
    beside = _paths(before)
    for item in list(storage.listing("files/")):
        key = item.key
        if key not in used and (key in beside or (key.count("/") == _DEPTH and key.split("/")[2] in changing)):
            # While its file is there, the run after one that was killed finds the name too.
            (names / key.rpartition("/")[2]).unlink(missing_ok=True)
            storage.delete(key)


def _paths(entries: Iterable[IndexEntry]) -> set[str]:
    return {path for entry in entries for path in paths(entry)}


def _make_whole(folder: Path, offers: Sequence[WheelUpload], store: Store, known: set[str]) -> None:
    """See that every wheel that the index lists is there with its bytes, and every page.

    :param known: files that are as an earlier run left them.
    :raises PackageIndexError: wheels of earlier runs are gone, and the store does not have them either.
    """
    storage = Folder(folder)
    ours = {offer.entry.path: offer.wheel for offer in offers}
    lost: dict[str, str] = {}  # file → the wheel that it belongs to
    for entry in (entry for state in Index(storage).states().values() for entry in state.entries):
        if {f"index/{path}" for path in paths(entry)} <= known or _is_there(storage, folder, entry):
            continue
        if copy := ours.get(entry.path) or store.find_file(entry.sha256, entry.filename):
            lost |= dict.fromkeys(_bring_back(storage, entry, copy), entry.filename)
        else:
            lost[entry.filename] = entry.filename
    if lost:
        file, wheel = next(iter(lost.items()))
        drop = f"wheelsmith index remove {folder} {project_of(wheel)} {wheel}"
        raise PackageIndexError(
            f"the index in {folder} has lost {counted(len(lost), 'file')} of earlier runs, such as {file}",
            remedy=f"wheelsmith index repair {folder} --from FOLDER; where nobody has it any more: {drop}",
        )
    for key in unasked_pages(storage):
        storage.delete(key)
    Index(storage).repair()


def _is_there(storage: Folder, folder: Path, entry: IndexEntry) -> bool:
    if storage.stat(entry.path) is None or sha256_file(folder / entry.path) != entry.sha256:
        return False
    beside = ((side, storage.read(side.path)) for side in announced(entry))
    return all(stored is not None and stored.tag == side.sha256 for side, stored in beside)


def _bring_back(storage: Storage, entry: IndexEntry, copy: Path) -> Iterator[str]:
    """Write a wheel again and what it gives; yield the names of what it does not give, and is gone."""
    made = made_files(copy, entry.filename)
    storage.put(entry.path, copy)
    for side in announced(entry):
        stored = storage.read(side.path)
        if (data := made.get(side.kind.suffix)) is not None:
            storage.put(side.path, data)
        elif stored is None or not side.is_right(stored.data):
            yield side.filename


def _name(offers: Sequence[WheelUpload], out: Path) -> None:
    """Link the wheels of a run into one folder; they take their room on the disk once."""
    for offer in offers:
        file, name = out / "index" / offer.entry.path, out / "wheels" / offer.entry.filename
        named = name.is_file() and not name.is_symlink() and name.samefile(file)
        if not named and not atomic_link(file, name):
            # The key is the hash that the copy must have.
            atomic_pour(pieces_of(file, offer.entry.path), name.parent, partial(Path, name))


def _digest(run: PlannedRun, results: Sequence[BuildResult]) -> str:
    """Return the digest of all that a run tells its index, so that a run with nothing new need not tell it again."""
    cells = [
        (
            result.cell.to_json(),
            result.plan_digest,
            result.wheel.to_json() if result.wheel else None,
            result.failure.to_json() if result.failure else None,
        )
        for result in results
    ]
    source = [run.distribution, run.version, run.trees, run.commit, run.cells, run.offered]
    return canonical_digest([__version__, run.variants, source, cells, [item.to_json() for item in run.excluded]])


def _seen(out: Path) -> Seen:
    """Return how every file of the index and of the wheels beside it is now, without reading any."""
    return {
        key: (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
        for root in ("index", "wheels")
        for key, found in _walk(out, root)
    }


def _walk(out: Path, root: str) -> Iterator[tuple[str, os.stat_result]]:
    for folder, below, names in os.walk(out / root):
        for name in (*below, *names):
            path = Path(folder, name)
            key = path.relative_to(out).as_posix()
            if key == "index/_state/.lock" or key.startswith(f"index/{RUNS}/") or TEMPORARY.fullmatch(name):
                continue
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode):
                yield key, found


def _notes(out: Path) -> list[Path]:
    return sorted((out / "index" / RUNS).glob("*.json"))


def _read_note(note: Path) -> Seen:
    try:
        return {key: tuple(value) for key, value in json.loads(note.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
