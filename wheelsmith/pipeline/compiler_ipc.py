"""Calls of compilers that wait in a project's sandbox, and what they are told: files in a folder that both sides see.

Files and not a socket, because they are the same in a container and can be opened beneath a descriptor. The other side
is engine/backend/launcher.py, but whatever runs in the sandbox can write what it likes here.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder
from wheelsmith.base.errors import OutputError
from wheelsmith.base.json_dataclass import parse_json

_FOLDER = PurePosixPath(sandbox_paths.CALLS).name
_TICK = 0.01  # seconds between looks
_REST = 4  # times as long as looking took
_LONGEST_REQUEST = 1 << 16  # bytes; read, they may be twelve times as many
_LONGEST_ANSWER = 1 << 10
_LONGEST_TEXT = 1 << 30  # bytes of one source, preprocessed
_MOST_OPEN = 256  # calls that are answered at a time
_MOST_SEEN = 4096  # folders that are looked at, those of calls that were killed among them
_MOST = 200_000  # calls of one build; no honest one comes near


class BuildEndedError(Exception):  # it never leaves the pipeline
    """Nobody waits for an answer any more."""


class BuildOverdueError(Exception):  # it never leaves the pipeline
    """The build's own commands took longer than they may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerRequest:
    """What a compiler is called with.

    :param program: the name that was called.
    :param words: all that follows it.
    :param places: source → where it lies, all links followed.
    """

    program: str
    words: tuple[str, ...]
    places: dict[str, str]


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
    is_over: bool = False
    is_running: bool = False
    _answers: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, commands: tuple[tuple[str, ...], ...] | None) -> int:
        """Have commands run where the call was made, and return the exit code of the first that fails, or 0.

        :param commands: None runs the compiler itself, as it was called.
        :raises BuildEndedError: nobody waits any more: the build came to its end, or whoever called was killed.
        """
        with self._lock, WorkFolder(self.work) as folder:
            number = self._answer(folder, {} if commands is None else {"commands": commands})
            self.is_running = True
            try:
                return self._code(folder, f"{self._own}/done-{number}")
            finally:
                self.is_running = False

    def end(self, code: int, *, output: str = "", lines: tuple[str, ...] = ()) -> None:
        """End the call.

        :param code: its exit code.
        :param output: where it wants the object that is there, if one is.
        :param lines: what it prints.
        :raises BuildEndedError: as ``run`` does.
        """
        with self._lock, WorkFolder(self.work) as folder:
            self._answer(folder, {"code": code, "output": output, "lines": lines})
            self.is_over = True

    def path(self, name: str) -> str:
        """Return where a command in the sandbox finds a file of this call."""
        return f"{sandbox_paths.CALLS}/{self.name}/{name}"

    def read(self, name: str) -> Iterator[bytes]:
        """Yield what a command wrote there, in pieces."""
        with WorkFolder(self.work) as folder:
            yield from folder.chunks(f"{self._own}/{name}", _LONGEST_TEXT)

    def create_object(self) -> BinaryIO:
        """Open the object for writing."""
        with WorkFolder(self.work) as folder:
            return folder.create(f"{self._own}/object")

    def _code(self, folder: WorkFolder, path: str) -> int:
        while not self.ended.wait(_TICK):
            self._check_waited_for(folder)
            with suppress(OutputError, ValueError, TypeError, LookupError):
                return int(str(parse_json(b"".join(folder.chunks(path, _LONGEST_ANSWER)))["code"]))
        raise BuildEndedError

    @property
    def _own(self) -> str:
        return f"{_FOLDER}/{self.name}"

    def _check_waited_for(self, folder: WorkFolder) -> None:
        with closing(folder.names(self._own)) as names:
            try:
                next(names, None)
            except OutputError:
                self.is_over = True
                raise BuildEndedError from None

    def _answer(self, folder: WorkFolder, said: object) -> int:
        self._check_waited_for(folder)
        number, self._answers = self._answers, self._answers + 1
        folder.put(f"{self._own}/answer-{number}", json.dumps(said).encode())
        return number


class CallExchange:
    """The calls of one build.

    :param work: the build's folder, laid out.
    :param ended: set when its command is at its end.
    :param seconds: that its own commands may take; while it only waits for answers, nothing is counted.
    """

    def __init__(self, work: Path, ended: threading.Event, seconds: float) -> None:
        with WorkFolder(work) as folder:
            folder.make_folder(_FOLDER)
        self._work = work
        self._ended = ended
        self._seen = set[str]()
        self._open: list[WaitingCall] = []
        self._left = seconds
        self._counted = time.monotonic()

    def calls(self) -> Iterator[WaitingCall]:
        """Yield calls as they come, until the build ends.

        :raises OutputError: the build put something else in the folder's place, or calls without end.
        :raises BuildOverdueError: it has taken its time.
        """
        pause = _TICK
        while not self._ended.wait(pause):
            began = time.monotonic()
            self._open = [call for call in self._open if not call.is_over]
            self._count(began)
            with WorkFolder(self._work) as folder:
                there = set(itertools.islice(folder.names(_FOLDER), _MOST_SEEN))
                new = itertools.islice(self._new(folder, sorted(there - self._seen)), _MOST_OPEN - len(self._open))
                calls = list(new)
            self._open += calls
            yield from calls
            # Whatever lies there, other builds come to their turn.
            pause = max(_TICK, _REST * (time.monotonic() - began))
            if len(self._seen) > _MOST:
                raise OutputError(f"the build called compilers more than {_MOST} times")

    def _count(self, now: float) -> None:
        if not self._open or any(call.is_running for call in self._open):
            self._left -= now - self._counted
        self._counted = now
        if self._left < 0:
            raise BuildOverdueError

    def _new(self, folder: WorkFolder, names: list[str]) -> Iterator[WaitingCall]:
        """Yield the calls among names; one that cannot be understood is looked at once."""
        for name in names:
            with suppress(OutputError):
                text = b"".join(folder.chunks(f"{_FOLDER}/{name}/request", _LONGEST_REQUEST))
                self._seen.add(name)
                with suppress(ValueError, TypeError, LookupError):
                    yield WaitingCall(name=name, request=_request(text), work=self._work, ended=self._ended)


def _request(text: bytes) -> CompilerRequest:
    said = parse_json(text)
    program, words, places = said["program"], said["words"], said.get("places", {})
    if not isinstance(words, list) or not isinstance(places, dict):
        raise TypeError(text)
    if not all(isinstance(word, str) for word in (program, *words, *places.values())):
        raise TypeError(text)
    return CompilerRequest(program=program, words=tuple(words), places=places)
