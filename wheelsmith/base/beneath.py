"""Open and remove files that a build could have written, and never a file outside of the build's folder.

A build may create a link, a pipe or another file in a folder at any moment. It may do so after a check, and even after
its end if one of its processes survives. So this module

- holds the folder by a descriptor and opens each component beneath its parent,
- never follows a link,
- never opens an existing file for writing,
- reads each file once, so that the hashed bytes are the bytes that are kept.

The other packages open such files only through this module; a test enforces it.

openat2(2) has RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS for this purpose. But Python has no function for it, and older
containers refuse it, so the code that opens one component at a time would be needed anyway.
"""

from __future__ import annotations

import itertools
import os
import secrets
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from wheelsmith.base.errors import OutputError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: do not wait for the other end of a pipe or for the release of a lease.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_PATH opens a folder without read permission. Not every system has it.
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Levels of nested folders. Each open level costs one or two descriptors. Real trees are far less deep.
_MAX_DEPTH = 128
_MIN_ENTRY_SIZE = 4096  # bytes; the least that an entry is counted as
_SECTOR_SIZE = 512  # bytes; the unit of st_blocks on every file system
_BATCH_SIZE = 10_000  # folder names in memory at a time
_MAX_BATCHES = 10_000  # bounds the removal while a process keeps writing
_CHUNK = 1 << 20  # bytes

# (depth, descriptor of the parent folder, entry)
_DepthEntry = tuple[int, int, os.DirEntry[str]]


class NotRegularError(OSError):
    """The file is a link, a folder, a pipe or a device."""


def open_folder(name: str | Path, beneath: int | None = None) -> int:
    """Return a descriptor of a folder. Make it readable first if its owner may not read it.

    :param beneath: descriptor of the parent folder. Without it, ``name`` is a path, and links in all components but the
        last are followed.
    :raises OSError: the folder does not exist, or ``name`` is not a folder.
    """
    try:
        return os.open(name, _FOLDER, dir_fd=beneath)
    except PermissionError:
        path_only = os.open(name, _PATH_ONLY, dir_fd=beneath)
        try:
            # The name may refer to another folder by now, and fchmod refuses O_PATH descriptors.
            Path(f"/proc/self/fd/{path_only}").chmod(0o700)
            return os.open(".", _FOLDER, dir_fd=path_only)
        finally:
            os.close(path_only)


def open_writable_folder(name: str | Path, beneath: int | None = None) -> int:
    """Return a descriptor of a folder, and give its owner the permission to remove its entries.

    :param beneath: as for ``open_folder``.
    :raises OSError: the folder does not exist, or ``name`` is not a folder.
    """
    folder = open_folder(name, beneath)
    try:
        if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(folder, stat.S_IRWXU)
    except BaseException:
        os.close(folder)
        raise
    return folder


def open_file(name: str | Path, beneath: int | None = None) -> BinaryIO:
    """Open a regular file for reading. Never block on a pipe or a device.

    :param beneath: as for ``open_folder``.
    :raises NotRegularError: it is not a regular file.
    :raises OSError: it does not exist or cannot be read.
    """
    # Check before opening, because opening some devices has effects, and after, because the file may have changed.
    _check_regular(os.stat(name, dir_fd=beneath, follow_symlinks=False), name)
    file = os.fdopen(os.open(name, _FILE, dir_fd=beneath), "rb")
    try:
        _check_regular(os.fstat(file.fileno()), name)
    except BaseException:
        file.close()
        raise
    return file


