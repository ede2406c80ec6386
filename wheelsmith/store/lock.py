"""Who is at work in the cache: any number of runs, or one that prunes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wheelsmith.base.errors import CacheInUseError, StoreError

# Never removed: a lock on a file that is gone holds nobody off.
_LOCK = "in-use"


@contextmanager
def in_use(cache: Path) -> Iterator[None]:
    """Keep what is in the cache there while the block runs; a prune that has begun is waited for.

    :raises StoreError: the cache cannot be used.
    """
    with _locked(cache, fcntl.LOCK_SH):
        yield


@contextmanager
def alone_in(cache: Path) -> Iterator[None]:
    """Hold every run off while the block runs.

    :raises CacheInUseError: a run or another prune is going on.
    """
    with _locked(cache, fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


def is_in_use(cache: Path) -> bool:
    """Say whether a run is going on; nothing is made where there is no cache."""
    if not (cache / _LOCK).exists():
        return False
    try:
        with alone_in(cache):
            return False
    except CacheInUseError:
        return True


@contextmanager
def _locked(cache: Path, operation: int) -> Iterator[None]:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # For reading alone, so that the lock of a cache that another user made can be held too.
        lock = os.open(cache / _LOCK, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unusable(cache, error) from error
    try:
        _take(lock, operation, cache)
        yield
    finally:
        os.close(lock)


def _take(lock: int, operation: int, cache: Path) -> None:
    try:
        fcntl.flock(lock, operation)
    except BlockingIOError:
        raise CacheInUseError(
            f"the cache at {cache} is in use: a run or another prune is going on",
            remedy="try again when it has ended; WHEELSMITH_CACHE_SIZE=40GiB lets every run prune at its end",
        ) from None
    except OSError as error:
        raise _unusable(cache, error) from error


def _unusable(cache: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the cache at {cache} cannot be used: {error.strerror}",
        remedy="free some disk or fix its permissions, or choose another place with WHEELSMITH_CACHE",
    )
