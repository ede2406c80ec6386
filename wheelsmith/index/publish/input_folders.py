"""Read releases from folders: indexes as runs leave them, and loose wheels. Other people may have written them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from wheelsmith.base.errors import PackageIndexError, WheelError
from wheelsmith.base.files import sha256_file
from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, PlannedVersion, ProjectState
from wheelsmith.index.entries.side_files import LARGEST
from wheelsmith.index.entries.stored_states import RUNS, load_states, project_in
from wheelsmith.index.publish.external_wheels import foreign_wheels
from wheelsmith.index.publish.release import IndexRelease, UploadReader, WheelUpload
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.protocol import Storage

_APART = (
    "keep each run's output apart, and publish them together: --from A --from B; or, after a run that was killed, "
    "build again"
)
_SEVERAL = 5


def release_from(folders: Sequence[Path]) -> IndexRelease:
    """Return all that lies in some folders: indexes as runs leave them, or wheels that anything made.

    :raises PackageIndexError: there is nothing, or what is there is not whole.
    :raises WheelError: a wheel beside no index cannot be read.
    """
    releases = [release_of(folder) for folder in folders]
    answers: dict[str, list[CellWithoutWheel]] = {}
    planned: dict[str, list[PlannedVersion]] = {}
    for release in releases:
        for project, given in release.answers.items():
            answers.setdefault(project, []).extend(given)
        for project, versions in release.planned.items():
            planned.setdefault(project, []).extend(versions)
    offers = tuple(offer for release in releases for offer in release.offers)
    return IndexRelease(offers=offers, answers=answers, planned=planned)


def loose_wheels(folder: Path) -> tuple[Path, ...]:
    """Return the wheels in a folder that is no index; none if it is one, or has one in it at any depth."""
    if _indexes(folder):
        return ()
    return tuple(path for path in _below(folder, "*.whl") if path.is_file())


def has_index(folder: Path) -> bool:
    """Return True if a folder is an index, or a run's output with one in it."""
    return _is_index(folder) or _is_index(folder / "index")


def release_of(folder: Path) -> IndexRelease:
    """Return all that lies in a folder: an index, a run's output with one in it, or wheels.

    :raises PackageIndexError: there is nothing, or the index is not whole.
    :raises WheelError: a wheel beside no index cannot be read.
    """
    index = folder if _is_index(folder) else folder / "index"
    if _is_index(index):
        return _release_of_index(index, folder)
    if below := _indexes(folder):
        named = " ".join(f"--from {shlex.quote(str(path))}" for path in below[:_SEVERAL])
        raise PackageIndexError(f"{folder} is no index, and has {len(below)} in it", remedy=f"name them: {named}")
    wheels = loose_wheels(folder)
    if not wheels:
        raise PackageIndexError(
            f"there is no index in {folder}, and no wheel", remedy="build one: wheelsmith build-matrix"
        )
    _refuse_two_of_a_name(wheels)
    return IndexRelease(offers=foreign_wheels(wheels))


def _release_of_index(index: Path, folder: Path) -> IndexRelease:
    """Return the content of an index. Every wheel is read, and compared with its state.

    :param folder: where no wheel may lie that the index does not list.
    """
    storage = Folder(index)
    states = load_states(storage)
    runs = list((index / RUNS).glob("*.json"))
    if len(runs) > 1:
        raise PackageIndexError(
            f"{index} is the indexes of {len(runs)} runs laid over one another, and only the last one's state is left",
            remedy=_APART,
        )
    _refuse_unlisted(states.values(), index, folder)
    entries = [entry for state in states.values() for entry in state.entries]
    with UploadReader() as reader:
        offers = tuple(_offer(storage, index, entry, reader) for entry in entries)
    return IndexRelease(
        offers=offers,
        answers={name: state.answers for name, state in states.items() if state.answers},
        planned={name: state.planned for name, state in states.items() if state.planned},
    )


