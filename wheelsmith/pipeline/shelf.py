"""What the phases of one step have made so far."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.errors import StoreError
from wheelsmith.files import sha256_file
from wheelsmith.model import Failure
from wheelsmith.pipeline.failures import StageFailed
from wheelsmith.store import Action, Damaged, Objects, Output


class Gone(Exception):  # it never leaves the pipeline: the file is made again
    """A file that was made is not there any more, or not as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A file: in the store, or in a folder of this run."""

    sha256: str
    size: int
    at: Path | Output


class Shelf:
    """Files by the names that phases know them by.

    :param folder: of this step's cell alone.
    :param objects: where what has a key is kept, or None to keep everything in the folder.
    """

    def __init__(self, folder: Path, objects: Objects | None) -> None:
        self._folder = folder
        self._objects = objects
        self._made: dict[str, _Made] = {}

    def digest(self, name: str) -> str:
        """Give the sha256 (hex) of a file's content."""
        return self._made[name].sha256

    def size(self, name: str) -> int:
        """Give a file's size in bytes; 0 for one that was not made, because what should make it failed."""
        made = self._made.get(name)
        return made.size if made else 0

    def content(self, name: str) -> bytes:
        """Give a file's content.

        :raises Gone: it must be made again.
        """
        at = self._made[name].at
        try:
            if isinstance(at, Path):
                return at.read_bytes()
            assert self._objects is not None  # noqa: S101  # nothing else puts an Output here
            return self._objects.read(at)
        except (Damaged, FileNotFoundError) as error:
            raise Gone(name) from error

    def take(self, action: Action, names: tuple[str, ...]) -> None:
        """Take files that the store has."""
        for name in names:
            output = action.outputs[name]
            self._made[name] = _Made(sha256=output.sha256, size=output.size, at=output)

    def put(self, key: str | None, made: dict[str, Path], lines: tuple[str, ...]) -> None:
        """Take files that a sandbox left, which are given away by it.

        :param key: what they are kept under in the store, with what was printed; None keeps them in the folder.
        """
        if key is not None and self._objects is not None:
            try:
                action = self._objects.put(key, {name: path.read_bytes() for name, path in made.items()}, lines)
            except OSError as error:
                raise StoreError(
                    f"the store of compiled pieces cannot be written: {error.strerror or error}",
                    remedy="free some disk or mend its permissions, or choose another place with WHEELSMITH_CACHE",
                ) from error
            self.take(action, tuple(made))
            return
        for name, path in made.items():
            kept = self._folder / name
            kept.parent.mkdir(parents=True, exist_ok=True)
            path.rename(kept)
            self._made[name] = _Made(sha256=sha256_file(kept), size=kept.stat().st_size, at=kept)

    def drop(self, name: str) -> None:
        """Remove a file of the folder; its digest stays known."""
        at = self._made[name].at
        if isinstance(at, Path):
            at.unlink(missing_ok=True)


def regular_file(path: Path) -> Path:
    """Give a file that a sandbox left, when it is a file indeed: a link would be followed out here.

    :raises StageFailed: it is something else.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        mode = 0
    if not stat.S_ISREG(mode):
        raise StageFailed(Failure(stage="compile", message=f"the compiler left no regular file {path.name}"))
    return path
