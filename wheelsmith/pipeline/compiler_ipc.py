"""Exchange requests and answers with the compiler proxy in a project's sandbox, through files in a shared folder.

Files work in all engines and can be opened beneath a descriptor, unlike sockets. The other side is
engine/backend/launcher.py, but every process in the sandbox can write to the folder, so its content is untrusted.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder
from wheelsmith.base.errors import OutputError
from wheelsmith.base.json_dataclass import parse_json

_FOLDER = PurePosixPath(sandbox_paths.CALLS).name
_TICK = 0.01  # minimum seconds between polls
_LONGEST_PAUSE = 0.1  # maximum seconds between polls of a build that makes no call
_IDLE_FACTOR = 0.25  # until then, the pause is this part of the time since the last call
_PAUSE_FACTOR = 4  # the pause after a poll is at least this many times its duration
_MAX_REQUEST = 1 << 16  # bytes; parsed, it may use twelve times as much memory
_MAX_ANSWER = 1 << 10
_MAX_TEXT = 1 << 30  # bytes of one source, preprocessed
_MAX_OPEN = 256  # open calls
_MAX_LISTED = 4096  # folders that are listed in each poll, including those of killed calls
_MAX_CALLS = 200_000  # calls of one build, far more than real builds make
# Paths of sources become folders outside of the sandbox. Linux limits the bytes of a name and of a path.
_TOO_LONG = re.compile(rb"([^/]*/){128}|(.*/)?[^/]{256}|.{4097}", re.DOTALL)
# What no argument of a program contains. Other lone surrogates stand for bytes that are not UTF-8.
_IMPOSSIBLE = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")


class RefusedError(OutputError):
    """No compiler call of a real build is like this, or the build blocks the answer."""


class BuildEndedError(Exception):  # always caught in the pipeline
    """The caller no longer waits for an answer."""


class BuildOverdueError(Exception):  # always caught in the pipeline
    """The build's own commands exceeded their time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerRequest:
    """An intercepted compiler call.

    :param program: name of the compiler, or the called path if the environment changes how the compiler works.
    :param words: the arguments.
    :param places: source file → its real path.
    """

    program: str
    words: tuple[str, ...]
    places: dict[str, str]


@dataclass(slots=True, kw_only=True)
class PendingCall:
    """A compiler call that waits for answers.

    :param name: name of its folder.
    :param work: work folder of the build. The build cannot replace it.
    :param ended: set when the command of the build has ended.
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
        """Let the proxy run commands in the sandbox, and return the exit code of the first that fails, or 0.

        :param commands: None runs the original call.
        :raises BuildEndedError: the build has ended, or the caller was killed.
        """
        with self._lock, WorkFolder(self.work) as folder:
            number = self._answer(folder, {} if commands is None else {"commands": commands})
            self.is_running = True
            try:
                return self._wait_for_code(folder, f"{self._own_folder}/done-{number}")
            finally:
                self.is_running = False

    def end(self, code: int, *, output: str = "", lines: tuple[str, ...] = ()) -> None:
        """End the call.

        :param code: exit code of the call.
        :param output: path to which the proxy copies the object; empty if there is none.
        :param lines: lines to print.
        :raises BuildEndedError: the build has ended, or the caller was killed.
        """
        with self._lock, WorkFolder(self.work) as folder:
            self._answer(folder, {"code": code, "output": output, "lines": lines})
            self.is_over = True

    def path(self, name: str) -> str:
        """Return the path in the sandbox of a file of this call."""
        return f"{sandbox_paths.CALLS}/{self.name}/{name}"

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file of this call in chunks."""
        with WorkFolder(self.work) as folder:
            yield from folder.chunks(f"{self._own_folder}/{name}", _MAX_TEXT)

    def create_object(self) -> BinaryIO:
        """Create the object file of this call and open it for writing."""
        with WorkFolder(self.work) as folder, _refusing():
            return folder.create(f"{self._own_folder}/object")

    def _wait_for_code(self, folder: WorkFolder, path: str) -> int:
        while not self.ended.wait(_TICK):
            self._check_caller(folder)
            with suppress(OutputError, ValueError, TypeError, LookupError):
                return int(str(parse_json(b"".join(folder.chunks(path, _MAX_ANSWER)))["code"]))
        raise BuildEndedError

    @property
    def _own_folder(self) -> str:
        return f"{_FOLDER}/{self.name}"

    def _check_caller(self, folder: WorkFolder) -> None:
        with closing(folder.names(self._own_folder)) as names:
            try:
                next(names, None)
            except OutputError:
                self.is_over = True
                raise BuildEndedError from None

    def _answer(self, folder: WorkFolder, data: object) -> int:
        self._check_caller(folder)
        number = self._answers
        with _refusing():
            folder.put(f"{self._own_folder}/answer-{number}", json.dumps(data).encode())
        self._answers += 1
        return number


