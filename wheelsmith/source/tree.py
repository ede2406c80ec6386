"""A tree of files that somebody else wrote: every name and size is checked before anything is read."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from wheelsmith.errors import SourceError
from wheelsmith.files import sha256_file
from wheelsmith.model import SourceId
from wheelsmith.record import canonical_digest

MOST_FILES = 20_000
MOST_BYTES = 512 * 2**20
_LONGEST_PATH = 240
_READMES = ("README.md", "CARD.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file: its path in the tree, and where its content lies."""

    path: str
    real: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTree:
    """A kernel's files, checked and hashed; ``files`` are sorted by path."""

    id: SourceId
    files: tuple[SourceFile, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Give every file's path in the tree."""
        return tuple(file.path for file in self.files)

    @property
    def readme(self) -> str | None:
        """Give the text that describes the kernel to people, if it has one."""
        return next((self.read_text(name) for name in _READMES if name in self.paths), None)

    def read_text(self, path: str) -> str:
        """Give a file's text.

        :raises SourceError: it is not there, or is not text.
        """
        for file in self.files:
            if file.path == path:
                try:
                    return file.real.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    raise SourceError(f"{path} is not UTF-8 text") from None
        raise SourceError(
            f"the kernel has no {path}",
            remedy="wheelsmith builds kernels in kernel-builder layout: build.toml at the top",
        )


def make_tree(
    files: Iterable[SourceFile], *, origin: str, revision: str | None = None, commit: str | None = None
) -> SourceTree:
    """Check and hash files.

    :raises SourceError: a name or a size that no kernel needs.
    """
    ordered = tuple(sorted(files, key=lambda file: file.path))
    if len(ordered) > MOST_FILES:
        raise SourceError(f"the kernel has more than {MOST_FILES} files")
    total = 0
    for file in ordered:
        check_path(file.path)
        total += file.real.stat().st_size
        if total > MOST_BYTES:
            raise SourceError(f"the kernel's source is larger than {MOST_BYTES >> 20} MiB")
    tree = canonical_digest([[file.path, sha256_file(file.real)] for file in ordered])
    source = SourceId(origin=origin, revision=revision, commit=commit, tree=tree)
    return SourceTree(id=source, files=ordered)


def check_path(path: str) -> None:
    """Refuse names that could lead out of the tree or deceive who reads them.

    :raises SourceError: the name is one of those.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or not path.isprintable():
        raise SourceError(f"the kernel has a file with an unsafe name: {path!r}")
    if len(path.encode()) > _LONGEST_PATH:
        raise SourceError(f"the kernel has a file whose path is longer than {_LONGEST_PATH} bytes: {path[:60]!r}…")


def copy_into(tree: SourceTree, target: Path) -> None:
    """Copy every file under an empty folder, as plain files that the owner may change."""
    for file in tree.files:
        path = target / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.real, path)
