"""A tree of files that somebody else wrote: every name and size is checked before anything is read.

What is used is what was hashed: a file is compared with its hash each time that it is read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path, PurePosixPath

from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder, open_file
from wheelsmith.base.errors import SourceError
from wheelsmith.base.json_dataclass import Record, canonical_digest
from wheelsmith.model import SourceId

MOST_FILES = 20_000
MOST_BYTES = 512 * 2**20
_LONGEST_PATH = 512  # bytes: composable_kernel, which xformers and flash-attention hold, has 257
_DEEPEST = 100  # folders in one another; whoever weighs and clears folders goes into 128
_GIT = ".git"
_READMES = ("README.md", "CARD.md")
_CHUNK = 1 << 20  # bytes
_AGE = int(sandbox_paths.SOURCE_DATE_EPOCH)
_LONGEST_TEXT = 2 << 20  # bytes of a file that is read whole: a description, or code that is looked through


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """One file that has not been read yet: its path in the tree, and where its content lies."""

    path: str
    real: Path
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile(Record):
    """One file: its path in the tree, where its content lies, and what that is (sha256 in hex, size in bytes)."""

    path: str
    real: Path
    executable: bool
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTree(Record):
    """A kernel's files, checked and hashed; ``files`` are sorted by path."""

    id: SourceId
    files: tuple[SourceFile, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Return every file's path in the tree."""
        return tuple(file.path for file in self.files)

    @property
    def readme(self) -> str | None:
        """Return the path of the file that describes the kernel to people, if it has one."""
        return next((name for name in _READMES if name in self.paths), None)

    def read_text(self, path: str) -> str:
        """Return a file's text.

        :raises SourceError: it is not there, is not text, or is not what was hashed any more.
        """
        try:
            return self.read_bytes(path).decode("utf-8")
        except UnicodeDecodeError:
            raise SourceError(f"{path} is not UTF-8 text") from None

    def read_bytes(self, path: str) -> bytes:
        """Return what a file holds.

        :raises SourceError: it is not there, too large to be read whole, or not what was hashed any more.
        """
        place = bisect_left(self.files, path, key=attrgetter("path"))
        if place == len(self.files) or self.files[place].path != path:
            raise SourceError(
                f"the kernel has no {path}",
                remedy="wheelsmith builds kernels in kernel-builder layout: build.toml at the top",
            )
        file = self.files[place]
        if file.size > _LONGEST_TEXT:
            raise SourceError(f"{path} is larger than {_LONGEST_TEXT >> 20} MiB")
        return b"".join(_planned(file))


def walk(
    root: Path,
    wanted: Callable[[str, os.DirEntry[str]], bool] = lambda path, entry: True,  # noqa: ARG005
    *,
    within: Path | None = None,
    most: int = MOST_FILES,
) -> Iterator[FoundFile]:
    """Yield the files in a folder, at any depth; a link becomes the file, or the files of the folder, that it leads to.

    :param wanted: whether a path is source; a folder that is not is not gone into.
    :param within: the folder that no link may leave; the root itself by default.
    :param most: files and folders that there may be.
    :raises SourceError: there is more than any kernel has, a name or link that is not safe, or what cannot be read.
    """
    top = (within or root).resolve()
    count, todo = 0, [("", follow("the folder", root, top))]
    while todo:
        prefix, folder = todo.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    if not wanted(path, entry):
                        continue
                    check_path(path)
                    count += 1
                    if count > most:
                        raise SourceError(f"the kernel has more than {most} files")
                    real = follow(path, folder / entry.name, top) if entry.is_symlink() else folder / entry.name
                    if stat.S_ISDIR(mode := real.lstat().st_mode):
                        todo.append((f"{path}/", real))
                    elif stat.S_ISREG(mode):
                        # As git has it: what its owner may run.
                        yield FoundFile(path=path, real=real, executable=bool(mode & stat.S_IXUSR))
                    else:
                        raise SourceError(f"{path} is not a regular file")
        except OSError as error:
            raise SourceError(f"{prefix or root} cannot be read: {error.strerror or error}") from None


def follow(path: str, link: Path, top: Path) -> Path:
    """Return the file or folder that a link leads to.

    :param path: of the link, for messages.
    :param top: the folder that it may not leave.
    :raises SourceError: it leaves it, or leads to nothing.
    """
    try:
        real = link.resolve(strict=True)
    except (OSError, RuntimeError):
        raise SourceError(f"{path} is a link to nothing") from None
    if not real.is_relative_to(top):
        raise SourceError(f"{path} is a link that leads out of the source")
    if _GIT in real.relative_to(top).parts:  # of a clone, whose settings may hold a password
        raise SourceError(f"{path} leads into {_GIT}, of which nothing is source")
    return real


def make_tree(
    files: Iterable[FoundFile], *, origin: str, revision: str | None = None, commit: str | None = None
) -> SourceTree:
    """Check and hash files.

    :raises SourceError: a name or a size that no kernel needs, or a file that cannot be read.
    """
    ordered = sorted(files, key=lambda file: file.path)
    if len(ordered) > MOST_FILES:
        raise SourceError(f"the kernel has more than {MOST_FILES} files")
    left, read = MOST_BYTES, []
    for file in ordered:
        check_path(file.path)
        read.append(_hashed(file, left))
        left -= read[-1].size
    # A mode that is not a plain file's stands in the digest; the others were never written there.
    named = [[file.path, file.sha256, *(["executable"] if file.executable else [])] for file in read]
    source = SourceId(origin=origin, revision=revision, commit=commit, tree=canonical_digest(named))
    return SourceTree(id=source, files=tuple(read))


def check_path(path: str) -> None:
    """Refuse names that could lead out of the tree or deceive who reads them.

    :raises SourceError: the name is one of those.
    """
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or "/".join(parts) != path or "\\" in path or not path.isprintable():
        raise SourceError(f"the kernel has a file with an unsafe name: {path!r}")
    if len(parts) > _DEEPEST or len(path.encode()) > _LONGEST_PATH:
        most = f"{_DEEPEST} folders or {_LONGEST_PATH} bytes"
        raise SourceError(f"the kernel has a file whose path has more than {most}: {path[:60]!r}…")


def copy_into(tree: SourceTree, folder: WorkFolder, under: str) -> None:
    """Copy every file, as plain files that the owner may change.

    :param under: the folder in ``folder`` that they are copied to.
    :raises SourceError: one of them is not what was hashed any more.
    """
    for file in tree.files:
        # Compilers put a source's age into what they make.
        with folder.create_aged(f"{under}/{file.path}", _AGE, mode=0o777 if file.executable else 0o666) as copy:
            copy.writelines(_planned(file))


def _hashed(file: FoundFile, most: int) -> SourceFile:
    digest, size = hashlib.sha256(), 0
    for chunk in _chunks(file.path, file.real, most):
        digest.update(chunk)
        size += len(chunk)
    if size > most:
        raise SourceError(f"the kernel's source is larger than {MOST_BYTES >> 20} MiB")
    return SourceFile(path=file.path, real=file.real, executable=file.executable, sha256=digest.hexdigest(), size=size)


def _planned(file: SourceFile) -> Iterator[bytes]:
    """Yield a file's content; whoever has taken the last piece has what was hashed."""
    digest = hashlib.sha256()
    for chunk in _chunks(file.path, file.real, file.size):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != file.sha256:
        raise SourceError(f"{file.path} was changed after the build was planned", remedy="run the same command again")


def _chunks(path: str, real: Path, most: int) -> Iterator[bytes]:
    """Yield a file's content, or one byte more than it may have."""
    left = most + 1
    try:
        with open_file(real) as content:
            while left and (chunk := content.read(min(left, _CHUNK))):
                left -= len(chunk)
                yield chunk
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None