def _offer(storage: Folder, folder: Path, entry: IndexEntry, reader: UploadReader) -> WheelUpload:
    """Return a wheel that an index lists.

    :raises PackageIndexError: it is not there, or is not what its state says.
    """
    remedy = f"see what else is wrong, and what fixes it: wheelsmith index verify {folder}"
    # Not through a link, which could lead to any file.
    for key in entry.paths:
        if storage.stat(key) is None:
            raise PackageIndexError(f"{key} is listed in {folder} and not there", remedy=remedy)
    return listed_wheel(storage, folder / entry.path, entry, reader, remedy)


def listed_wheel(storage: Storage, path: Path, entry: IndexEntry, reader: UploadReader, remedy: str) -> WheelUpload:
    """Return a wheel of an index, to be added to another one; what the wheel can tell is read from it.

    :param path: where the wheel lies, or a copy of it.
    :param remedy: what to do if it is not as its entry says.
    :raises PackageIndexError: it is not.
    """
    folder = storage.name
    try:
        upload = reader.upload(path)
    except WheelError as error:
        raise PackageIndexError(f"{entry.filename} in {folder} cannot be published: {error}", remedy=remedy) from None
    if upload.entry.sha256 != entry.sha256:
        raise PackageIndexError(
            f"{entry.filename} in {folder} is not the file that was built: its sha256 is {upload.entry.sha256}, "
            f"and its state says {entry.sha256}",
            remedy=remedy,
        )
    beside = {}
    for side in replace(entry, metadata_sha256=upload.entry.metadata_sha256).announced:
        stored = storage.read(side.path)
        if stored is None or len(stored.data) > LARGEST or not side.matches(stored.data):
            raise PackageIndexError(f"{side.filename} in {folder} is not the file that was published", remedy=remedy)
        beside[side.kind.suffix] = stored.data
    own = replace(
        upload.entry,
        cells=entry.cells,
        gpu_archs=entry.gpu_archs,
        provenance=entry.provenance,
        variant_of=entry.variant_of,
        yanked=entry.yanked,
        tests=entry.tests,
    )
    return replace(upload, entry=own).with_files(beside)


def _refuse_unlisted(states: Collection[ProjectState], index: Path, folder: Path) -> None:
    # Until it is collected, the file of a wheel that was removed lies there too.
    known = {entry.path: entry.sha256 for state in states for entry in state.entries}
    known |= {removed.path: removed.sha256 for state in states for removed in state.removed}
    listed, hashes = {index / path for path in known}, set(known.values())
    lost = [
        path
        for path in _below(folder, "*.whl")
        # Elsewhere lie copies of what is listed.
        if path not in listed
        and (path.is_relative_to(index / "files") or not path.is_file() or sha256_file(path) not in hashes)
    ]
    if lost:
        raise PackageIndexError(
            f"{index} does not list {len(lost)} of the wheels that lie in {folder}, such as {lost[0].name}",
            remedy=_APART,
        )


def _refuse_two_of_a_name(wheels: Sequence[Path]) -> None:
    known: dict[str, Path] = {}
    for path in wheels:
        other = known.setdefault(path.name, path)
        if other != path and sha256_file(other) != sha256_file(path):
            raise PackageIndexError(
                f"{path.name} is there twice with other bytes: {other} and {path}",
                remedy="remove the one that is wrong",
            )


def _indexes(folder: Path) -> list[Path]:
    """Return the indexes that lie in a folder at any depth, itself among them."""
    return sorted(path.parent for path in _below(folder, "_state") if _is_index(path.parent))


def _is_index(folder: Path) -> bool:
    return any(project_in(f"_state/{path.name}") for path in (folder / "_state").glob("*.json"))


def _below(folder: Path, pattern: str) -> list[Path]:
    """Return what lies in a folder at any depth, without links."""
    return sorted(path for path in folder.rglob(pattern) if not path.is_symlink())
