"""An end for what is asked of a server: a byte a second keeps every time-out of a connection from coming."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

_WINDOW = 60.0  # seconds over which a download's speed is taken
_SLOWEST = 1024  # bytes a second


class TooSlowError(Exception):
    """A server takes longer than anybody would wait."""


@contextmanager
def ended_after(client: httpx.Client, seconds: float) -> Iterator[None]:
    """Close a client when a block takes longer than so many seconds, whatever it waits for then.

    :raises TooSlowError: it did.
    """
    import httpx

    late = threading.Event()

    def end() -> None:
        late.set()
        client.close()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (httpx.HTTPError, httpx.StreamError, OSError, ValueError, RuntimeError) as error:
        # What a read of a connection that another thread closes ends with differs by where it stood.
        if late.is_set():
            raise TooSlowError(f"it took longer than {seconds:g} s") from error
        raise
    finally:
        timer.cancel()


def not_too_slow(chunks: Iterable[bytes], *, window: float = _WINDOW) -> Iterator[bytes]:
    """Pass a download on while it moves.

    :param chunks: as they arrive.
    :raises TooSlowError: it brings less than a kilobyte a second.
    """
    since, got = time.monotonic(), 0
    for chunk in chunks:
        got += len(chunk)
        yield chunk
        passed = time.monotonic() - since
        if passed < window:
            continue
        if got < _SLOWEST * passed:
            raise TooSlowError(f"it brought {got} bytes in {passed:.0f} s")
        since, got = time.monotonic(), 0
