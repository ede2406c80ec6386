"""A static package index: a state for each project, and pages made from nothing else."""

from wheelsmith.index.catalogue import Catalogue, catalogue_key, catalogue_of, load_catalogue
from wheelsmith.index.choose import Chooser
from wheelsmith.index.commands import Installer, Template, Torch, clean_base, fill, slots_of, template_for
from wheelsmith.index.entry import Answer, IndexEntry, NoWheel, ProjectState, ProjectStatus, Provenance
from wheelsmith.index.local import Folder
from wheelsmith.index.metadata import read_metadata, requires_beside_torch, requires_torch
from wheelsmith.index.serve import make_server
from wheelsmith.index.state import check_project
from wheelsmith.index.storage import Conflict, Staged, Storage, Write
from wheelsmith.index.verify import verify
from wheelsmith.index.wish import Choice, Nearest, Refusal, Wish, compute_name
from wheelsmith.index.writer import GRACE, Index, Offer

__all__ = [
    "GRACE",
    "Answer",
    "Catalogue",
    "Choice",
    "Chooser",
    "Conflict",
    "Folder",
    "Index",
    "IndexEntry",
    "Installer",
    "Nearest",
    "NoWheel",
    "Offer",
    "ProjectState",
    "ProjectStatus",
    "Provenance",
    "Refusal",
    "Staged",
    "Storage",
    "Template",
    "Torch",
    "Wish",
    "Write",
    "catalogue_key",
    "catalogue_of",
    "check_project",
    "clean_base",
    "compute_name",
    "fill",
    "load_catalogue",
    "make_server",
    "read_metadata",
    "requires_beside_torch",
    "requires_torch",
    "slots_of",
    "template_for",
    "verify",
]
