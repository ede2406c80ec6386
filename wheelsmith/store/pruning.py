"""Remove the least recently used items of the cache while no run uses it."""

from __future__ import annotations

import fcntl
import math
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import CacheInUseError, StoreError
from wheelsmith.base.units import counted
from wheelsmith.store.inventory import CacheInventory, Kind, take_inventory

# Never removed, because a lock on a removed file does not exclude other processes.
_LOCK = "in-use"


@contextmanager
def in_use(cache: Path) -> Iterator[None]:
    """Prevent pruning while the block runs. Wait for a running prune first.

    :raises StoreError: the cache cannot be created or locked.
    """
    with _locked(cache, fcntl.LOCK_SH):
        yield


def is_in_use(cache: Path) -> bool:
    """Return True if a run uses the cache. Do not create a missing cache."""
    if not (cache / _LOCK).exists():
        return False
    try:
        with _locked(cache, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return False
    except CacheInUseError:
        return True


@contextmanager
def _locked(cache: Path, operation: int) -> Iterator[None]:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # Read-only, so that it works for a cache that another user created.
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
            f"the cache at {cache} is in use by a run or another prune",
            remedy="try again when it has ended; WHEELSMITH_CACHE_SIZE=40GiB lets every run prune at its end",
        ) from None
    except OSError as error:
        raise _unusable(cache, error) from error


def _unusable(cache: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the cache at {cache} cannot be used: {error.strerror}",
        remedy="free disk space or fix its permissions, or set WHEELSMITH_CACHE to another folder",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of the cache.

    :param size: bytes on the disk; None is no limit.
    :param since: items last used before this time are removed, in seconds since 1970; infinity removes all.
    """

    size: int | None = None
    since: float = -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The items to remove, in this order, and the items to keep."""

    removed: CacheInventory
    kept: CacheInventory

    @property
    def freed(self) -> int:
        """Return the freed bytes on the disk, without contents that kept items share."""
        items = self.removed.items + self.kept.items
        return CacheInventory(items=items, contents=self.removed.contents).size - self.kept.size

    def of(self, kind: Kind) -> Pruning:
        """Return the part of one kind."""
        return Pruning(removed=self.removed.of(kind), kept=self.kept.of(kind))


def choose(inventory: CacheInventory, bounds: Bounds) -> Pruning:
    """Choose the items to remove to keep the cache within its bounds: leftovers first, then the least recently used."""
    order = sorted(inventory.items, key=lambda item: (item.kind is not Kind.LEFTOVERS, item.used, item.kind, item.path))
    users = Counter(key for item in order for key in item.shares)
    size = inventory.size
    count = 0
    for item in order:
        fits = bounds.size is None or size <= bounds.size
        if item.kind is not Kind.LEFTOVERS and item.used >= bounds.since and fits:
            break
        users.subtract(item.shares)
        size -= item.size + sum(inventory.contents[key].size for key in item.shares if not users[key])
        count += 1
    return Pruning(
        removed=CacheInventory(items=tuple(order[:count]), contents=inventory.contents),
        kept=CacheInventory(items=tuple(order[count:]), contents=inventory.contents),
    )


def plan_prune(cache: Path, bounds: Bounds) -> Pruning:
    """Return the items that a prune would remove now."""
    return choose(take_inventory(cache), bounds)


def prune(cache: Path, bounds: Bounds) -> Pruning:
    """Remove items to keep the cache within its bounds, and return them.

    :raises CacheInUseError: a run or another prune uses the cache. Nothing was removed.
    :raises StoreError: some items could not be removed. All others were removed.
    """
    removal = _Removal()
    with _locked(cache, fcntl.LOCK_EX | fcntl.LOCK_NB):
        pruning = choose(take_inventory(cache), bounds)
        # Remove items before their contents, so that an item never refers to a missing content if this is interrupted.
        failed_items = [item for item in pruning.removed.items if not removal.detach(item.path)]
        for key in pruning.removed.shared.difference(pruning.kept.shared, *(item.shares for item in failed_items)):
            if path := pruning.removed.contents[key].path:
                removal.detach(path)
    removal.finish(cache)
    return pruning


class _Removal:
    """Removes files immediately. Folders are renamed first and removed in ``finish``, because that takes time."""

    def __init__(self) -> None:
        self._trash: list[Path] = []
        self._failed: list[str] = []

    def detach(self, path: Path) -> bool:
        """Remove a file or rename a folder, and return True unless that failed."""
        try:
            if path.is_dir():
                trash = path.with_name(f".trash-{secrets.token_hex(8)}")
                self._trash.append(path.rename(trash))
            else:
                path.unlink()
        except FileNotFoundError:
            pass  # another prune is still removing it
        except OSError as error:
            self._failed.append(f"{path}: {error.strerror}")
            return False
        return True

    def finish(self, cache: Path) -> None:
        for folder in self._trash:
            remove_tree(folder)
            if folder.exists():
                self._failed.append(f"{folder}: some files remain")
        if self._failed:
            raise StoreError(
                f"{counted(len(self._failed), 'item')} in the cache at {cache} could not be removed, "
                f"for example {self._failed[0]}",
                remedy="fix their permissions, or remove them as the user who owns them",
            )
