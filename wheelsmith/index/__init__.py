"""A static package index: a state for each project, and pages made from nothing else."""

from wheelsmith.index.about import About, about_of
from wheelsmith.index.catalogue import Catalogue, catalogue_key, catalogue_of, load_catalogue
from wheelsmith.index.choose import Chooser
from wheelsmith.index.commands import Installer, Template, Torch, clean_base, fill, slots_of, template_for
from wheelsmith.index.entry import Answer, IndexEntry, NoWheel, ProjectState, ProjectStatus, Provenance, Removed
from wheelsmith.index.hub_builds import NoBuild, build_layout, kernel_version
from wheelsmith.index.hub_client import kernel_branch
from wheelsmith.index.hub_release import Build, add_release
from wheelsmith.index.listing import roots
from wheelsmith.index.local import Folder
from wheelsmith.index.metadata import read_metadata, requires_beside_torch, requires_torch
from wheelsmith.index.page_writer import GRACE
from wheelsmith.index.serve import make_server
from wheelsmith.index.state import check_project, project_of, remove, set_status, unyank, yank
from wheelsmith.index.storage import Conflict, Staged, Storage, Write
from wheelsmith.index.target import open_storage
from wheelsmith.index.verify import Trouble, advise, verify
from wheelsmith.index.wish import Choice, Nearest, Refusal, Wish, compute_name
from wheelsmith.index.writer import Index, Offer

__all__ = [
    "GRACE",
    "About",
    "Answer",
    "Build",
    "Catalogue",
    "Choice",
    "Chooser",
    "Conflict",
    "Folder",
    "Index",
    "IndexEntry",
    "Installer",
    "Nearest",
    "NoBuild",
    "NoWheel",
    "Offer",
    "ProjectState",
    "ProjectStatus",
    "Provenance",
    "Refusal",
    "Removed",
    "Staged",
    "Storage",
    "Template",
    "Torch",
    "Trouble",
    "Wish",
    "Write",
    "about_of",
    "add_release",
    "advise",
    "build_layout",
    "catalogue_key",
    "catalogue_of",
    "check_project",
    "clean_base",
    "compute_name",
    "fill",
    "kernel_branch",
    "kernel_version",
    "load_catalogue",
    "make_server",
    "open_storage",
    "project_of",
    "read_metadata",
    "remove",
    "requires_beside_torch",
    "requires_torch",
    "roots",
    "set_status",
    "slots_of",
    "template_for",
    "unyank",
    "verify",
    "yank",
]
