"""What lies in folders, read as somebody else's word: indexes to publish from, and wheels."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from wheelsmith.base.errors import PackageIndexError, WheelError
from wheelsmith.base.files import sha256_file
from wheelsmith.index.entries import CellWithoutWheel, IndexEntry, PlannedVersion, ProjectState
from wheelsmith.index.entries.side_files.known import LARGEST, announced, paths
from wheelsmith.index.entries.stored_states import project_in
from wheelsmith.index.publish.external_wheels import check_names, foreign_wheel
from wheelsmith.index.publish.release import IndexRelease, offer_of, with_beside
from wheelsmith.index.publish.unpublished import mark_published
from wheelsmith.index.publish.writer import Index, ReleaseWords, WheelUpload
from wheelsmith.index.storage import Folder, Storage
from wheelsmith.wheel import wheel_file
from wheelsmith.wheel.attestation.bundle import SUFFIX, read_bundle
from wheelsmith.wheel.attestation.pep740 import SUFFIX as PROVENANCE
from wheelsmith.wheel.attestation.pep740 import is_of

# Each run leaves one file here in its own index, named by what it told. It is not hidden: what carries folders between
# the jobs of a CI system may leave hidden files behind.
RUNS = "_state/runs"
_APART = (
    "keep each run's output apart, and publish them together: --from A --from B; or, after a run that was killed, "
    "build again"
)
_SIGN = "sign the wheels again where they were built, wheelsmith sign; or remove the file"
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
        for project, given in release.said.answers.items():
            answers.setdefault(project, []).extend(given)
        for project, versions in release.said.planned.items():
            planned.setdefault(project, []).extend(versions)
    offers = tuple(offer for release in releases for offer in release.offers)
    return IndexRelease(offers=offers, said=ReleaseWords(answers=answers, planned=planned))


def loose_wheels(folder: Path) -> tuple[Path, ...]:
    """Return the wheels in a folder that is no index; none where it is one, or has one in it at any depth."""
    if _indexes(folder):
        return ()
    return tuple(path for path in _below(folder, "*.whl") if path.is_file())


def has_index(folder: Path) -> bool:
    """Say whether a folder is an index, or a run's output with one in it."""
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
    return IndexRelease(offers=tuple(foreign_wheel(path) for path in wheels))


def _release_of_index(index: Path, folder: Path) -> IndexRelease:
    """Return what an index holds. Every wheel is read: what the state says of it must be so.

    :param folder: where nothing may lie that the index does not list.
    """
    storage = Folder(index)
    states = Index(storage).states()
    _refuse_mixed_runs(index)
    _refuse_unlisted(states.values(), index, folder)
    offers = tuple(_held(storage, index, entry) for state in states.values() for entry in state.entries)
    answers = {name: state.answers for name, state in states.items() if state.answers}
    planned = {name: state.planned for name, state in states.items() if state.planned}
    return IndexRelease(offers=offers, said=ReleaseWords(answers=answers, planned=planned))


def _refuse_mixed_runs(index: Path) -> None:
    """Refuse an index over which another was laid: of two states of one name one is lost, and all that it said."""
    runs = list((index / RUNS).glob("*.json"))
    if len(runs) > 1:
        raise PackageIndexError(
            f"{index} is the indexes of {len(runs)} runs laid over one another, and only the last one's state is left",
            remedy=_APART,
        )


