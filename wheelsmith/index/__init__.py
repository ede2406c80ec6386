"""A static package index: a state for each project, and pages made from nothing else."""

from wheelsmith.index.entry import Answer, IndexEntry, NoWheel, ProjectState, ProjectStatus, Provenance
from wheelsmith.index.hub_builds import NoBuild, build_layout, kernel_version
from wheelsmith.index.hub_client import kernel_branch
from wheelsmith.index.hub_release import Build, add_release
from wheelsmith.index.local import Folder
from wheelsmith.index.metadata import read_metadata, requires_torch
from wheelsmith.index.serve import make_server
from wheelsmith.index.state import project_of, set_status, unyank, yank
from wheelsmith.index.storage import Conflict, Staged, Storage, Write
from wheelsmith.index.target import open_storage
from wheelsmith.index.verify import verify
from wheelsmith.index.writer import GRACE, Index, Offer

__all__ = [
    "GRACE",
    "Answer",
    "Build",
    "Conflict",
    "Folder",
    "Index",
    "IndexEntry",
    "NoBuild",
    "NoWheel",
    "Offer",
    "ProjectState",
    "ProjectStatus",
    "Provenance",
    "Staged",
    "Storage",
    "Write",
    "add_release",
    "build_layout",
    "kernel_branch",
    "kernel_version",
    "make_server",
    "open_storage",
    "project_of",
    "read_metadata",
    "requires_torch",
    "set_status",
    "unyank",
    "verify",
    "yank",
]
