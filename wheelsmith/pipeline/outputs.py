"""What the phases of one step have made so far."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wheelsmith.base.errors import StoreError
from wheelsmith.store import Action, DamagedBlobError, Objects, Output


class OutputLostError(Exception):  # it never leaves the pipeline: the file is made again
    """A file that was made is not there any more, or not as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A file: in the store, or in a folder of this run."""

    sha256: str
    size: int
    at: Path | Output


class StepOutputs:
    """Files by the names that phases know them by.

    :param folder: of this step's cell alone, which no sandbox sees.
    :param objects: where what has a key is kept, or None to keep everything in the folder.
    """

    def __init__(self, folder: Path, objects: Objects | None) -> None:
        self._folder = folder
        self._objects = objects
        self._made: dict[str, _Made] = {}

    def digest(self, name: str) -> str:
        """Return the sha256 (hex) of a file's content."""
        return self._made[name].sha256

    def size(self, name: str) -> int:
        """Return a file's size in bytes; 0 for one that was not made, because what should make it failed."""
        made = self._made.get(name)
        return made.size if made else 0

    def copy(self, name: str, file: IO[bytes]) -> None:
        """Write a file's content to an open file.

        :raises OutputLostError: it must be made again; some of it may have been written.
        """
        at = self._made[name].at
        try:
            if isinstance(at, Path):
                with at.open("rb") as kept:
                    shutil.copyfileobj(kept, file)
                return
            assert self._objects is not None  # noqa: S101  # nothing else puts an Output here
            self._objects.copy(at, file)
        except (DamagedBlobError, FileNotFoundError) as error:
            raise OutputLostError(name) from error

    def take(self, action: Action, names: tuple[str, ...]) -> None:
        """Take files that the store has."""
        for name in names:
            output = action.outputs[name]
            self._made[name] = _Made(sha256=output.sha256, size=output.size, at=output)

    def put(self, key: str | None, made: Mapping[str, Iterable[bytes]], lines: tuple[str, ...]) -> None:
        """Take what a sandbox left: what is hashed is what is kept, whatever becomes of the file afterwards.

        :param made: file name → content, in pieces.
        :param key: what they are kept under in the store, with what was printed; None keeps them in the folder.
        """
        if key is not None and self._objects is not None:
            try:
                action = self._objects.put(key, made, lines)
            except OSError as error:
                raise StoreError(
                    f"the store of compiled pieces cannot be written: {error.strerror or error}",
                    remedy="free some disk or fix its permissions, or choose another place with WHEELSMITH_CACHE",
                ) from error
            self.take(action, tuple(made))
            return
        for name, content in made.items():
            self._made[name] = self._keep(name, content)

    def _keep(self, name: str, content: Iterable[bytes]) -> _Made:
        kept = self._folder / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with kept.open("wb") as file:
            for chunk in content:
                digest.update(chunk)
                file.write(chunk)
            size = file.tell()
        return _Made(sha256=digest.hexdigest(), size=size, at=kept)

    def drop(self, name: str) -> None:
        """Remove a file of the folder; its digest stays known."""
        at = self._made[name].at
        if isinstance(at, Path):
            at.unlink(missing_ok=True)
