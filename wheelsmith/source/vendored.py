"""A source that was copied into the vendored folder: the same files under the same names, proven by their digest."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

from wheelsmith.base.beneath import WorkFolder, open_file
from wheelsmith.base.errors import SourceError
from wheelsmith.base.offline import SOURCE
from wheelsmith.model import SourceId
from wheelsmith.source.tree import FoundFile, SourceTree, copy_into, make_tree, walk

_IDENTITY, _FILES = "source.json", "files"
_LONGEST = 1 << 16  # bytes
_REMEDY = "run wheelsmith vendor again where there is a network, and copy the whole folder"


def vendor_source(tree: SourceTree, kernel: str, folder: Path) -> None:
    """Copy a source into a vendored folder.

    :param kernel: what the matrix calls it.
    :raises SourceError: it is not what was hashed any more.
    """
    with WorkFolder.make(folder / SOURCE) as work:
        copy_into(tree, work, _FILES)
        with work.create(_IDENTITY) as file:
            file.write(json.dumps({"kernel": kernel, **tree.id.to_json()}, indent=1).encode())


def read_vendored(folder: Path, kernel: str) -> SourceTree | None:
    """Return the source in a vendored folder; None where there is none.

    :param kernel: what the matrix calls it.
    :raises SourceError: it is another one, or not what was vendored.
    """
    found = _identity(folder / SOURCE / _IDENTITY)
    if found is None:
        return None
    named, identity = found
    if named != kernel:
        raise SourceError(f"{folder} has the source of {named[:200]}, not of {kernel}", remedy=_REMEDY)
    root = folder / SOURCE / _FILES
    if not root.is_dir():
        raise SourceError(f"{root} is not there", remedy=_REMEDY)
    tree = make_tree(_files(root), origin=identity.origin, revision=identity.revision, commit=identity.commit)
    if tree.id.tree != identity.tree:
        raise SourceError(f"the files in {root} are not those that were vendored", remedy=_REMEDY)
    return tree


def _identity(path: Path) -> tuple[str, SourceId] | None:
    try:
        with open_file(path) as file:
            data = json.loads(file.read(_LONGEST))
        return str(data.pop("kernel")), SourceId.from_json(data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise SourceError(f"{path} cannot be read: {error}", remedy=_REMEDY) from None


def _files(root: Path) -> Iterator[FoundFile]:
    for path, entry in walk(root, lambda path, entry: True):  # noqa: ARG005  # all of it was copied
        found = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"{path} in {root} is not a regular file", remedy=_REMEDY)
        yield FoundFile(path=path, real=root / path, executable=bool(found.st_mode & stat.S_IXUSR))
