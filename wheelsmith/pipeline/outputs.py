"""The output files of the phases of one compile step."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wheelsmith.base.errors import StoreError
from wheelsmith.store import Action, DamagedBlobError, Objects, Output


class OutputLostError(Exception):  # always caught: the file is created again
    """An output file is missing or damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredFile:
    """A file in the store or in a folder of this run."""

    sha256: str
    size: int
    location: Path | Output


class StepOutputs:
    """The output files of one compile step, by the names that its phases use.

    :param folder: folder of this cell that no sandbox can access.
    :param objects: the store for files with a key; None keeps all files in the folder.
    """

    def __init__(self, folder: Path, objects: Objects | None) -> None:
        self._folder = folder
        self._objects = objects
        self._files: dict[str, _StoredFile] = {}

    def digest(self, name: str) -> str:
        """Return the sha256 of a file in hex."""
        return self._files[name].sha256

    def size(self, name: str) -> int:
        """Return the size of a file in bytes; 0 if the job that creates it failed."""
        file = self._files.get(name)
        return file.size if file else 0

    def copy(self, name: str, file: IO[bytes]) -> None:
        """Write the content of a file to an open file.

        :raises OutputLostError: the file must be created again. Part of it may have been written.
        """
        location = self._files[name].location
        try:
            if isinstance(location, Path):
                with location.open("rb") as stored:
                    shutil.copyfileobj(stored, file)
                return
            assert self._objects is not None  # noqa: S101  # only a store gives an Output
            self._objects.copy(location, file)
        except (DamagedBlobError, FileNotFoundError) as error:
            raise OutputLostError(name) from error

    def add_stored(self, action: Action, names: tuple[str, ...]) -> None:
        """Add files from the store.

        :param action: the stored result.
        :param names: the files to add.
        """
        for name in names:
            output = action.outputs[name]
            self._files[name] = _StoredFile(sha256=output.sha256, size=output.size, location=output)

    def put(self, key: str | None, made: Mapping[str, Iterable[bytes]], lines: tuple[str, ...]) -> None:
        """Store files from a sandbox. The hash is of the stored bytes, even if the sandbox changes the file later.

        :param key: cache key in the store; None keeps the files in the folder.
        :param made: file name → chunks of its content.
        :param lines: the lines that the command printed.
        :raises StoreError: the store cannot be written.
        """
        if key is not None and self._objects is not None:
            try:
                action = self._objects.put(key, made, lines)
            except OSError as error:
                raise StoreError(
                    f"the cache of compiled objects cannot be written: {error.strerror or error}",
                    remedy="free disk space or fix its permissions, or set WHEELSMITH_CACHE to another folder",
                ) from error
            self.add_stored(action, tuple(made))
            return
        for name, content in made.items():
            self._files[name] = self._keep(name, content)

    def _keep(self, name: str, content: Iterable[bytes]) -> _StoredFile:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with path.open("wb") as file:
            for chunk in content:
                digest.update(chunk)
                file.write(chunk)
            size = file.tell()
        return _StoredFile(sha256=digest.hexdigest(), size=size, location=path)

    def drop(self, name: str) -> None:
        """Remove a file from the folder, but keep its digest."""
        location = self._files[name].location
        if isinstance(location, Path):
            location.unlink(missing_ok=True)
