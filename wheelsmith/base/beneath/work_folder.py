"""A folder that commands in a sandbox write to, used from outside of the sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from wheelsmith.base.beneath.opening import make_file, open_file, open_folder
from wheelsmith.base.errors import OutputError

_CHUNK = 1 << 20  # bytes


class WorkFolder:
    """A folder that a build can write to, held open.

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
        """Yield the names of what is in a folder, as they come: there may be any number.

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
