"""Report preparations that would otherwise be invisible to the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wheelsmith.model import Listener, Preparing


@contextmanager
def report_preparation(what: str, listen: Listener) -> Iterator[None]:
    """Emit an event at the beginning and at the end of a slow block."""
    listen(Preparing(what=what))
    try:
        yield
    finally:
        listen(Preparing(what=what, done=True))
