"""Write a source to the vendored folder, and read it again. Its digest proves that it is unchanged."""

from __future__ import annotations

import json
from pathlib import Path

from wheelsmith.base.beneath import WorkFolder, open_file
from wheelsmith.base.errors import SourceError
from wheelsmith.base.git_address import parse_git_address
from wheelsmith.base.json_dataclass import in_one_line, read_json
from wheelsmith.base.offline import SOURCE
from wheelsmith.matrix.types import KernelRef
from wheelsmith.model import SourceId
from wheelsmith.plan.lock import DIGEST
from wheelsmith.source.tree import MAX_FILES, SourceTree, copy_into, make_tree, walk

_IDENTITY, _FILES = "source.json", "files"
_MAX_RECORD = 1 << 16  # bytes
_REMEDY = "run wheelsmith vendor again on a machine with a network, and copy the complete folder"


def vendor_source(tree: SourceTree, kernel: KernelRef, folder: Path, name: str = "") -> None:
    """Copy a source into a vendored folder, and verify that it can be read from there.

    :param name: the name of the kernel in a file with several.
    :raises SourceError: it changed after it was hashed, or cannot be read from the folder.
    """
    with WorkFolder.make(folder / SOURCE / name) as work:
        copy_into(tree, work, _FILES)
        with work.create(_IDENTITY) as file:
            file.write(json.dumps({"kernel": kernel.to_json(), **tree.id.to_json()}, indent=1).encode())
    read_vendored(folder, kernel, name)


def read_vendored(folder: Path, kernel: KernelRef, name: str = "") -> SourceTree | None:
    """Return the source in a vendored folder, or None if the folder has none.

    :param name: the name of the kernel in a file with several.
    :raises SourceError: the matrix names another source, or the files have changed.
    """
    found = _read_identity(folder / SOURCE / name / _IDENTITY)
    if found is None:
        return None
    named, identity = found
    asked = (kernel.hub, kernel.git, kernel.sdist, kernel.subdirectory, kernel.submodules)
    same = (named.hub, named.git, named.sdist, named.subdirectory, named.submodules) == asked
    if (
        not same
        or kernel.revision not in {named.revision, identity.commit}
        or not _matches_kernel(identity.origin, kernel)
    ):
        raise SourceError(
            f"{folder} contains the source of another kernel or revision than the matrix names", remedy=_REMEDY
        )
    root = folder / SOURCE / name / _FILES
    if not root.is_dir():
        raise SourceError(f"{root} does not exist", remedy=_REMEDY)
    # The limit also counts folders.
    files = walk(root, limit=3 * MAX_FILES)
    tree = make_tree(files, origin=identity.origin, revision=identity.revision, commit=identity.commit)
    if tree.id.tree != identity.tree:
        raise SourceError(f"the files in {root} have changed since they were vendored", remedy=_REMEDY)
    return tree


def _matches_kernel(origin: str, kernel: KernelRef) -> bool:
    """Return True if the origin of a source matches a kernel."""
    if kernel.git:
        # The origin contains the shown address, which is `local` for a folder of this machine.
        shown = parse_git_address(kernel.git).shown
        folder = f"#subdirectory={kernel.subdirectory}" if kernel.subdirectory else ""
        return origin in {f"git:{shown}{folder}", f"git:local{folder}"}
    return origin == (f"hub:{kernel.hub}" if kernel.hub else f"sdist:{kernel.sdist}")


def _read_identity(path: Path) -> tuple[KernelRef, SourceId] | None:
    try:
        with open_file(path) as file:
            data = read_json(file.read(_MAX_RECORD))
        kernel, identity = KernelRef.from_json(data.pop("kernel")), SourceId.from_json(data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise SourceError(f"{path} cannot be read: {in_one_line(error)}", remedy=_REMEDY) from None
    if identity.commit is not None and not DIGEST.fullmatch(identity.commit):
        raise SourceError(f"{path} names a commit that is not a digest", remedy=_REMEDY)
    return kernel, identity
