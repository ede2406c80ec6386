"""Open and remove what a build could have written, and nothing that lies elsewhere.

A build may put a link, a pipe or another file wherever it can write, at any moment: also after a check, and, if one of
its processes survives, after its end. So a folder that it can write to is held by a descriptor; each further component
is opened beneath the one before it, no link is ever followed, nothing that is there already is opened for writing, and
what is read once is what is hashed and kept. Everything else in wheelsmith uses this module; a test keeps it so.

openat2(2) has RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS for this, but Python has no function for it, and older containers
refuse it, so there would have to be a second way in any case: one component after another.
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
# Without waiting: for the other end of a pipe, or for somebody to give up a lease.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A folder that may not be read can be held all the same, where the system has it.
_HELD = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Folders in folders that are gone into; each costs a descriptor or two. No honest tree comes near.
_DEEPEST = 128
_BLOCK = 4096  # bytes that whatever has a name takes at the least
_SECTOR = 512  # bytes; st_blocks counts these, whatever the file system's own are
_TURN = 10_000  # folders whose names are kept in memory at a time
_MOST_TURNS = 10_000  # a process that goes on writing must not keep us for ever
_CHUNK = 1 << 20  # bytes

# How deep it is, the descriptor of the folder that it is in, and itself.
_Found = tuple[int, int, os.DirEntry[str]]


class NotRegularError(OSError):
    """It is no regular file but a link, a folder, a pipe or a device."""


def open_folder(name: str | Path, beneath: int | None = None) -> int:
    """Return a descriptor of a folder; one that its owner may not read is made readable first.

    :param beneath: the folder that it is in; without it, ``name`` is a path that is followed up to its last component.
    :raises OSError: it is not there, or is no folder.
    """
    try:
        return os.open(name, _FOLDER, dir_fd=beneath)
    except PermissionError:
        held = os.open(name, _HELD, dir_fd=beneath)
        try:
            # Not by its name, which may be another's by now; fchmod takes no such descriptor.
            Path(f"/proc/self/fd/{held}").chmod(0o700)
            return os.open(".", _FOLDER, dir_fd=held)
        finally:
            os.close(held)


def open_writable_folder(name: str | Path, beneath: int | None = None) -> int:
    """Return a descriptor of a folder whose entries its owner may now remove.

    :param beneath: as for ``open_folder``.
    :raises OSError: it is not there, or is no folder.
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
    """Open a regular file for reading, without waiting for anything else.

    :param beneath: the folder that it is in; without it, ``name`` is a path that is followed up to its last component.
    :raises NotRegularError: it is something else.
    :raises OSError: it is not there, or cannot be read.
    """
    # Looked at before, as opening some devices has effects, and after, as it may have become another.
    _check_regular(os.stat(name, dir_fd=beneath, follow_symlinks=False), name)
    file = os.fdopen(os.open(name, _FILE, dir_fd=beneath), "rb")
    try:
        _check_regular(os.fstat(file.fileno()), name)
    except BaseException:
        file.close()
        raise
    return file