def _check_regular(status: os.stat_result, name: str | Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(f"{name} is not a regular file")


def create_file(name: str, beneath: int, mode: int) -> BinaryIO:
    """Create a file. An existing file of that name is removed without being opened.

    :param beneath: descriptor of the parent folder.
    :param mode: permissions, before the umask.
    :raises OSError: the name belongs to a folder, or the file cannot be created.
    """
    try:
        file = os.open(name, _NEW_FILE, mode, dir_fd=beneath)
    except FileExistsError:
        os.unlink(name, dir_fd=beneath)
        file = os.open(name, _NEW_FILE, mode, dir_fd=beneath)
    return os.fdopen(file, "wb")


def apparent_size(folder: Path, limit: int = sys.maxsize) -> int:
    """Return the bytes in a folder, holes included; sys.maxsize if the folders are nested too deeply.

    Every entry counts as at least one block, because it takes an inode.

    :param limit: stop counting above this number of bytes. A build that creates and removes files during the count
        cannot prolong it without exceeding the limit.
    """
    total = 0
    with suppress(OSError):
        for depth, _, entry in _walk(folder):
            with suppress(OSError):  # the file was removed during the count
                status = entry.stat(follow_symlinks=False)
                allocated = status.st_blocks * _SECTOR_SIZE
                total += max(allocated, status.st_size if stat.S_ISREG(status.st_mode) else 0, _MIN_ENTRY_SIZE)
                if total > limit:
                    return total
                if depth == _MAX_DEPTH and stat.S_ISDIR(status.st_mode):
                    return sys.maxsize
    return total


def statuses(path: Path) -> Iterator[os.stat_result]:
    """Yield the status of a file, or of a folder and its entries down to the depth limit."""
    with suppress(OSError):
        status = path.lstat()
        yield status
        if stat.S_ISDIR(status.st_mode):
            for _, _, entry in _walk(path):
                with suppress(OSError):  # the file was removed during the walk
                    yield entry.stat(follow_symlinks=False)


def make_read_only(root: Path, *, mtime: int | None = None) -> None:
    """Remove write permission from a folder and every file and folder in it. Files keep their exec bits.

    :param mtime: modification time for every file, in seconds since 1970; None keeps the files' own.
    :raises OSError: the folder does not exist or belongs to another user.
    """
    for _, folder, entry in _walk(root):
        if entry.is_file(follow_symlinks=False):
            with open_file(entry.name, folder) as file:
                if mtime is not None:
                    os.utime(file.fileno(), (mtime, mtime))
                os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o555)
        elif entry.is_dir(follow_symlinks=False):
            _set_read_only_and_close(open_folder(entry.name, folder))
    _set_read_only_and_close(open_folder(root))


def remove_tree(root: Path) -> None:
    """Remove a folder, even if it is read-only, or the link in its place.

    A missing folder and entries that cannot be removed are not errors.
    """
    with suppress(OSError):
        parent = open_folder(root.parent.resolve())
        try:
            with suppress(NotADirectoryError):
                _empty_folder(root.name, parent)
                os.rmdir(root.name, dir_fd=parent)
                return
            os.unlink(root.name, dir_fd=parent)
        finally:
            os.close(parent)


def _set_read_only_and_close(folder: int) -> None:
    try:
        os.fchmod(folder, 0o555)
    finally:
        os.close(folder)


def _walk(root: Path) -> Iterator[_DepthEntry]:
    """Yield the entries of a folder recursively. A folder comes before its entries."""
    return _walk_below(open_folder(root), 1)


def _walk_below(folder: int, depth: int) -> Iterator[_DepthEntry]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield depth, folder, entry
                if depth < _MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                    with suppress(OSError):  # the folder was removed or replaced
                        yield from _walk_below(open_folder(entry.name, folder), depth + 1)
    finally:
        os.close(folder)


def _empty_folder(name: str, parent: int) -> None:
    """Remove the entries of a folder.

    Nested folders are moved up into this one before they are removed. So no path gets deep, and at most two folders are
    open at a time.
    """
    top = open_writable_folder(name, parent)
    try:
        names = (f".{secrets.token_hex(8)}" for _ in itertools.count())
        for _ in range(_MAX_BATCHES):
            folders = list(itertools.islice(_remove_entries(top), _BATCH_SIZE))
            if not sum(_flatten_and_remove(folder, top, names) for folder in folders):
                return  # the folder is empty, or nothing more can be removed
    finally:
        os.close(top)


