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
LAST_WRITES = 15.0
_ANSWER = 5.0  # seconds in which a request must be answered, in addition to the time for its bytes
_SLOWEST = 1e6  # bytes per second
_QUICK = 0.5  # seconds; an answer in this time, and the time for its bytes, is not slow
_MAX_FAILURES = 3  # of reading, and of writing
_WRITERS = 4
_SLOW = "it answers too slowly"


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


class _Attempts:
    """Reading or writing, which ends after some failures."""

    def __init__(self, *, is_active: bool = True) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self.is_active = is_active

    def fail(self) -> None:
        """Count a failure."""
        with self._lock:
            self._failures += 1
            self.is_active = self.is_active and self._failures < _MAX_FAILURES


class RemoteCache:
    """Reads the files that the local cache lacks, and writes new ones in the background.

    Each kind of failure is told once. The third one ends reading or writing for the rest of the run. Threads are
    daemons, so that a host that never answers cannot delay the end of the process.

    :param is_written: False for a run that only reads.
    """

    def __init__(self, files: RemoteFiles, listen: Listener, *, is_written: bool = True) -> None:
        self._files = files
        self._listen = listen
        self._lock = threading.Lock()
        self._waited = 0.0
        self._damaged: set[str] = set()
        # None ends a thread.
        self._queue: Queue[tuple[Sequence[tuple[str, Path | bytes]], Future[None]] | None] = Queue()
        self._written: list[Future[None]] = []
        self._told: set[str] = set()
        self._reading = _Attempts()
        self._writing = _Attempts(is_active=is_written)

    @property
    def is_read(self) -> bool:
        """True until reading has failed too often."""
        return self._reading.is_active

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
            self._cannot_read(_SLOW)
        except AttestationError as error:
            self.report_damage(key, error.message)
        except WheelsmithError as error:
            self._cannot_read(error.message)
        self._lose_patience(time.monotonic() - start - _QUICK - size / _SLOWEST)
        if data is None:
            return False
        with suppress(OSError):  # a local cache that cannot be written is reported by its own writers
            atomic_write(path, data)
            return True
        return False

    def report_damage(self, key: str, why: str = "it has the wrong content") -> None:
        """Record that a file must not be used, so that it is replaced."""
        with self._lock:
            self._damaged.add(_key(key))
        self._warn(f"{_key(key)} is not used: {why}")
        self._reading.fail()

    def send(self, files: Sequence[tuple[str, Path | bytes]]) -> None:
        """Write files in the background, in this order.

        Files that exist are not written again, unless one of them was damaged, or so many were that none is read now.
        """
        if not self._writing.is_active:
            return
        with self._lock:
            if len(self._written) < _WRITERS:
                threading.Thread(target=self._write_all, name="remote-cache", daemon=True).start()
            done = Future[None]()
            self._written.append(done)
        self._queue.put((files, done))

    def await_writes(self) -> None:
        """Wait for the writes so far, for a limited time."""
        wait(tuple(self._written), LAST_WRITES)

    def close(self) -> None:
        """Wait for the writes for a limited time, and end."""
        self.await_writes()
        left = sum(not done.done() for done in self._written)
        if left and self._writing.is_active:
            self._writing.is_active = False
            self._warn(f"{counted(left, 'result')} could not be written in time")
        for _ in self._written[:_WRITERS]:
            self._queue.put(None)
        self._written.clear()

    def _write_all(self) -> None:
        while item := self._queue.get():
            files, done = item
            is_damaged = not self.is_read or any(_key(key) in self._damaged for key, _ in files)
            try:
                for key, content in files:
                    if self._writing.is_active and (is_damaged or self._files.stat(_key(key)) is None):
                        self._files.put(_key(key), content)
            except WheelsmithError as error:
                self._cannot_write(error.message)
            except OSError as error:  # the local file was pruned
                self._cannot_write(error.strerror or str(error))
            finally:
                done.set_result(None)

    def _lose_patience(self, seconds: float) -> None:
        with self._lock:
            self._waited += max(0.0, seconds)
        if self._waited > PATIENCE:
            self._reading.is_active = False
            self._warn(f"it is not read any more: {_SLOW}")

    def _cannot_read(self, why: str) -> None:
        self._warn(f"it cannot be read: {why}")
        self._reading.fail()

    def _cannot_write(self, why: str) -> None:
        self._warn(f"it cannot be written: {why}")
        self._writing.fail()

    def _warn(self, text: str) -> None:
        with self._lock:
            is_new = text not in self._told
            self._told.add(text)
        if is_new:
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
