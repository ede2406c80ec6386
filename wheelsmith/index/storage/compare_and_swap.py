"""Bring files to what they should be, while others do the same: nobody waits for anybody, and the newest state wins."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Executor, wait
from itertools import count

from wheelsmith.index.storage.protocol import ConflictError, Storage, Stored, T

# Somebody wins every race, so a writer gives up only where it loses for absurdly long.
_PATIENCE = 900.0
_LONGEST_PAUSE = 10.0
AT_ONCE = 8


# Key → content, or None for what is not to be there.
_Render = Callable[[Stored | None], dict[str, bytes | None]]


class _WantedPages:
    """The pages that a file asks for; they are rendered again when it is another."""

    def __init__(self, storage: Storage, source: str, render: _Render) -> None:
        self._storage, self._source, self._render = storage, source, render
        self._stored = storage.read(source)
        self.pages = render(self._stored)

    def follow(self) -> bool:
        """Look at the file again; says whether it is another."""
        before, self._stored = self._stored, self._storage.read(self._source)
        if self._stored == before:
            return False
        self.pages = self._render(self._stored)
        return True


def converge(storage: Storage, files: Executor, source: str, render: _Render) -> list[str]:
    """Bring pages to what ``render`` makes of the file ``source``; return the keys of those that were not so.

    A page that it makes None of is removed. Who writes that page meanwhile has changed the source first; the source is
    read again afterwards, and the page comes back.

    :param files: reads and writes several pages at once.
    """
    wanted = _WantedPages(storage, source, render)
    written: set[str] = set()

    def write(key: str, found: Stored | None) -> None:
        page = wanted.pages.get(key)
        if key not in wanted.pages or (page is None and found is None):
            return
        if page is None:
            storage.delete(key)
            written.add(key)
        elif replace_file(storage, key, found, page):
            written.add(key)

    def attempt() -> None:
        while True:
            keys = sorted(wanted.pages)
            found = dict(zip(keys, files.map(storage.read, keys), strict=True))
            # Rendered after the tags were read, so a slow writer cannot put an older page over a newer one.
            wanted.follow()
            writing = [files.submit(write, key, found[key]) for key in keys]
            # None may still be writing when another attempt begins.
            wait(writing)
            for one in writing:
                one.result()
            # Whoever changed the source meanwhile may have found the pages as they should be, before ours came.
            if not wanted.follow():
                return

    persist(attempt)
    return sorted(written)


def replace_file(storage: Storage, key: str, stored: Stored | None, data: bytes) -> bool:
    """Replace a file's content if that is another; return whether it was.

    :param stored: what it was when the next content was made from it.
    :raises ConflictError: it is something else by now.
    """
    if stored and stored.data == data:
        return False
    storage.swap(key, data, stored.tag if stored else None)
    return True


def persist(attempt: Callable[[], T]) -> T:
    """Do something again as long as others are faster, waiting longer and longer, and not in step with them."""
    begin = time.monotonic()
    for number in count():
        start = time.monotonic()
        try:
            return attempt()
        except ConflictError:
            now = time.monotonic()
            if now > begin + _PATIENCE:
                raise
            # As many others as there may be each need the time that this attempt took.
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, (now - start) * 2 ** min(number, 6))))  # noqa: S311  # not a secret
    raise AssertionError
