"""Every page of an index: the ones for installers, and the ones for people."""

from __future__ import annotations

from collections.abc import Mapping

from wheelsmith.index.entry import ProjectState
from wheelsmith.index.human import human_pages, human_root
from wheelsmith.index.listing import Listing
from wheelsmith.index.render import simple_pages, simple_roots


def project_pages(state: ProjectState) -> dict[str, bytes]:
    """Give the pages of one project: key → bytes."""
    return simple_pages(state) | human_pages(state)


def root_pages(listing: Mapping[str, Listing]) -> dict[str, bytes]:
    """Give the pages that list projects: key → bytes."""
    return simple_roots(listing) | human_root(listing)
