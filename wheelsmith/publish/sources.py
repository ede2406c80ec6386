"""What lies in a folder, read as somebody else's word: another index to publish from."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from wheelsmith.errors import PackageIndexError, WheelError
from wheelsmith.index import Folder, Index, IndexEntry, Offer
from wheelsmith.index.unpublished import mark_published
from wheelsmith.publish.foreign import check_names
from wheelsmith.publish.release import Release, offer_of
from wheelsmith.wheel import wheel_file


def release_of(folder: Path) -> Release:
    """Return all that an index in a folder holds. Every wheel is read: what the state says of it must be so.

    :raises PackageIndexError: there is no index, or it is broken, or it is not whole.
    """
    storage = Folder(folder)
    states = Index(storage).states()
    if not states:
        raise PackageIndexError(f"there is no index in {folder}", remedy="build one: wheelsmith build-matrix")
    offers = tuple(_held(storage, folder, entry) for state in states.values() for entry in state.entries)
    answers = {name: state.answers for name, state in states.items() if state.answers}
    return Release(offers=offers, answers=answers)


def mark_sources(folders: Iterable[Path], release: Release) -> None:
    """Note in the indexes that a release came from that its wheels never change from now on.

    One that may not be written is passed over: where the wheels were published, they are refused in any case.
    """
    for folder in folders:
        with suppress(PackageIndexError):
            mark_published(Folder(folder), (offer.entry.sha256 for offer in release.offers))


def _held(storage: Folder, folder: Path, entry: IndexEntry) -> Offer:
    """Return a wheel that an index lists.

    :raises PackageIndexError: it is not there, or is not what its state says.
    """
    remedy = f"see what else is wrong, and what mends it: wheelsmith index verify {folder}"
    # Not through a link, which could lead to any file.
    for key in (entry.path, f"{entry.path}.metadata"):
        if storage.look(key) is None:
            raise PackageIndexError(f"{key} is listed in {folder} and not there", remedy=remedy)
    side_car = storage.read(f"{entry.path}.metadata")
    try:
        file = wheel_file(folder / entry.path)
        offer = offer_of(folder / entry.path, file, entry.cells, None)
        check_names(offer)
    except WheelError as error:
        raise PackageIndexError(f"{entry.filename} in {folder} cannot be published: {error}", remedy=remedy) from None
    if file.sha256 != entry.sha256:
        raise PackageIndexError(
            f"{entry.filename} in {folder} is not the file that was built: its sha256 is {file.sha256}, "
            f"and its state says {entry.sha256}",
            remedy=remedy,
        )
    if side_car is None or side_car.data != offer.metadata:
        raise PackageIndexError(f"{entry.filename}.metadata in {folder} is not the wheel's METADATA", remedy=remedy)
    # What the wheel says itself is not taken from the state.
    said = replace(
        offer.entry,
        gpu_archs=entry.gpu_archs,
        provenance=entry.provenance,
        variant_of=entry.variant_of,
        yanked=entry.yanked,
    )
    return replace(offer, entry=said)
