"""Calls of compilers that wait in a project's sandbox, and what they are told: files in a folder that both sides see.

Files and not a socket, because they are the same in a container and can be opened beneath a descriptor. The other side
is engine/backend/launcher.py, but whatever runs in the sandbox can write what it likes here.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from wheelsmith.base import layout
from wheelsmith.base.beneath import WorkFolder
from wheelsmith.base.errors import OutputError

_FOLDER = PurePosixPath(layout.CALLS).name
_TICK = 0.01  # seconds between looks
_LONGEST_REQUEST = 1 << 20  # bytes
_LONGEST_ANSWER = 1 << 10
_LONGEST_TEXT = 1 << 30  # bytes of one source, preprocessed
_MOST_OPEN = 256  # calls that are answered at a time
_MOST = 200_000  # calls of one build; no honest one comes near


class BuildEndedError(Exception):  # it never leaves the pipeline
    """Nobody waits for an answer any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerRequest:
    """What a compiler is called with.

    :param program: the name that was called.
    :param words: all that follows it.
    """

    program: str
    words: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class WaitingCall:
    """One call that waits for answers.

    :param name: of its folder.
    :param work: the build's folder, laid out, which no build can replace.
    :param ended: set when the build's own command is at its end.
    """

    name: str
    request: CompilerRequest
    work: Path
    ended: threading.Event
    _answers: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, commands: tuple[tuple[str, ...], ...] | None) -> int:
        """Have commands run where the call was made, and return the exit code of the first that fails, or 0.

        :param commands: None runs the compiler itself, as it was called.
        :raises BuildEndedError: the build came to its end first.
        """
        with self._lock, WorkFolder(self.work) as folder:
            number = self._answer(folder, {} if commands is None else {"commands": commands})
            while not self.ended.wait(_TICK):
                with suppress(OutputError, ValueError, RecursionError, TypeError, LookupError):
                    return int(str(_read(folder, f"{self._own}/done-{number}", _LONGEST_ANSWER)["code"]))
        raise BuildEndedError

    def end(self, code: int, *, output: str = "", lines: tuple[str, ...] = ()) -> None:
        """End the call.

        :param code: its exit code.
        :param output: where it wants the object that is there, if one is.
        :param lines: what it prints.
        """
        with self._lock, WorkFolder(self.work) as folder:
            self._answer(folder, {"code": code, "output": output, "lines": lines})

    def path(self, name: str) -> str:
        """Return where a command in the sandbox finds a file of this call."""
        return f"{layout.CALLS}/{self.name}/{name}"

    def read(self, name: str) -> Iterator[bytes]:
        """Yield what a command wrote there, in pieces."""
        with WorkFolder(self.work) as folder:
            yield from folder.chunks(f"{self._own}/{name}", _LONGEST_TEXT)

    def create_object(self) -> BinaryIO:
        """Open the object for writing."""
        with WorkFolder(self.work) as folder:
            return folder.create(f"{self._own}/object")

    @property
    def _own(self) -> str:
        return f"{_FOLDER}/{self.name}"

    def _answer(self, folder: WorkFolder, said: object) -> int:
        number, self._answers = self._answers, self._answers + 1
        folder.put(f"{self._own}/answer-{number}", json.dumps(said).encode())
        return number


class CallExchange:
    """The calls of one build.

    :param work: the build's folder, laid out.
    :param ended: set when its command is at its end.
    """

    def __init__(self, work: Path, ended: threading.Event) -> None:
        with WorkFolder(work) as folder:
            folder.make_folder(_FOLDER)
        self._work = work
        self._ended = ended
        self._seen = set[str]()

    def calls(self) -> Iterator[WaitingCall]:
        """Yield calls as they come, until the build ends.

        :raises OutputError: the build put something else in the folder's place, or calls without end.
        """
        while not self._ended.wait(_TICK):
            with WorkFolder(self._work) as folder:
                there = set(itertools.islice(folder.names(_FOLDER), _MOST_OPEN))
                new = {name: request for name in sorted(there - self._seen) if (request := self._request(folder, name))}
            for name, request in new.items():
                self._seen.add(name)
                yield WaitingCall(name=name, request=request, work=self._work, ended=self._ended)
            if len(self._seen) > _MOST:
                raise OutputError(f"the build called compilers more than {_MOST} times")

    def _request(self, folder: WorkFolder, name: str) -> CompilerRequest | None:
        """Return what is asked, once it is there and can be understood."""
        with suppress(OutputError, ValueError, RecursionError, TypeError, LookupError):
            said = _read(folder, f"{_FOLDER}/{name}/request", _LONGEST_REQUEST)
            program, words = said["program"], said["words"]
            if isinstance(program, str) and isinstance(words, list) and all(isinstance(word, str) for word in words):
                return CompilerRequest(program=program, words=tuple(words))
        return None


def _read(folder: WorkFolder, name: str, most: int) -> dict[str, object]:
    said = json.loads(b"".join(folder.chunks(name, most)))
    if not isinstance(said, dict):
        raise TypeError(name)
    return said