def _refuse_unlisted(states: Collection[ProjectState], index: Path, folder: Path) -> None:
    # Until somebody collects it, the file of a wheel that was removed lies there too.
    known = {(each.path, each.sha256) for state in states for each in state.entries}
    known |= {(each.path, each.sha256) for state in states for each in state.removed}
    listed, hashes = {index / path for path, _ in known}, {sha256 for _, sha256 in known}
    files = index / "files"
    lost = [
        path
        for path in _below(folder, "*.whl")
        # Elsewhere lie copies of what is listed.
        if path not in listed and (path.is_relative_to(files) or not path.is_file() or sha256_file(path) not in hashes)
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
    """Return what lies in a folder at any depth; what is a link is no part of it."""
    return sorted(path for path in folder.rglob(pattern) if not path.is_symlink())


def refuse_what_is_of_others(offers: Iterable[WheelUpload]) -> None:
    """Refuse wheels beside which lies what was signed of another: nobody could verify them, and it would stay.

    :raises PackageIndexError: it names the first.
    """
    for offer in offers:
        for side in announced(offer.entry):
            content = offer.side_files[side.kind.suffix]
            if why := side.kind.of_another(offer.entry.filename, offer.entry.sha256, content):
                raise PackageIndexError(
                    f"{side.filename} beside {offer.wheel} is not of this wheel: {why}", remedy=_SIGN
                )
        if not _attests_what_is_signed(offer.side_files):
            raise PackageIndexError(
                f"{offer.entry.filename}{PROVENANCE} beside {offer.wheel} is not of what was signed beside it",
                remedy=_SIGN,
            )


def _attests_what_is_signed(files: Mapping[str, bytes]) -> bool:
    """Say whether attestations that lie beside a bundle are all of it: verifying reads the bundle alone."""
    if not {PROVENANCE, SUFFIX} <= files.keys():
        return True
    try:
        return is_of(files[PROVENANCE], read_bundle(files[SUFFIX]))
    except (ValueError, TypeError, LookupError):
        return False


def mark_sources(folders: Iterable[Path], release: IndexRelease) -> None:
    """Note in the indexes that a release came from that its wheels never change from now on.

    One that may not be written is passed over: where the wheels were published, they are refused in any case.
    """
    for folder in folders:
        index = folder if _is_index(folder) else folder / "index"
        with suppress(PackageIndexError):
            mark_published(Folder(index), (offer.entry.sha256 for offer in release.offers))


def _held(storage: Folder, folder: Path, entry: IndexEntry) -> WheelUpload:
    """Return a wheel that an index lists.

    :raises PackageIndexError: it is not there, or is not what its state says.
    """
    remedy = f"see what else is wrong, and what fixes it: wheelsmith index verify {folder}"
    # Not through a link, which could lead to any file.
    for key in paths(entry):
        if storage.stat(key) is None:
            raise PackageIndexError(f"{key} is listed in {folder} and not there", remedy=remedy)
    return listed_wheel(storage, folder / entry.path, entry, remedy)


def listed_wheel(storage: Storage, path: Path, entry: IndexEntry, remedy: str) -> WheelUpload:
    """Return a wheel of an index as another is offered it: what it says itself is read from it.

    :param path: where the wheel lies, or a copy of it.
    :param remedy: what to do where it is not as its entry says.
    :raises PackageIndexError: it is not.
    """
    folder = storage.name
    try:
        file = wheel_file(path)
        offer = offer_of(path, file, entry.cells, None)
        check_names(offer)
    except WheelError as error:
        raise PackageIndexError(f"{entry.filename} in {folder} cannot be published: {error}", remedy=remedy) from None
    if file.sha256 != entry.sha256:
        raise PackageIndexError(
            f"{entry.filename} in {folder} is not the file that was built: its sha256 is {file.sha256}, "
            f"and its state says {entry.sha256}",
            remedy=remedy,
        )
    made, beside = {side.kind.suffix: side for side in announced(offer.entry)}, {}
    for side in announced(entry):
        stored = storage.read(side.path)
        right = made.get(side.kind.suffix, side)
        if stored is None or len(stored.data) > LARGEST or not right.is_right(stored.data):
            raise PackageIndexError(f"{side.filename} in {folder} is not the file that was published", remedy=remedy)
        beside[side.kind.suffix] = stored.data
    # What the wheel says itself is not taken from the state.
    said = replace(
        offer.entry,
        gpu_archs=entry.gpu_archs,
        provenance=entry.provenance,
        variant_of=entry.variant_of,
        yanked=entry.yanked,
        tests=entry.tests,
    )
    return with_beside(replace(offer, entry=said), beside)
