"""Where an index lies: a folder, a bucket or a Hub repo, behind one narrow protocol."""

from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.hub_client import kernel_branch
from wheelsmith.index.storage.location import open_storage
from wheelsmith.index.storage.protocol import ConflictError, Staged, Storage, Write
from wheelsmith.index.storage.serve import make_server

__all__ = [
    "ConflictError",
    "Folder",
    "Staged",
    "Storage",
    "Write",
    "kernel_branch",
    "make_server",
    "open_storage",
]
