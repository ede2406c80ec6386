"""Tell of what is being prepared, which nobody sees otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wheelsmith.model import Listener, Preparing


@contextmanager
def preparing(what: str, listen: Listener) -> Iterator[None]:
    """Tell of what takes a while, when it begins and when it has ended."""
    listen(Preparing(what=what))
    try:
        yield
    finally:
        listen(Preparing(what=what, done=True))
