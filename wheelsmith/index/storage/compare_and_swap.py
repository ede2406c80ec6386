"""Change files while other processes do the same: no locks, every writer retries, the newest state wins."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Executor, wait
from itertools import count

from wheelsmith.index.storage.protocol import ConflictError, Storage, Stored, T

# One writer wins every race, so others give up only after losing for absurdly long.
_PATIENCE = 900.0
_MAX_PAUSE = 10.0
AT_ONCE = 8

# Key → content, or None for a page that must not be there.
_Render = Callable[[Stored | None], dict[str, bytes | None]]


def backoff(number: int, unit: float = 0.1) -> None:
    """Wait after a failed attempt, longer each time and not in step with other processes.

    :param number: of the attempt, from 0.
    :param unit: seconds to wait at most after the first.
    """
    time.sleep(random.uniform(0, min(_MAX_PAUSE, unit * 2 ** min(number, 6))))  # noqa: S311  # not a secret


def retry(attempt: Callable[[], T]) -> T:
    """Repeat an attempt as long as it conflicts with other processes."""
    begin = time.monotonic()
    for number in count():
        start = time.monotonic()
        try:
            return attempt()
        except ConflictError:
            now = time.monotonic()
            if now > begin + _PATIENCE:
                raise
            # Every other process needs as much time as this attempt took.
            backoff(number, now - start)
    raise AssertionError


def replace_file(storage: Storage, key: str, stored: Stored | None, data: bytes) -> bool:
    """Replace a file if its content differs; return True if it did.

    :param stored: the file from which the new content was made.
    :raises ConflictError: the file has changed since.
    """
    if stored and stored.data == data:
        return False
    storage.swap(key, data, stored.tag if stored else None)
    return True


class _WrittenPages:
    """The pages that a file asks for."""

    def __init__(self, storage: Storage, source: str, render: _Render) -> None:
        self._storage, self._source, self._render = storage, source, render
        self._stored = storage.read(source)
        self.wanted = render(self._stored)

    def refresh(self) -> bool:
        """Read the file again; return True if it has changed."""
        before, self._stored = self._stored, self._storage.read(self._source)
        if self._stored == before:
            return False
        self.wanted = self._render(self._stored)
        return True

    def write(self, key: str, found: Stored | None) -> bool:
        """Write or remove a page; return True if it differed.

        :param found: the page as it is now.
        """
        page = self.wanted.get(key)
        if page is not None:
            return replace_file(self._storage, key, found, page)
        if found is None or key not in self.wanted:
            return False
        self._storage.delete(key)
        return True


def converge(storage: Storage, files: Executor, source: str, render: _Render) -> list[str]:
    """Write the pages that ``render`` makes from the file ``source``; return the keys of those that differed.

    Pages of None are removed. A process that writes such a page meanwhile has changed the source first; the source is
    read again afterwards, and the page comes back.

    :param files: reads and writes several pages at once.
    """
    pages = _WrittenPages(storage, source, render)
    written: set[str] = set()

    def write(key: str, found: Stored | None) -> None:
        if pages.write(key, found):
            written.add(key)

    def attempt() -> None:
        while True:
            keys = sorted(pages.wanted)
            found = dict(zip(keys, files.map(storage.read, keys), strict=True))
            # Rendered after the tags were read, so that a slow writer cannot put an older page over a newer one.
            pages.refresh()
            writing = [files.submit(write, key, found[key]) for key in keys]
            # All must have ended before another attempt begins.
            wait(writing)
            for one in writing:
                one.result()
            # A process that changed the source meanwhile may have found its pages in place before ours came.
            if not pages.refresh():
                return

    retry(attempt)
    return sorted(written)
