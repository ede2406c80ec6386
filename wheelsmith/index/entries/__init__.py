"""What an index knows of a project, and the pages for installers that are made from it."""

from wheelsmith.index.entries.about import About, about_of
from wheelsmith.index.entries.catalogue import Catalogue, catalogue_key, catalogue_of, load_catalogue
from wheelsmith.index.entries.entry import (
    CellWithoutWheel,
    IndexEntry,
    NoWheel,
    ProjectState,
    ProjectStatus,
    Provenance,
)
from wheelsmith.index.entries.listing import roots
from wheelsmith.index.entries.metadata import requires_beside_torch, requires_torch
from wheelsmith.index.entries.state import check_project, index_address, project_of, remove, set_status, unyank, yank

__all__ = [
    "About",
    "Catalogue",
    "CellWithoutWheel",
    "IndexEntry",
    "NoWheel",
    "ProjectState",
    "ProjectStatus",
    "Provenance",
    "about_of",
    "catalogue_key",
    "catalogue_of",
    "check_project",
    "index_address",
    "load_catalogue",
    "project_of",
    "remove",
    "requires_beside_torch",
    "requires_torch",
    "roots",
    "set_status",
    "unyank",
    "yank",
]
