"""A static package index: a state for each project, and pages made from nothing else."""

from wheelsmith.index.entry import Answer, IndexEntry, NoWheel, ProjectState, ProjectStatus, Provenance
from wheelsmith.index.local import Folder
from wheelsmith.index.metadata import read_metadata, requires_beside_torch, requires_torch
from wheelsmith.index.serve import make_server
from wheelsmith.index.storage import Conflict, Staged, Storage, Write
from wheelsmith.index.verify import verify
from wheelsmith.index.writer import GRACE, Index, Offer

__all__ = [
    "GRACE",
    "Answer",
    "Conflict",
    "Folder",
    "Index",
    "IndexEntry",
    "NoWheel",
    "Offer",
    "ProjectState",
    "ProjectStatus",
    "Provenance",
    "Staged",
    "Storage",
    "Write",
    "make_server",
    "read_metadata",
    "requires_beside_torch",
    "requires_torch",
    "verify",
]
