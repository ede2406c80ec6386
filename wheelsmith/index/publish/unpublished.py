"""Which wheels of an index nobody else has seen: a run put them into its own index, and they may still change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from wheelsmith.base.json_dataclass import read_json
from wheelsmith.index.storage.compare_and_swap import replace_file, retry
from wheelsmith.index.storage.protocol import Storage, Stored

UNPUBLISHED = "_state/.unpublished.json"
_HASH = re.compile(r"[0-9a-f]{64}")


def unpublished(storage: Storage) -> frozenset[str]:
    """Return the sha256 of each wheel that was never published; where that cannot be read, all of them were."""
    return _load(storage.read(UNPUBLISHED))


def set_unpublished(storage: Storage, hashes: Iterable[str]) -> None:
    """Note which wheels were never published."""
    data = json.dumps({"sha256": sorted(hashes)}, indent=0).encode() + b"\n"
    retry(lambda: replace_file(storage, UNPUBLISHED, storage.read(UNPUBLISHED), data))


def mark_published(storage: Storage, hashes: Iterable[str]) -> None:
    """Note that wheels were published: from now on they never change."""
    there = unpublished(storage)
    if gone := there & set(hashes):
        set_unpublished(storage, there - gone)


def _load(stored: Stored | None) -> frozenset[str]:
    try:
        hashes = read_json(stored.data)["sha256"] if stored else []
        return frozenset(text for text in hashes if isinstance(text, str) and _HASH.fullmatch(text))
    except (ValueError, KeyError, TypeError, RecursionError):
        return frozenset()
