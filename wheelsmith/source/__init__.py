"""Fetch a kernel's source from a folder, git, the Hub, an archive or an sdist as one checked tree."""

from pathlib import Path

from wheelsmith.base.errors import MatrixError
from wheelsmith.matrix.types import KernelRef
from wheelsmith.model import Listener, ignore
from wheelsmith.source.archive import read_archive
from wheelsmith.source.folder import Outputs, read_folder
from wheelsmith.source.hub import read_hub
from wheelsmith.source.tree import SourceTree


def fetch_source(kernel: KernelRef, *, base: Path, outputs: Outputs, listen: Listener = ignore) -> SourceTree:
    """Return the source that matrix.yaml names.

    :param base: the folder for relative paths.
    :param outputs: files of wheelsmith, which are not part of the source.
    :param listen: receives warnings and the progress of downloads.
    :raises SourceError: the source cannot be fetched or is refused.
    """
    if kernel.hub and kernel.revision:
        return read_hub(kernel.hub, kernel.revision)
    if kernel.git:
        from wheelsmith.source.git import read_git

        return read_git(kernel, base=base, cache=outputs.cache, listen=listen)
    if kernel.sdist:
        from wheelsmith.source.sdist import read_sdist

        return read_sdist(kernel.sdist, outputs.cache, listen)
    if not kernel.path:
        raise MatrixError("the kernel has no source: set one of hub, git, path and sdist")
    if not is_cached(kernel, base):
        return read_folder(base / kernel.path, outputs, kernel, listen)
    if kernel.include or kernel.exclude:
        raise MatrixError("include and exclude are for a folder, but path is an archive", remedy="remove them")
    return read_archive(base / kernel.path, outputs.cache)


def is_cached(kernel: KernelRef, base: Path) -> bool:
    """Return True if the source is fetched or unpacked into the cache and read from there."""
    return bool(kernel.git or kernel.sdist) or (kernel.path is not None and (base / kernel.path).is_file())