@contextmanager
def _refusing() -> Iterator[None]:
    """Convert the error of a file that the build does not let wheelsmith write."""
    try:
        yield
    except OSError as error:
        raise RefusedError(f"the answer to a compiler call cannot be written: {error.strerror}") from error


class CallExchange:
    """The compiler calls of one build.

    :param work: work folder of the build.
    :param ended: set when the command of the build has ended.
    :param seconds: time limit of the build's own commands. The time that it only waits for answers does not count.
    """

    def __init__(self, work: Path, ended: threading.Event, seconds: float) -> None:
        with WorkFolder(work) as folder:
            folder.make_folder(_FOLDER)
        self._work = work
        self._ended = ended
        self._seen = set[str]()
        self._open: list[PendingCall] = []
        self._left = seconds
        self._counted = time.monotonic()

    def calls(self) -> Iterator[PendingCall]:
        """Yield new calls until the build ends.

        :raises OutputError: the build replaced the folder, or made too many calls or an impossible one.
        :raises BuildOverdueError: the build exceeded its time limit.
        """
        pause, last = _TICK, time.monotonic()
        while not self._ended.wait(pause):
            began = time.monotonic()
            self._open = [call for call in self._open if not call.is_over]
            self._count_time(began)
            with WorkFolder(self._work) as folder:
                listed = set(itertools.islice(folder.names(_FOLDER), _MAX_LISTED))
                new = itertools.islice(
                    self._read_new_calls(folder, sorted(listed - self._seen)), _MAX_OPEN - len(self._open)
                )
                calls = list(new)
            self._open += calls
            yield from calls
            now = time.monotonic()
            last = now if calls else last
            # Polls cost a tenth of a core for each build, so there are fewer while its calls wait for compilers.
            # A build with many files in this folder must not slow down the others.
            pause = max(_TICK, min(_LONGEST_PAUSE, _IDLE_FACTOR * (now - last)), _PAUSE_FACTOR * (now - began))
            if len(self._seen) > _MAX_CALLS:
                raise OutputError(f"the build called compilers more than {_MAX_CALLS} times")

    def _count_time(self, now: float) -> None:
        if not self._open or any(call.is_running for call in self._open):
            self._left -= now - self._counted
        self._counted = now
        if self._left < 0:
            raise BuildOverdueError

    def _read_new_calls(self, folder: WorkFolder, names: list[str]) -> Iterator[PendingCall]:
        """Yield the calls in the folders of these names. A malformed request is read only once."""
        for name in names:
            try:
                text = b"".join(folder.chunks(f"{_FOLDER}/{name}/request", _MAX_REQUEST))
            except OutputError:
                continue
            self._seen.add(name)
            with suppress(ValueError, TypeError, LookupError):
                yield PendingCall(name=name, request=_request(text), work=self._work, ended=self._ended)


def _request(text: bytes) -> CompilerRequest:
    data = parse_json(text)
    program, words, places = data["program"], data["words"], data.get("places", {})
    if not isinstance(words, list) or not isinstance(places, dict):
        raise TypeError(text)
    texts = (program, *words, *places.values())
    if not all(isinstance(word, str) for word in texts):
        raise TypeError(text)
    if any(map(_IMPOSSIBLE.search, texts)):
        raise RefusedError("the build called a compiler with an argument that contains NUL or a lone surrogate")
    for path in (*places.values(), *(word for word in words if word.endswith(".cu"))):
        if _TOO_LONG.match(path.encode(errors="surrogateescape")):
            raise RefusedError(f"the build called a compiler with a path that is too long: {path[:100]}…")
    return CompilerRequest(program=program, words=tuple(words), places=places)
