"""A tree of untrusted source files.

Every name and size is checked before a file is read. Each later read compares the file with its hash again.
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
from wheelsmith.base.units import show_binary_size
from wheelsmith.model import SourceId

MAX_FILES = 20_000
MAX_BYTES = 512 * 2**20
_MAX_PATH = 512  # bytes; composable_kernel, a submodule of xformers and flash-attention, has 257
_MAX_DEPTH = 100  # nested folders; base/beneath.py handles 128
_GIT = ".git"
_READMES = ("README.md", "CARD.md")
_CHUNK = 1 << 20  # bytes
_MTIME = int(sandbox_paths.SOURCE_DATE_EPOCH)
_MAX_TEXT = 2 << 20  # bytes of a file that is read into memory, such as a description or scanned code


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file that has not been read yet.

    :param path: the path in the tree.
    :param real: the path of its content on this machine.
    """

    path: str
    real: Path
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile(Record):
    """A file that was hashed.

    :param path: the path in the tree.
    :param real: the path of its content on this machine.
    :param sha256: in hex.
    :param size: in bytes.
    """

    path: str
    real: Path
    executable: bool
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTree(Record):
    """The checked and hashed files of a kernel.

    :param files: sorted by path.
    """

    id: SourceId
    files: tuple[SourceFile, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the path of every file in the tree."""
        return tuple(file.path for file in self.files)

    @property
    def readme(self) -> str | None:
        """Return the path of the kernel's description, or None."""
        return next((name for name in _READMES if name in self.paths), None)

    def read_text(self, path: str) -> str:
        """Return the text of a file.

        :raises SourceError: it does not exist, is not UTF-8, is too large, or changed after it was hashed.
        """
        try:
            return self.read_bytes(path).decode("utf-8")
        except UnicodeDecodeError:
            raise SourceError(f"{path} is not UTF-8 text") from None

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file.

        :raises SourceError: it does not exist, is too large, or changed after it was hashed.
        """
        place = bisect_left(self.files, path, key=attrgetter("path"))
        if place == len(self.files) or self.files[place].path != path:
            raise SourceError(
                f"the kernel has no {path}",
                remedy="wheelsmith builds kernels in kernel-builder layout: build.toml at the top",
            )
        file = self.files[place]
        if file.size > _MAX_TEXT:
            raise SourceError(f"{path} is larger than {show_binary_size(_MAX_TEXT)}")
        return b"".join(_read_planned(file))


def walk(
    root: Path,
    wanted: Callable[[str, os.DirEntry[str]], bool] = lambda path, entry: True,  # noqa: ARG005
    *,
    within: Path | None = None,
    limit: int = MAX_FILES,
) -> Iterator[FoundFile]:
    """Yield the files in a folder recursively. Links to files and folders are followed.

    :param wanted: returns True if a path is source; other folders are not entered.
    :param within: the folder that links must not leave; by default the root.
    :param limit: the largest allowed number of files and folders.
    :raises SourceError: there are too many files, a name or link is unsafe, or a file cannot be read.
    """
    top = (within or root).resolve()
    count, todo = 0, [("", resolve_link("the folder", root, top))]
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
                    if count > limit:
                        raise SourceError(f"the kernel has more than {limit} files")
                    real = resolve_link(path, folder / entry.name, top) if entry.is_symlink() else folder / entry.name
                    if stat.S_ISDIR(mode := real.lstat().st_mode):
                        todo.append((f"{path}/", real))
                    elif stat.S_ISREG(mode):
                        # Like git, look only at the owner's permission.
                        yield FoundFile(path=path, real=real, executable=bool(mode & stat.S_IXUSR))
                    else:
                        raise SourceError(f"{path} is not a regular file")
        except OSError as error:
            raise SourceError(f"{prefix or root} cannot be read: {error.strerror or error}") from None


def resolve_link(path: str, link: Path, top: Path) -> Path:
    """Return the file or folder that a link leads to.

    :param path: the path of the link in messages.
    :param top: the folder that the link must not leave.
    :raises SourceError: the link leaves the folder, leads into ``.git``, or is dangling.
    """
    try:
        real = link.resolve(strict=True)
    except (OSError, RuntimeError):
        raise SourceError(f"{path} is a dangling link") from None
    if not real.is_relative_to(top):
        raise SourceError(f"{path} is a link that leads out of the source")
    if _GIT in real.relative_to(top).parts:  # the configuration in .git may contain a password
        raise SourceError(f"{path} leads into {_GIT}, which is not part of the source")
    return real


def make_tree(
    files: Iterable[FoundFile], *, origin: str, revision: str | None = None, commit: str | None = None
) -> SourceTree:
    """Check and hash files.

    :raises SourceError: a name is unsafe, the files are too many or too large, or a file cannot be read.
    """
    ordered = sorted(files, key=lambda file: file.path)
    if len(ordered) > MAX_FILES:
        raise SourceError(f"the kernel has more than {MAX_FILES} files")
    left, read = MAX_BYTES, []
    for file in ordered:
        check_path(file.path)
        read.append(_hash_file(file, left))
        left -= read[-1].size
    # Only an executable file has a mode in the digest. Digests never contained the mode of other files.
    named = [[file.path, file.sha256, *(["executable"] if file.executable else [])] for file in read]
    source = SourceId(origin=origin, revision=revision, commit=commit, tree=canonical_digest(named))
    return SourceTree(id=source, files=tuple(read))


def check_path(path: str) -> None:
    """Refuse a path that leads out of the tree, is deceptive when printed, or is too long.

    :raises SourceError: the path is refused.
    """
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or "/".join(parts) != path or "\\" in path or not path.isprintable():
        raise SourceError(f"the kernel has a file with an unsafe name: {path!r}")
    if len(parts) > _MAX_DEPTH or len(path.encode()) > _MAX_PATH:
        limit = f"{_MAX_DEPTH} folders or {_MAX_PATH} bytes"
        raise SourceError(f"the path of a file in the kernel has more than {limit}: {path[:60]!r}…")


def copy_into(tree: SourceTree, folder: WorkFolder, under: str) -> None:
    """Copy all files as plain files that the owner may change.

    :param under: the target folder below ``folder``.
    :raises SourceError: a file changed after it was hashed.
    """
    for file in tree.files:
        # Compilers write the modification time of a source into their output.
        with folder.create_with_mtime(f"{under}/{file.path}", _MTIME, mode=0o777 if file.executable else 0o666) as copy:
            copy.writelines(_read_planned(file))


def _hash_file(file: FoundFile, limit: int) -> SourceFile:
    digest, size = hashlib.sha256(), 0
    for chunk in _read_chunks(file.path, file.real, limit):
        digest.update(chunk)
        size += len(chunk)
    if size > limit:
        raise SourceError(f"the kernel's source is larger than {show_binary_size(MAX_BYTES)}")
    return SourceFile(path=file.path, real=file.real, executable=file.executable, sha256=digest.hexdigest(), size=size)


def _read_planned(file: SourceFile) -> Iterator[bytes]:
    """Yield the content of a file. Raise at the end if it changed after it was hashed."""
    digest = hashlib.sha256()
    for chunk in _read_chunks(file.path, file.real, file.size):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != file.sha256:
        again = "run the same command again; if it writes this file itself, name the file in kernel.exclude"
        raise SourceError(f"{file.path} was changed after the build was planned", remedy=again)


def _read_chunks(path: str, real: Path, limit: int) -> Iterator[bytes]:
    """Yield the content of a file, but at limit ``limit`` + 1 bytes, which reveals a larger file."""
    left = limit + 1
    try:
        with open_file(real) as content:
            while left and (chunk := content.read(min(left, _CHUNK))):
                left -= len(chunk)
                yield chunk
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None
