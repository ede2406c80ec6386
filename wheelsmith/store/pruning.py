"""Remove what was not of use for longest, and nothing that a run needs."""

from __future__ import annotations

import math
import secrets
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import StoreError
from wheelsmith.base.units import counted
from wheelsmith.store.inventory import CacheInventory, Kind, take_inventory
from wheelsmith.store.lock import alone_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the cache may keep.

    :param size: bytes on the disk; None is no limit.
    :param since: what was last of use before this goes, in seconds since 1970; infinity lets all go.
    """

    size: int | None = None
    since: float = -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What goes, in this order, and what stays; both as parts of one stock, with its contents."""

    gone: CacheInventory
    kept: CacheInventory

    @property
    def freed(self) -> int:
        """Return the bytes of the disk that are free afterwards: not those that something kept shares."""
        items = self.gone.items + self.kept.items
        return CacheInventory(items=items, contents=self.gone.contents).size - self.kept.size

    def of(self, kind: Kind) -> Pruning:
        """Return the part of one kind."""
        return Pruning(gone=self.gone.of(kind), kept=self.kept.of(kind))


def choose(stock: CacheInventory, bounds: Bounds) -> Pruning:
    """Return what must go for the cache to keep within its bounds: leftovers, then what was not of use for longest."""
    order = sorted(stock.items, key=lambda item: (item.kind is not Kind.LEFTOVERS, item.used, item.kind, item.path))
    users = Counter(key for item in order for key in item.shares)
    size = stock.size
    count = 0
    for item in order:
        fits = bounds.size is None or size <= bounds.size
        if item.kind is not Kind.LEFTOVERS and item.used >= bounds.since and fits:
            break
        users.subtract(item.shares)
        size -= item.size + sum(stock.contents[key].size for key in item.shares if not users[key])
        count += 1
    return Pruning(
        gone=CacheInventory(items=tuple(order[:count]), contents=stock.contents),
        kept=CacheInventory(items=tuple(order[count:]), contents=stock.contents),
    )


def plan_prune(cache: Path, bounds: Bounds) -> Pruning:
    """Say what a prune would do at this moment."""
    return choose(take_inventory(cache), bounds)


def prune(cache: Path, bounds: Bounds) -> Pruning:
    """Remove what must go for the cache to keep within its bounds.

    :raises CacheInUseError: a run or another prune is going on; nothing was removed.
    :raises StoreError: some things could not be removed; all others were.
    """
    removal = _Removal()
    with alone_in(cache):
        pruning = choose(take_inventory(cache), bounds)
        # First what is found by name, then what it names: a name never points at nothing, whenever this ends.
        stuck = [item for item in pruning.gone.items if not removal.take_away(item.path)]
        for key in pruning.gone.shared.difference(pruning.kept.shared, *(item.shares for item in stuck)):
            if path := pruning.gone.contents[key].path:
                removal.take_away(path)
    removal.finish(cache)
    return pruning


class _Removal:
    """Takes files away at once; folders only out of the way, since removing them takes a while."""

    def __init__(self) -> None:
        self._trash: list[Path] = []
        self._failed: list[str] = []

    def take_away(self, path: Path) -> bool:
        """Say whether it is gone from its place."""
        try:
            if path.is_dir():
                trash = path.with_name(f".trash-{secrets.token_hex(8)}")
                self._trash.append(path.rename(trash))
            else:
                path.unlink()
        except FileNotFoundError:
            pass  # another prune is still removing what it took away
        except OSError as error:
            self._failed.append(f"{path}: {error.strerror}")
            return False
        return True

    def finish(self, cache: Path) -> None:
        for folder in self._trash:
            remove_tree(folder)
            if folder.exists():
                self._failed.append(f"{folder}: it would not go")
        if self._failed:
            raise StoreError(
                f"{counted(len(self._failed), 'thing')} in the cache at {cache} could not be removed, "
                f"such as {self._failed[0]}",
                remedy="fix their permissions, or remove them as the user who made them",
            )