def _check_regular(found: os.stat_result, name: str | Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotRegularError(f"{name} is not a regular file")


def make_file(name: str, beneath: int, mode: int) -> BinaryIO:
    """Make a new file, replacing any other of its name, which is never opened.

    :param mode: its permissions, less the umask.
    :raises OSError: there is a folder, or it cannot be made.
    """
    try:
        file = os.open(name, _NEW_FILE, mode, dir_fd=beneath)
    except FileExistsError:
        os.unlink(name, dir_fd=beneath)
        file = os.open(name, _NEW_FILE, mode, dir_fd=beneath)
    return os.fdopen(file, "wb")


def apparent_size(folder: Path, most: int = sys.maxsize) -> int:
    """Return the bytes that a folder holds, holes counted; sys.maxsize if it is too deep.

    Every entry counts as a block at least, because it takes an inode.

    :param most: bytes at which counting stops. A process that makes and removes files while they are counted cannot
        keep it going below that.
    """
    total = 0
    with suppress(OSError):
        for depth, _, entry in _entries(folder):
            with suppress(OSError):  # it went away while we looked
                found = entry.stat(follow_symlinks=False)
                held = found.st_blocks * _SECTOR
                total += max(held, found.st_size if stat.S_ISREG(found.st_mode) else 0, _BLOCK)
                if total > most:
                    return total
                if depth == _DEEPEST and stat.S_ISDIR(found.st_mode):
                    return sys.maxsize
    return total


def statuses(path: Path) -> Iterator[os.stat_result]:
    """Yield the status of a file, or of a folder and all in it that is not too deep."""
    with suppress(OSError):
        found = path.lstat()
        yield found
        if stat.S_ISDIR(found.st_mode):
            for _, _, entry in _entries(path):
                with suppress(OSError):  # it went away while we looked
                    yield entry.stat(follow_symlinks=False)


def make_read_only(root: Path, *, age: int | None = None) -> None:
    """Take write permission from a folder and every file and folder in it; files keep their exec bits.

    :param age: seconds since 1970, when every file is to have been changed last; None leaves them as they are.
    :raises OSError: it is not there, or somebody else's.
    """
    for _, folder, entry in _entries(root):
        if entry.is_file(follow_symlinks=False):
            with open_file(entry.name, folder) as file:
                if age is not None:
                    os.utime(file.fileno(), (age, age))
                os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o555)
        elif entry.is_dir(follow_symlinks=False):
            _protect(open_folder(entry.name, folder))
    _protect(open_folder(root))


def remove_tree(root: Path) -> None:
    """Remove a folder, read-only ones included, or the link in its place.

    What is already gone, or cannot be removed, is no error.
    """
    with suppress(OSError):
        parent = open_folder(root.parent.resolve())
        try:
            with suppress(NotADirectoryError):
                _empty(root.name, parent)
                os.rmdir(root.name, dir_fd=parent)
                return
            os.unlink(root.name, dir_fd=parent)
        finally:
            os.close(parent)


def _protect(folder: int) -> None:
    try:
        os.fchmod(folder, 0o555)
    finally:
        os.close(folder)


def _entries(root: Path) -> Iterator[_Found]:
    """Yield the entries of a folder, at any depth, each folder before its own."""
    return _below(open_folder(root), 1)


def _below(folder: int, depth: int) -> Iterator[_Found]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield depth, folder, entry
                if depth < _DEEPEST and entry.is_dir(follow_symlinks=False):
                    with suppress(OSError):  # it went away, or is something else by now
                        yield from _below(open_folder(entry.name, folder), depth + 1)
    finally:
        os.close(folder)


def _empty(name: str, parent: int) -> None:
    """Remove the entries of a folder.

    Folders in its folders are moved up into it before they are removed, so none is deep and two are open at a time.
    """
    top = open_writable_folder(name, parent)
    try:
        names = (f".{secrets.token_hex(8)}" for _ in itertools.count())
        for _ in range(_MOST_TURNS):
            folders = list(itertools.islice(_clear(top), _TURN))
            if not sum(_dissolve(folder, top, names) for folder in folders):
                return  # nothing is left, or nothing that would go
    finally:
        os.close(top)


