"""Read what git lists of a commit, as far as any source goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wheelsmith.base.errors import SourceError
from wheelsmith.source.tree import check_path

_LONGEST = 8192  # bytes of one entry
_LINK, _MODULE, _FOLDER, _FILES = "120000", "160000", "040000", "100"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One thing in a commit.

    :param path: from the top of the repository.
    :param mode: as git writes it, ``100644``.
    :param name: the blob's id, or the commit's of a submodule.
    :param size: of the blob, in bytes.
    """

    path: str
    mode: str
    name: str
    size: int

    @property
    def is_link(self) -> bool:
        """Say whether it is a symbolic link."""
        return self.mode == _LINK

    @property
    def is_submodule(self) -> bool:
        """Say whether it is a commit of another repository."""
        return self.mode == _MODULE

    @property
    def is_folder(self) -> bool:
        """Say whether it is a folder, whose own entries follow."""
        return self.mode == _FOLDER

    @property
    def is_executable(self) -> bool:
        """Say whether its owner may run it."""
        return self.mode.startswith(_FILES) and bool(int(self.mode, 8) & 0o100)


def read_entries(output: Iterable[bytes]) -> Iterator[TreeEntry]:
    """Yield the entries of ``git ls-tree -r -t -z --long``.

    :raises SourceError: one is nothing that a source has.
    """
    left = b""
    for chunk in output:
        *items, left = (left + chunk).split(b"\0")
        yield from map(_entry, items)
        if len(left) > _LONGEST:
            break
    if left:
        raise SourceError(f"the repository has a file with an unsafe name: {_text(left)[:60]!r}…")


def _entry(item: bytes) -> TreeEntry:
    told, _, name = item.partition(b"\t")
    mode, _, oid, size = _text(told).split()
    path = _text(name)
    check_path(path)
    if any(part.lower() == ".git" for part in path.split("/")):
        raise SourceError(f"the repository has a file with an unsafe name: {path!r}")
    if not (mode in {_LINK, _MODULE, _FOLDER} or (mode.startswith(_FILES) and size.isdecimal())):
        raise SourceError(f"{path} in the repository is neither a file nor a link")
    return TreeEntry(path=path, mode=mode, name=oid, size=int(size) if size.isdecimal() else 0)


def _text(data: bytes) -> str:
    # What is no UTF-8 becomes what no check lets pass.
    return data.decode("utf-8", "surrogateescape")
