"""Total deadlines for HTTP requests.

A socket time-out restarts with every byte, so a server that sends one byte a second never triggers it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wheelsmith.base.units import show_duration, show_size

if TYPE_CHECKING:
    import httpx

_WINDOW = 60.0  # seconds over which the speed of a download is measured
_MIN_SPEED = 1024  # bytes a second


class TooSlowError(Exception):
    """The request exceeded its deadline or its minimum speed."""


@contextmanager
def deadline(client: httpx.Client, seconds: float) -> Iterator[None]:
    """Close the client if the block runs longer than ``seconds``.

    :raises TooSlowError: the deadline passed.
    """
    import httpx

    expired = threading.Event()

    def expire() -> None:
        expired.set()
        client.close()

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (httpx.HTTPError, httpx.StreamError, OSError, ValueError, RuntimeError) as error:
        # Closing the client in another thread raises different errors at different places of a read.
        if expired.is_set():
            raise TooSlowError(f"it took longer than {show_duration(seconds)}") from error
        raise
    finally:
        timer.cancel()


def require_progress(chunks: Iterable[bytes], *, window: float = _WINDOW) -> Iterator[bytes]:
    """Yield the chunks of a download while it is faster than 1 kB/s.

    :param window: seconds over which the speed is measured.
    :raises TooSlowError: the download was slower.
    """
    start, received = time.monotonic(), 0
    for chunk in chunks:
        received += len(chunk)
        yield chunk
        elapsed = time.monotonic() - start
        if elapsed < window:
            continue
        if received < _MIN_SPEED * elapsed:
            raise TooSlowError(f"only {show_size(received)} arrived in {show_duration(elapsed)}")
        start, received = time.monotonic(), 0
