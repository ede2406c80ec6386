"""A cache that several machines share: the files of the local cache under the same names, in a bucket or a folder.

A remote cache only saves time. If it is slow, full, damaged or not available, the run continues without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import Protocol, TypeVar

from wheelsmith.base.errors import AttestationError, WheelsmithError
from wheelsmith.base.files import atomic_write
from wheelsmith.base.units import counted
from wheelsmith.model import Listener, Notice

T = TypeVar("T")
# Keys of files that another version of wheelsmith would read differently begin with another number.
_LAYOUT = "v1"
# Seconds that a run waits for slow answers, all together. Then it stops reading.
PATIENCE = 30.0
# Seconds that the end of a run waits for its last writes.
LAST_WRITES = 30.0
_ANSWER = 10.0  # seconds in which a request must be answered, in addition to the time for its bytes
_SLOWEST = 1e6  # bytes per second
_QUICK = 0.5  # seconds; an answer in this time, and the time for its bytes, is not slow
_MAX_DAMAGED = 3  # files
_WRITERS = 4


class RemoteEntry(Protocol):
    """A file in a listing."""

    @property
    def size(self) -> int:
        """Return its size in bytes."""


class RemoteContent(Protocol):
    """A file that was read."""

    @property
    def data(self) -> bytes:
        """Return its content."""


class RemoteFiles(Protocol):
    """The few operations that a remote cache needs. Each may raise a ``WheelsmithError``."""

    @property
    def name(self) -> str:
        """Return the address without credentials."""

    def stat(self, key: str) -> RemoteEntry | None:
        """Return the size of a file, or None if it does not exist."""

    def read(self, key: str) -> RemoteContent | None:
        """Return a file, or None if it does not exist.

        :raises AttestationError: it must not be used.
        """

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file."""


class RemoteCache:
    """Reads the files that the local cache lacks, and writes new ones in the background.

    The first failure ends reading or writing for the rest of the run, with one warning. Threads are daemons, so that a
    host that never answers cannot delay the end of the process.

    :param is_written: False for a run that only reads.
    :ivar is_read: False after a failure.
    """

    def __init__(self, files: RemoteFiles, listen: Listener, *, is_written: bool = True) -> None:
        self._files = files
        self._listen = listen
        self._lock = threading.Lock()
        self._waited = 0.0
        self._damaged: set[str] = set()
        # None ends a thread.
        self._writing: Queue[tuple[Sequence[tuple[str, Path | bytes]], Future[None]] | None] = Queue()
        self._written: list[Future[None]] = []
        self.is_read, self._is_written = True, is_written

    def fetch(self, key: str, path: Path, most: int) -> bool:
        """Copy a file to ``path``. The caller must verify its content. Return False if it is not available.

        :param most: bytes; a larger file is damaged.
        """
        if not self.is_read:
            return False
        start, size, data = time.monotonic(), 0, None
        try:
            entry = _in_time(lambda: self._files.stat(_key(key)), _ANSWER)
            size = entry.size if entry else 0
            if size > most:
                self.report_damage(key)
            elif entry:
                content = _in_time(lambda: self._files.read(_key(key)), _ANSWER + size / _SLOWEST)
                data = content.data if content else None
        except TimeoutError:
            self._stop_reading("it answers too slowly")
        except AttestationError as error:
            self._warn(f"{_key(key)} is not used: {error.message}")
            self.report_damage(key)
        except WheelsmithError as error:
            self._stop_reading(error.message)
        self._lose_patience(time.monotonic() - start - _QUICK - size / _SLOWEST)
        if data is None:
            return False
        with suppress(OSError):  # a local cache that cannot be written is reported by its own writers
            atomic_write(path, data)
            return True
        return False

    def report_damage(self, key: str) -> None:
        """Record that the content of a file is wrong, so that it is replaced."""
        with self._lock:
            self._damaged.add(_key(key))
            count = len(self._damaged)
        if count >= _MAX_DAMAGED:
            self._stop_reading(f"{counted(count, 'file')} had the wrong content")

    def send(self, files: Sequence[tuple[str, Path | bytes]]) -> None:
        """Write files in the background, in this order. Files that exist are not written again."""
        if not self._is_written:
            return
        with self._lock:
            if len(self._written) < _WRITERS:
                threading.Thread(target=self._write_all, name="remote-cache", daemon=True).start()
            done = Future[None]()
            self._written.append(done)
        self._writing.put((files, done))

    def close(self) -> None:
        """Wait for the writes for a limited time."""
        wait(self._written, LAST_WRITES)
        left = sum(not done.done() for done in self._written)
        if left and self._is_written:
            self._stop_writing(f"{counted(left, 'result')} could not be written in time")
        for _ in self._written[:_WRITERS]:
            self._writing.put(None)
        self._written.clear()

    def _write_all(self) -> None:
        while item := self._writing.get():
            files, done = item
            try:
                for key, content in files:
                    if self._is_written and (_key(key) in self._damaged or self._files.stat(_key(key)) is None):
                        self._files.put(_key(key), content)
            except WheelsmithError as error:
                self._stop_writing(error.message)
            except OSError as error:  # the local file was pruned
                self._stop_writing(error.strerror or str(error))
            done.set_result(None)

    def _lose_patience(self, seconds: float) -> None:
        with self._lock:
            self._waited += max(0.0, seconds)
        if self._waited > PATIENCE:
            self._stop_reading("it answers too slowly")

    def _stop_reading(self, why: str) -> None:
        with self._lock:
            told, self.is_read = not self.is_read, False
        if not told:
            self._warn(f"it is not read any more: {why}")

    def _stop_writing(self, why: str) -> None:
        with self._lock:
            told, self._is_written = not self._is_written, False
        if not told:
            self._warn(f"nothing more is written to it: {why}")

    def _warn(self, text: str) -> None:
        self._listen(Notice(level="warning", text=f"remote cache {self._files.name}: {text}"))


def _key(name: str) -> str:
    return f"{_LAYOUT}/{name}"


def _in_time(work: Callable[[], T], seconds: float) -> T:
    """Return the result of ``work``.

    :raises TimeoutError: it takes longer than ``seconds``. It continues in a daemon thread.
    """
    answer = Future[T]()

    def run() -> None:
        try:
            answer.set_result(work())
        except Exception as error:  # noqa: BLE001  # raised again in the calling thread
            answer.set_exception(error)

    threading.Thread(target=run, name="remote-cache-read", daemon=True).start()
    return answer.result(seconds)
