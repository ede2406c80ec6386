"""Change files that other processes change too, by compare and swap with retries instead of locks."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Executor, wait
from itertools import count

from wheelsmith.index.storage.protocol import ConflictError, Storage, Stored, T

# Seconds of lost races before a writer gives up. One writer wins each race, so real use stays far below this limit.
_MAX_SECONDS = 900.0
_MAX_PAUSE = 10.0
MAX_CONCURRENT = 8

# Returns key → content, or None for a page that must not exist.
_Render = Callable[[Stored | None], dict[str, bytes | None]]


def backoff(number: int, unit: float = 0.1) -> None:
    """Wait a random time after a failed attempt. The maximum doubles with each attempt.

    :param number: number of the attempt, from 0.
    :param unit: maximum wait in seconds after the first attempt.
    """
    time.sleep(random.uniform(0, min(_MAX_PAUSE, unit * 2 ** min(number, 6))))  # noqa: S311  # not a secret


def retry(attempt: Callable[[], T]) -> T:
    """Repeat an attempt while it conflicts with other processes.

    :raises ConflictError: it still conflicts after ``_MAX_SECONDS`` seconds.
    """
    first_start = time.monotonic()
    for number in count():
        start = time.monotonic()
        try:
            return attempt()
        except ConflictError:
            now = time.monotonic()
            if now > first_start + _MAX_SECONDS:
                raise
            # Other processes need about as much time as this attempt took.
            backoff(number, now - start)
    raise AssertionError


def replace_file(storage: Storage, key: str, stored: Stored | None, data: bytes) -> bool:
    """Replace a file if its content differs. Return True if it was replaced.

    :param stored: the version of the file from which the new content was made; None if the file did not exist.
    :raises ConflictError: the file has changed since then.
    """
    if stored and stored.data == data:
        return False
    storage.swap(key, data, stored.tag if stored else None)
    return True


class _RenderedPages:
    """The pages that are rendered from one source file."""

    def __init__(self, storage: Storage, source: str, render: _Render) -> None:
        self._storage, self._source, self._render = storage, source, render
        self._stored = storage.read(source)
        self.rendered = render(self._stored)

    def refresh(self) -> bool:
        """Read the source again and render it if it has changed. Return True if it has."""
        before, self._stored = self._stored, self._storage.read(self._source)
        if self._stored == before:
            return False
        self.rendered = self._render(self._stored)
        return True

    def write(self, key: str, found: Stored | None) -> bool:
        """Write or remove a page. Return True if the stored page differed.

        :param found: the stored page, or None if it does not exist.
        """
        page = self.rendered.get(key)
        if page is not None:
            return replace_file(self._storage, key, found, page)
        if found is None or key not in self.rendered:
            return False
        self._storage.delete(key)
        return True


def converge(storage: Storage, files: Executor, source: str, render: _Render) -> list[str]:
    """Render pages from a source file and write those that differ. Return the keys of the changed pages.

    Pages that render as None are removed. If another process writes such a page at the same time, it has changed the
    source first. The source is read again at the end, so the page is then restored.

    :param files: executor that reads and writes several pages concurrently.
    :param source: key of the source file.
    """
    pages = _RenderedPages(storage, source, render)
    written: set[str] = set()

    def write(key: str, found: Stored | None) -> None:
        if pages.write(key, found):
            written.add(key)

    def attempt() -> None:
        while True:
            keys = sorted(pages.rendered)
            found = dict(zip(keys, files.map(storage.read, keys), strict=True))
            # Render after reading the tags, so that a slow writer cannot replace a newer page with an older one.
            pages.refresh()
            writes = [files.submit(write, key, found[key]) for key in keys]
            # All writes must end before the next attempt begins.
            wait(writes)
            for future in writes:
                future.result()
            # Another process may have changed the source, and found its pages correct before these writes.
            if not pages.refresh():
                return

    retry(attempt)
    return sorted(written)
