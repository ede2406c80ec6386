"""Facts of each project that the lists of projects show, so that they need not read every project's state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.json_dataclass import Record, by_lines, in_one_line, read_json
from wheelsmith.base.units import numbers
from wheelsmith.index.entries.about import About
from wheelsmith.index.entries.entry import IndexEntry, ProjectState, ProjectStatus, check_release, check_root
from wheelsmith.index.entries.state import check_project
from wheelsmith.index.storage.protocol import Stored
from wheelsmith.model import TORCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Record):
    """One project in the lists.

    :param roots: the roots that list it: ``simple`` and its compute platforms.
    :param version: the newest that is not yanked, without a local part; None if there is none.
    :param torches: releases of torch that its wheels serve, the oldest first.
    :param archs: CPU architectures that its wheels serve.
    :param summary: of the newest wheel that has one, in a line.
    """

    roots: tuple[str, ...]
    version: str | None
    torches: tuple[str, ...]
    archs: tuple[str, ...]
    status: ProjectStatus
    summary: str | None = None

    def __post_init__(self) -> None:
        """Refuse roots that could not stand in a path, and releases that cannot be sorted."""
        for root in self.roots:
            check_root(root)
        for torch in self.torches:
            check_release(torch)


def newest_about(entries: Iterable[IndexEntry]) -> About | None:
    """Return what the newest wheel tells people; a yanked one only where no other is left."""
    described = [entry for entry in entries if entry.about]
    newest = max(described, key=lambda each: (each.yanked is None, each.version, each.filename), default=None)
    return newest.about if newest else None


def listing_of(state: ProjectState) -> Listing:
    """Return the facts of a project that the lists show."""
    listed = [entry for entry in state.entries if entry.roots]
    about = None if state.status is ProjectStatus.QUARANTINED else newest_about(listed)
    cells = {cell for entry in listed for cell in entry.cells if cell.settings.advertise}
    newest = max((entry.version for entry in listed if entry.yanked is None), default=None)
    return Listing(
        roots=tuple(sorted({root for entry in listed for root in entry.roots})),
        version=newest.public if newest else None,
        torches=tuple(sorted({cell.release for cell in cells if cell.framework == TORCH}, key=numbers)),
        archs=tuple(sorted({cell.arch for cell in cells})),
        status=state.status,
        summary=about.summary if about else None,
    )


def load_listing(stored: Stored | None) -> dict[str, Listing]:
    """Read the lists; none are empty.

    :raises PackageIndexError: they are broken.
    """
    if stored is None:
        return {}
    try:
        return {check_project(name): Listing.from_json(item) for name, item in read_json(stored.data).items()}
    except (ValueError, KeyError, TypeError, AttributeError, PackageIndexError) as error:
        raise PackageIndexError(
            f"the lists of projects are broken: {in_one_line(error)}",
            remedy="make them again from the states: wheelsmith index repair",
        ) from None


def dump_listing(listing: Mapping[str, Listing]) -> bytes:
    """Write the lists, one project a line."""
    return by_lines({name: item.to_json() for name, item in listing.items()})
