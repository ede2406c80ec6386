"""Open one component, and no link."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting: for the other end of a pipe, or for somebody to give up a lease.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A folder that may not be read can be held all the same, where the system has it.
_HELD = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotRegularError(OSError):
    """There is something that has no content of its own: a link, a folder, a pipe, a device."""


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
    """Open a regular file for reading; what else there may be is not waited for.

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
    """Make a new file in the place of whatever has its name, which is never opened.

    :param mode: its permissions, less the umask.
    :raises OSError: there is a folder, or it cannot be made.
    """
    try:
        file = os.open(name, _NEW_FILE, mode, dir_fd=beneath)
    except FileExistsError:
        os.unlink(name, dir_fd=beneath)
        file = os.open(name, _NEW_FILE, mode, dir_fd=beneath)
    return os.fdopen(file, "wb")
