"""The project lists of an index: what its pages about all projects show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.json_dataclass import Record, dumps_pretty, in_one_line, read_json
from wheelsmith.index.entries.entry import ProjectState, ProjectStatus, check_root
from wheelsmith.index.entries.state import check_project
from wheelsmith.index.entries.stored_states import newest_about
from wheelsmith.index.site.coverage import CoverageRow, project_rows
from wheelsmith.index.storage.protocol import Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Record):
    """One project in the project lists.

    :param roots: the roots that list the project: ``simple`` and its compute platforms.
    :param version: newest version that is not yanked, without a local part; None if there is none.
    :param coverage: its rows of the front page.
    :param summary: one-line summary of the newest wheel that has one.
    """

    roots: tuple[str, ...]
    version: str | None
    coverage: tuple[CoverageRow, ...]
    status: ProjectStatus
    summary: str | None = None

    def __post_init__(self) -> None:
        """Reject roots that are unsafe in a path."""
        for root in self.roots:
            check_root(root)


def listing_of(state: ProjectState) -> Listing:
    """Return the list entry of a project."""
    listed = [entry for entry in state.entries if entry.roots]
    about = None if state.status is ProjectStatus.QUARANTINED else newest_about(listed)
    newest = max((entry.version for entry in listed if entry.yanked is None), default=None)
    return Listing(
        roots=tuple(sorted({root for entry in listed for root in entry.roots})),
        version=newest.public if newest else None,
        coverage=project_rows(state),
        status=state.status,
        summary=about.summary if about else None,
    )


def load_listing(stored: Stored | None) -> dict[str, Listing]:
    """Read the project lists. A missing file means empty lists.

    :raises PackageIndexError: the lists are broken, or an older wheelsmith wrote them.
    """
    if stored is None:
        return {}
    try:
        return {check_project(name): Listing.from_json(item) for name, item in read_json(stored.data).items()}
    except (ValueError, KeyError, TypeError, AttributeError, PackageIndexError) as error:
        raise PackageIndexError(
            f"the project lists are broken: {in_one_line(error)}",
            remedy="rebuild them from the states: wheelsmith index repair",
        ) from None


def dump_listing(listing: Mapping[str, Listing]) -> bytes:
    """Return the project lists as JSON, with one project per line."""
    return dumps_pretty({name: item.to_json() for name, item in listing.items()})