def _clear(folder: int) -> Iterator[str]:
    """Remove the entries of a folder; yield the names of folders that are not empty."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    os.rmdir(entry.name, dir_fd=folder)
                else:
                    os.unlink(entry.name, dir_fd=folder)
            except OSError:
                yield entry.name


def _dissolve(name: str, top: int, names: Iterator[str]) -> bool:
    """Remove a folder, moving those in it up beside it; return True if that changed anything."""
    changed = False
    try:
        folder = open_writable_folder(name, top)
        try:
            for below in _clear(folder):
                with suppress(OSError):
                    # A folder that goes elsewhere must be writable itself, as its ".." changes.
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

    Names in it are paths with ``/`` that lead down: each component is opened beneath the one before it.

    :param path: of a folder that no build can rename or replace, whatever it may do inside.
    :raises OSError: there is no such folder.
    """

    def __init__(self, path: Path) -> None:
        self._folder = open_folder(path)

    @classmethod
    def make(cls, path: Path) -> Self:
        """Make a new folder and open it.

        :raises OSError: there is something already, or it cannot be made.
        """
        path.mkdir(parents=True)
        return cls(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def make_folder(self, name: str) -> None:
        """Make a folder and those that it is in, where they are not there yet.

        :raises OSError: something else has the name.
        """
        with self._below(_parts(name), _enter_made):
            pass

    def create(self, name: str, *, mode: int = 0o666) -> BinaryIO:
        """Open a new file for writing, in the place of what has its name, making the folders that it is in.

        :param mode: its permissions, less the umask.
        :raises OSError: it cannot be made.
        """
        *folders, last = _parts(name)
        with self._below(folders, _enter_made) as folder:
            return make_file(last, folder, mode)

    @contextmanager
    def create_aged(self, name: str, seconds: int, *, mode: int = 0o666) -> Iterator[BinaryIO]:
        """Open a new file as ``create`` does, and give it an age once it is written.

        :param seconds: since 1970, when it is to have been changed last.
        """
        with self.create(name, mode=mode) as file:
            yield file
            file.flush()
            os.utime(file.fileno(), (seconds, seconds))

    def put(self, name: str, content: bytes) -> None:
        """Write a file that appears whole, in the place of what has its name.

        :raises OSError: it cannot be made.
        """
        *folders, last = _parts(name)
        with self._below(folders, _enter_made) as folder:
            half = f"{last}~"
            with make_file(half, folder, 0o666) as file:
                file.write(content)
            os.rename(half, last, src_dir_fd=folder, dst_dir_fd=folder)

    def names(self, name: str) -> Generator[str]:
        """Yield the names of a folder's entries as they come: there may be any number.

        :raises OutputError: there is no such folder.
        """
        try:
            with self._below(_parts(name), open_folder) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    yield entry.name
        except OSError as error:
            raise OutputError(f"the build replaced its {name} folder by something else") from error

    def chunks(self, name: str, most: int) -> Iterator[bytes]:
        """Yield the content of a regular file, which has no other name, in pieces of at most a MiB.

        :param most: bytes that it may have, holes counted.
        :raises OutputError: there is no such file, it is larger, or it changes meanwhile.
        """
        with self._open(name) as file:
            left = os.fstat(file.fileno()).st_size
            if left > most:
                raise OutputError(
                    f"the build left {name} of {left} bytes, holes counted, and may write {most}",
                    remedy="raise engine.disk in matrix.yaml",
                )
            while left and (chunk := file.read(min(_CHUNK, left))):
                left -= len(chunk)
                yield chunk
            if left or file.read(1):
                raise OutputError(f"{name} changed while it was read: something of the build is still at work")

    def _open(self, name: str) -> BinaryIO:
        *folders, last = _parts(name)
        try:
            with self._below(folders, open_folder) as folder:
                file = open_file(last, folder)
        except OSError as error:
            raise OutputError(f"what the build left as {last} is not one regular file") from error
        # Where nothing confines a build, it may give names of its own to the files of others.
        if os.fstat(file.fileno()).st_nlink > 1:
            file.close()
            raise OutputError(f"what the build left as {last} is not one regular file: it has other names")
        return file

    @contextmanager
    def _below(self, folders: list[str], enter: Callable[[str, int], int]) -> Iterator[int]:
        """Yield the descriptor of a folder below this one, reached by opening one after another."""
        at = os.dup(self._folder)
        try:
            for name in folders:
                below = enter(name, at)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)


def _enter_made(name: str, beneath: int) -> int:
    """Open a folder, making it where it is not there."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=beneath)
    return open_folder(name, beneath)


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if {"", ".", ".."} & set(parts):
        raise ValueError(f"{name!r} does not lead down")
    return parts
