"""List the items in the cache with their sizes on the disk and the times of their last use.

docs/reference/cache.md describes the folders.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from wheelsmith.base.beneath import statuses
from wheelsmith.base.json_dataclass import read_json

_BLOCK = 512  # bytes; unit of st_blocks on every file system


class Kind(StrEnum):
    """The kinds of items in the cache. Leftovers are unfinished or unreferenced files."""

    WHEELS = "wheels"
    OBJECTS = "objects"
    TOOLCHAINS = "toolchains"
    ENVIRONMENTS = "environments"
    SOURCES = "sources"
    SURVEYS = "surveys"
    LEFTOVERS = "leftovers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A file or folder that is kept or removed as a unit.

    :param used: time of the last use, in seconds since 1970.
    :param size: bytes on the disk, without shared contents.
    :param shares: keys of the contents that it may share with other items.
    """

    kind: Kind
    path: Path
    used: float
    size: int
    shares: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A content that items share. It is needed as long as one of them exists.

    :param path: None for a file with several hard links, which is removed with the last of them.
    :param size: bytes on the disk.
    """

    path: Path | None
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInventory:
    """The items of the cache.

    :param contents: key → content, for each key in ``Item.shares``.
    """

    items: tuple[Item, ...]
    contents: dict[str, Content]

    def of(self, kind: Kind) -> CacheInventory:
        """Return the items of one kind."""
        return CacheInventory(items=tuple(item for item in self.items if item.kind is kind), contents=self.contents)

    @property
    def size(self) -> int:
        """Return the bytes on the disk. Shared contents count once."""
        return sum(item.size for item in self.items) + sum(self.contents[key].size for key in self.shared)

    @property
    def shared(self) -> frozenset[str]:
        """Return the keys of all contents that its items may share."""
        return frozenset().union(*(item.shares for item in self.items))


def take_inventory(cache: Path) -> CacheInventory:
    """List the items of the cache, without those that disappear during the call.

    A folder of the cache that is a link is skipped, because runs of another cache may use it, too.
    """
    inventory = _Inventory()
    readers: dict[str, Callable[[Path, _Inventory], None]] = {
        "store": _add_wheels,
        "objects": _add_objects,
        "prefix": _add_prefixes,
        "uv": lambda folder, inventory: inventory.add(Kind.SURVEYS, folder),
        **dict.fromkeys(("git", "images", "sources", "locks", "tests", "work"), _add_items),
    }
    for name, take in readers.items():
        if not (cache / name).is_symlink():
            take(cache / name, inventory)
    return CacheInventory(items=tuple(inventory.items), contents=inventory.contents)


class _Inventory:
    """Collects the items."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.contents: dict[str, Content] = {}

    def add(self, kind: Kind, path: Path, shares: Iterable[str] = ()) -> None:
        """Add a file or folder."""
        own, linked = _measure(path)
        with contextlib.suppress(OSError):  # removed by another process
            used = path.lstat().st_mtime
            self.contents |= {key: Content(path=None, size=size) for key, size in linked.items()}
            self.items.append(Item(kind=kind, path=path, used=used, size=own, shares=frozenset({*shares, *linked})))

    def add_references(
        self, kind: Kind, references: Iterable[Path], contents: dict[str, Content], read: _Reader
    ) -> None:
        """Add files that contain the hashes of contents, and the contents.

        A file that cannot be read or refers to a missing content is a leftover, and so is a content without references.

        :param references: the files.
        :param contents: hash → content.
        :param read: returns the hashes in the JSON data of a file.
        """
        referenced: set[str] = set()
        for path in references:
            hashes = _read_hashes(path, read)
            if hashes is None or not hashes <= contents.keys():
                self.add(Kind.LEFTOVERS, path)
                continue
            referenced |= hashes
            self.add(kind, path, (f"{kind} {sha256}" for sha256 in hashes))
        self.contents |= {f"{kind} {sha256}": contents[sha256] for sha256 in referenced}
        for sha256 in contents.keys() - referenced:
            if orphan := contents[sha256].path:
                self.add(Kind.LEFTOVERS, orphan)

    def visible_entries(self, folder: Path) -> Iterator[Path]:
        """Yield the entries of a folder, and add the hidden ones as leftovers, because they are unfinished."""
        for path in _entries(folder):
            if path.name.startswith("."):
                self.add(Kind.LEFTOVERS, path)
            else:
                yield path


