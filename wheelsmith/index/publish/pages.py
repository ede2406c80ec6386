"""Every page of an index: the ones for installers, and the ones for people."""

from __future__ import annotations

from collections.abc import Mapping

from wheelsmith.index.entries.entry import ProjectState
from wheelsmith.index.entries.listing import Listing
from wheelsmith.index.entries.render import simple_pages, simple_roots
from wheelsmith.index.site.human import human_pages, human_root


def project_pages(state: ProjectState) -> dict[str, bytes]:
    """Return the pages of one project: key → bytes."""
    return simple_pages(state) | human_pages(state)


def root_pages(listing: Mapping[str, Listing]) -> dict[str, bytes]:
    """Return the pages that list projects: key → bytes."""
    return simple_roots(listing) | human_root(listing)
