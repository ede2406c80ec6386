"""A kernel's source: a Hub repo or a git repository at a commit, or a folder, as one checked tree."""

from pathlib import Path

from wheelsmith.base.errors import MatrixError
from wheelsmith.matrix import KernelRef
from wheelsmith.source.folder import read_folder
from wheelsmith.source.hub import read_hub
from wheelsmith.source.outputs import Outputs
from wheelsmith.source.tree import SourceTree, copy_into

__all__ = ["Outputs", "SourceTree", "copy_into", "fetch_source"]


def fetch_source(kernel: KernelRef, *, base: Path, outputs: Outputs) -> SourceTree:
    """Return the source that matrix.yaml names.

    :param base: the folder that a relative path starts from.
    :param outputs: what is no source, though it may lie in the kernel's folder.
    :raises SourceError: it cannot be had, or must not be used.
    """
    if kernel.hub and kernel.revision:
        return read_hub(kernel.hub, kernel.revision)
    if kernel.git:
        from wheelsmith.source.git import read_git

        return read_git(kernel, base=base, cache=outputs.cache)
    if kernel.path:
        return read_folder(base / kernel.path, outputs)
    raise MatrixError("the kernel is neither a Hub repo nor a git repository nor a folder")
