"""What the lists of projects say of each: enough to render them without reading every project's state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from packaging.version import Version

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.json_dataclass import Record, by_lines, in_one_line, read_json
from wheelsmith.base.units import numbers
from wheelsmith.index.entries.about import About, check_about
from wheelsmith.index.entries.entry import IndexEntry, ProjectState, ProjectStatus
from wheelsmith.index.entries.state import check_project, version_of
from wheelsmith.index.entries.validity import check_release, check_root
from wheelsmith.index.storage.protocol import Stored
from wheelsmith.model import TORCH

EVERYTHING = "simple"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Record):
    """One project in the lists.

    :param roots: the roots that list it: ``simple`` and its compute platforms.
    :param version: the newest that is not yanked, without a local part; None when there is none.
    :param torches: releases of torch that its wheels serve, the oldest first; none where torch is nothing to them.
    :param archs: CPU architectures that its wheels serve.
    :param summary: of the newest wheel that has one, in a line.
    """

    roots: tuple[str, ...]
    version: str | None
    torches: tuple[str, ...]
    archs: tuple[str, ...]
    status: ProjectStatus
    summary: str | None = None


def roots(entry: IndexEntry) -> tuple[str, ...]:
    """Return the roots whose pages list a wheel: the one for all, and one for each compute platform it serves.

    A wheel whose every cell is kept back (``advertise: false``) is listed nowhere. A variant wheel is in the root for
    all alone: it is what lets an installer choose the platform, and in the others that is done.
    """
    computes = {cell.compute for cell in entry.cells if cell.settings.advertise}
    if not computes and entry.cells:
        return ()
    return (EVERYTHING,) if entry.variant else (EVERYTHING, *sorted(computes))


def newest_about(entries: Iterable[IndexEntry]) -> About | None:
    """Return what the newest wheel tells people; a yanked one only where no other is left."""
    ranked = ((entry.yanked is None, version_of(entry), entry.filename, entry) for entry in entries if entry.about)
    newest = max(ranked, key=itemgetter(0, 1, 2), default=None)
    return newest[-1].about if newest else None


def listing_of(state: ProjectState) -> Listing:
    """Return what the lists say of a project."""
    listed = [entry for entry in state.entries if roots(entry)]
    standing = [version_of(entry) for entry in listed if entry.yanked is None]
    about = None if state.status is ProjectStatus.QUARANTINED else newest_about(listed)
    cells = {cell for entry in listed for cell in entry.cells if cell.settings.advertise}
    return Listing(
        roots=tuple(sorted({root for entry in listed for root in roots(entry)})),
        version=max(standing).public if standing else None,
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
        lists = {check_project(name): Listing.from_json(item) for name, item in read_json(stored.data).items()}
        for item in lists.values():
            _check(item)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PackageIndexError) as error:
        raise PackageIndexError(
            f"the lists of projects are broken: {in_one_line(error)}",
            remedy="make them again from the states: wheelsmith index repair",
        ) from None
    return lists


def dump_listing(listing: Mapping[str, Listing]) -> bytes:
    """Write the lists, one project a line."""
    return by_lines({name: item.to_json() for name, item in listing.items()})


def _check(item: Listing) -> None:
    """Refuse what could not stand in a path or on a page.

    :raises ValueError: it says what.
    """
    for root in item.roots:
        check_root(root)
    for torch in item.torches:
        check_release(torch)
    check_about(About(summary=item.summary))
    if item.version is not None:
        Version(item.version)
