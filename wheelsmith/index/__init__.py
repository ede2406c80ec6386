"""A static package index: what it holds is a file of entries, and its pages are made from nothing else."""

from wheelsmith.index.folder import FolderIndex, IndexedWheel
from wheelsmith.index.serve import make_server
from wheelsmith.index.verify import verify

__all__ = ["FolderIndex", "IndexedWheel", "make_server", "verify"]