def _remove_entries(folder: int) -> Iterator[str]:
    """Remove the entries of a folder. Yield the names of those that could not be removed, such as filled folders."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    os.rmdir(entry.name, dir_fd=folder)
                else:
                    os.unlink(entry.name, dir_fd=folder)
            except OSError:
                yield entry.name


def _flatten_and_remove(name: str, top: int, names: Iterator[str]) -> bool:
    """Remove a folder and move its subfolders up into ``top``. Return True if anything changed."""
    changed = False
    try:
        folder = open_writable_folder(name, top)
        try:
            for below in _remove_entries(folder):
                with suppress(OSError):
                    # A moved folder must be writable, because its ".." changes.
                    os.close(open_writable_folder(below, folder))
                    os.rename(below, next(names), src_dir_fd=folder, dst_dir_fd=top)
                    changed = True
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)
    except OSError:
        return changed
    return True


class WorkFolder:
    """A folder that a build can write to, held open and used from outside of the sandbox.

    Names are relative paths with ``/`` and without ``..``. Each component is opened beneath its parent.

    :param path: the folder. The build may write in it but must not be able to rename or replace it.
    :raises OSError: the folder does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._folder = open_folder(path)

    @classmethod
    def make(cls, path: Path) -> Self:
        """Create a folder and open it.

        :raises OSError: the path exists already, or the folder cannot be created.
        """
        path.mkdir(parents=True)
        return cls(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def make_folder(self, name: str) -> None:
        """Create a folder and its parents if they do not exist.

        :raises OSError: one of the names belongs to a file.
        """
        with self._opened_below(_split_path(name), _open_or_create_folder):
            pass

    def create(self, name: str, *, mode: int = 0o666) -> BinaryIO:
        """Create a file and its parent folders, and open it for writing. An existing file is replaced.

        :param mode: permissions, before the umask.
        :raises OSError: it cannot be created.
        """
        *folders, last = _split_path(name)
        with self._opened_below(folders, _open_or_create_folder) as folder:
            return create_file(last, folder, mode)

    @contextmanager
    def create_with_mtime(self, name: str, mtime: int, *, mode: int = 0o666) -> Iterator[BinaryIO]:
        """Create a file as ``create`` does, and set its modification time when the block ends.

        :param mtime: modification time, in seconds since 1970.
        """
        with self.create(name, mode=mode) as file:
            yield file
            file.flush()
            os.utime(file.fileno(), (mtime, mtime))

    def put(self, name: str, content: bytes) -> None:
        """Write a file atomically. An existing file is replaced.

        :raises OSError: it cannot be created.
        """
        *folders, last = _split_path(name)
        with self._opened_below(folders, _open_or_create_folder) as folder:
            temporary = f"{last}~"
            with create_file(temporary, folder, 0o666) as file:
                file.write(content)
            os.rename(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)

    def names(self, name: str) -> Generator[str]:
        """Yield the names of a folder's entries without collecting them: a build may create any number.

        :raises OutputError: there is no such folder.
        """
        try:
            with self._opened_below(_split_path(name), open_folder) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    yield entry.name
        except OSError as error:
            raise OutputError(f"the build removed or replaced its {name} folder") from error

    def chunks(self, name: str, most: int) -> Iterator[bytes]:
        """Yield the content of a regular file without other hard links, in pieces of at most 1 MiB.

        :param most: the largest allowed size in bytes, holes included.
        :raises OutputError: there is no such file, it is larger, or it changes during the read.
        """
        with self._open_file(name) as file:
            left = os.fstat(file.fileno()).st_size
            if left > most:
                raise OutputError(
                    f"{name} from the build has {left} bytes including holes; the limit is {most}",
                    remedy="raise engine.disk in matrix.yaml",
                )
            while left and (chunk := file.read(min(_CHUNK, left))):
                left -= len(chunk)
                yield chunk
            if left or file.read(1):
                raise OutputError(f"{name} changed while it was read: a process of the build is still running")

    def _open_file(self, name: str) -> BinaryIO:
        *folders, last = _split_path(name)
        try:
            with self._opened_below(folders, open_folder) as folder:
                file = open_file(last, folder)
        except OSError as error:
            raise OutputError(f"{last} from the build is missing or not a regular file") from error
        # A build without a sandbox can hard-link files of other users.
        if os.fstat(file.fileno()).st_nlink > 1:
            file.close()
            raise OutputError(f"{last} from the build has other hard links")
        return file

    @contextmanager
    def _opened_below(self, folders: list[str], open_component: Callable[[str, int], int]) -> Iterator[int]:
        """Yield the descriptor of a folder below this one. Each component is opened beneath its parent."""
        at = os.dup(self._folder)
        try:
            for name in folders:
                below = open_component(name, at)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)


def _open_or_create_folder(name: str, beneath: int) -> int:
    """Open a folder. Create it if it does not exist."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=beneath)
    return open_folder(name, beneath)


def _split_path(name: str) -> list[str]:
    parts = name.split("/")
    if {"", ".", ".."} & set(parts):
        raise ValueError(f"{name!r} is not a path below the folder")
    return parts
