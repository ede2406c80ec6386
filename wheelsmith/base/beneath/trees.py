"""Whole trees: weigh, protect and remove them, however wide, deep or restless they are."""

from __future__ import annotations

import itertools
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from wheelsmith.base.beneath.opening import open_file, open_folder, open_writable_folder

# Folders in folders that are gone into; each costs a descriptor or two. No honest tree comes near.
_DEEPEST = 128
_BLOCK = 4096  # bytes that whatever has a name takes at the least
_SECTOR = 512  # bytes; st_blocks counts these, whatever the file system's own are
_TURN = 10_000  # folders whose names are kept in memory at a time
_MOST_TURNS = 10_000  # a process that goes on writing must not keep us for ever

# How deep it is, the descriptor of the folder that it is in, and itself.
_Found = tuple[int, int, os.DirEntry[str]]


def apparent_size(folder: Path, most: int = sys.maxsize) -> int:
    """Return the bytes that a folder holds, holes counted; sys.maxsize where it is too deep to be gone into.

    Whatever has a name counts as a block, because it takes one of the inodes.

    :param most: bytes at which it is enough to know that there are more. Who makes and removes files as they are
        counted can keep a look going for ever, but not below any sum.
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
    """Yield what lstat says of a file, or of a folder and of all in it that is not too deep to be gone into."""
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
    """Remove a folder, read-only ones included, or the link in its place; what is already gone is no mistake.

    What will not go stays.
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
    """Yield what is in a folder, at any depth, each folder before what is in it."""
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
    """Remove what is in a folder.

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
    """Remove what is in a folder, and yield the names of the folders in it that are not empty."""
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
    """Remove a folder, moving those in it up beside it, and say whether that changed anything."""
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
