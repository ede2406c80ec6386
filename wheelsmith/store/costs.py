"""What compiling cost before, so that the next run knows how to share out cores and memory."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_NEWER = 0.5  # the weight of a new measurement of time
_SHRINK = 0.9  # how fast a peak of memory is forgotten that is not reached any more
# A cache may come from elsewhere: what no compiler could have cost is passed over, and so is a view, which may not end.
_IS_TABLE = "SELECT 1 FROM sqlite_master WHERE name = 'costs' AND type = 'table'"
_MOST, _LONGEST, _LARGEST = 1_000_000, 10**6, 2**50  # rows, seconds, bytes
_SELECT = """
SELECT key, seconds, memory FROM costs
WHERE typeof(key) = 'text' AND typeof(seconds) = 'real' AND typeof(memory) = 'integer'
  AND seconds BETWEEN 0 AND :longest AND memory BETWEEN 0 AND :largest
LIMIT :most
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one command needs: ``seconds`` of one core, ``memory`` in bytes at its peak."""

    seconds: float
    memory: int


class Costs:
    """A small database, shared by all of a user's runs. It is only advice: when it fails, nothing else does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, Cost] = {}
        self._new: dict[str, Cost] = {}
        with contextlib.suppress(sqlite3.Error, OSError):
            self._known = self._read()

    def find(self, keys: Iterable[str]) -> Cost | None:
        """Return what is known for the first of ``keys``, the most telling first, of which anything is."""
        with self._lock:
            return next((self._known[key] for key in keys if key in self._known), None)

    def learn(self, keys: Iterable[str], cost: Cost) -> None:
        """Take one measurement."""
        with self._lock:
            for key in keys:
                old = self._known.get(key, cost)
                mixed = Cost(
                    seconds=old.seconds + _NEWER * (cost.seconds - old.seconds),
                    memory=max(cost.memory, int(old.memory * _SHRINK)),
                )
                self._known[key] = self._new[key] = mixed

    def save(self) -> None:
        """Write what was learnt."""
        with self._lock, contextlib.suppress(sqlite3.Error, OSError), self._open() as base, base:
            rows = [(key, cost.seconds, cost.memory) for key, cost in self._new.items()]
            base.executemany("INSERT OR REPLACE INTO costs VALUES (?, ?, ?)", rows)
            self._new.clear()

    def _read(self) -> dict[str, Cost]:
        if not self._path.is_file():
            return {}
        with self._open() as base:
            if base.execute(_IS_TABLE).fetchone() is None:
                return {}
            rows = base.execute(_SELECT, {"most": _MOST, "longest": _LONGEST, "largest": _LARGEST})
            return {key: Cost(seconds=seconds, memory=memory) for key, seconds, memory in rows}

    def _open(self) -> contextlib.closing[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        base = sqlite3.connect(self._path, timeout=5.0)
        base.execute("CREATE TABLE IF NOT EXISTS costs (key TEXT PRIMARY KEY, seconds REAL, memory INTEGER)")
        return contextlib.closing(base)
