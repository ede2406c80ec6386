"""What an index knows of a project, and the pages for installers that are made from it."""

from wheelsmith.index.entries.about import About, about_of
from wheelsmith.index.entries.catalogue import Catalogue, catalogue_key, catalogue_of
from wheelsmith.index.entries.catalogue_reader import load_catalogue
from wheelsmith.index.entries.completeness import Completeness, completeness, of_version
from wheelsmith.index.entries.entry import (
    CellWithoutWheel,
    IndexEntry,
    NoWheel,
    PlannedVersion,
    ProjectState,
    ProjectStatus,
    Provenance,
    WheelOutcome,
    WheelTest,
)
from wheelsmith.index.entries.listing import roots
from wheelsmith.index.entries.metadata import requires_beside_torch, requires_torch
from wheelsmith.index.entries.retention import outdated, retain
from wheelsmith.index.entries.state import (
    check_project,
    drop_versions,
    index_address,
    project_of,
    record_test,
    remove,
    set_status,
    unyank,
    version_of,
    yank,
)

__all__ = [
    "About",
    "Catalogue",
    "CellWithoutWheel",
    "Completeness",
    "IndexEntry",
    "NoWheel",
    "PlannedVersion",
    "ProjectState",
    "ProjectStatus",
    "Provenance",
    "WheelOutcome",
    "WheelTest",
    "about_of",
    "catalogue_key",
    "catalogue_of",
    "check_project",
    "completeness",
    "drop_versions",
    "index_address",
    "load_catalogue",
    "of_version",
    "outdated",
    "project_of",
    "record_test",
    "remove",
    "requires_beside_torch",
    "requires_torch",
    "retain",
    "roots",
    "set_status",
    "unyank",
    "version_of",
    "yank",
]