_Reader = Callable[[Any], Iterable[str]]


def _add_wheels(store: Path, inventory: _Inventory) -> None:
    contents = {}
    for folder in inventory.visible_entries(store / "wheels"):
        size = sum(_total_size(path) for path in inventory.visible_entries(folder))
        contents[folder.name] = Content(path=folder, size=size + _own_size(folder))
    plans = inventory.visible_entries(store / "plans")
    inventory.add_references(Kind.WHEELS, plans, contents, lambda plan: [plan["sha256"]])


def _add_objects(objects: Path, inventory: _Inventory) -> None:
    blobs = [
        path for folder in inventory.visible_entries(objects / "blobs") for path in inventory.visible_entries(folder)
    ]
    contents = {path.name: Content(path=path, size=_own_size(path)) for path in blobs}
    actions = (
        path for folder in inventory.visible_entries(objects / "actions") for path in inventory.visible_entries(folder)
    )

    def outputs(action: Any) -> list[str]:
        return [output["sha256"] for output in action["outputs"].values()]

    inventory.add_references(Kind.OBJECTS, actions, contents, outputs)


def _add_prefixes(prefix: Path, inventory: _Inventory) -> None:
    entries = _entries(prefix)
    proofs = {path.name.removesuffix(".proof")[1:]: path for path in entries if path.name.endswith(".proof")}
    known = proofs.keys() & {path.name for path in entries}
    inventory.contents |= {f"proof {name}": Content(path=proofs[name], size=_own_size(proofs[name])) for name in known}
    for path in entries:
        # Another process may be about to lock a lock file. A proof belongs to its prefix.
        if _is_lock(path) or (path in proofs.values() and path.name.removesuffix(".proof")[1:] in known):
            continue
        # The name of a prefix begins with its kind and a dash. Unfinished downloads have random names.
        if path.name.startswith(".") or "-" not in path.name:
            inventory.add(Kind.LEFTOVERS, path)
        else:
            shares = [f"proof {path.name}"] if path.name in known else []
            inventory.add(prefix_kind(path.name), path, shares)


def prefix_kind(name: str) -> Kind:
    """Return the kind of a folder in ``prefix/``, from its name."""
    return Kind.ENVIRONMENTS if name.startswith(("environment-", "wheel-")) else Kind.TOOLCHAINS


def _add_items(folder: Path, inventory: _Inventory) -> None:
    for path in _entries(folder):
        if kind := _kind_of(path):
            inventory.add(kind, path)


def _kind_of(path: Path) -> Kind | None:
    """Return the kind of an item without shared contents, or None for a file that must not be removed."""
    match path.parent.name:
        case "work":
            return None if _is_live(path) else Kind.LEFTOVERS
        # Another process may be about to lock the file.
        case "git" if _is_lock(path):
            return None
        case _ if path.name.startswith("."):
            return Kind.LEFTOVERS
        case "git" | "sources":
            return Kind.SOURCES
        case "tests":
            return Kind.SURVEYS
        # Not the seccomp profiles: running containers may refer to them.
        case "images" if not path.name.startswith("seccomp-"):
            return Kind.SURVEYS
    return None


def _is_live(folder: Path) -> bool:
    try:
        with (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _is_lock(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".lock")


def _read_hashes(path: Path, read: _Reader) -> frozenset[str] | None:
    """Return the hashes in a file, or None if it cannot be read."""
    try:
        return frozenset(read(read_json(path.read_bytes())))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _entries(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for entry in entries if not entry.is_symlink()]
    except OSError:
        return []


def _measure(path: Path) -> tuple[int, dict[str, int]]:
    """Return the bytes on the disk of a file or folder, and key → bytes for its files with several hard links."""
    own = 0
    linked = {}
    for found in statuses(path):
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            linked[f"inode {found.st_dev}:{found.st_ino}"] = found.st_blocks * _BLOCK
        else:
            own += found.st_blocks * _BLOCK
    return own, linked


def _total_size(path: Path) -> int:
    own, linked = _measure(path)
    return own + sum(linked.values())


def _own_size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * _BLOCK
    except OSError:
        return 0
