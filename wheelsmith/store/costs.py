"""Time and memory of earlier compile commands, from which the scheduler estimates the next ones."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_NEW_WEIGHT = 0.5  # weight of a new measurement in the average time
_DECAY = 0.9  # factor of the stored peak memory after each lower measurement
# Exclude values that break estimates, such as infinity.
_SELECT = """
SELECT key, seconds, memory FROM costs
WHERE typeof(seconds) = 'real' AND typeof(memory) = 'integer' AND seconds BETWEEN 0 AND 1e9 AND memory >= 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The resources of one command.

    :param seconds: seconds of one core.
    :param memory: peak memory in bytes.
    """

    seconds: float
    memory: int


class Costs:
    """A database of costs, shared by all runs of a user. Its errors are ignored, because estimates are optional."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, Cost] = {}
        self._new: dict[str, Cost] = {}
        if path.is_file():
            with contextlib.suppress(sqlite3.Error, OSError), self._open() as database:
                rows = database.execute(_SELECT)
                self._known = {key: Cost(seconds=seconds, memory=memory) for key, seconds, memory in rows}

    @classmethod
    def in_cache(cls, cache: Path) -> Self:
        """Return the database of a cache."""
        return cls(cache / "costs.sqlite")

    def find(self, keys: Iterable[str]) -> Cost | None:
        """Return the cost of the first known key. Pass the most specific key first."""
        with self._lock:
            return next((self._known[key] for key in keys if key in self._known), None)

    def learn(self, keys: Iterable[str], cost: Cost) -> None:
        """Record a measurement under all keys."""
        with self._lock:
            for key in keys:
                old = self._known.get(key, cost)
                mixed = Cost(
                    seconds=old.seconds + _NEW_WEIGHT * (cost.seconds - old.seconds),
                    memory=max(cost.memory, int(old.memory * _DECAY)),
                )
                self._known[key] = self._new[key] = mixed

    def save(self) -> None:
        """Write the new measurements to the database."""
        with self._lock, contextlib.suppress(sqlite3.Error, OSError), self._open() as database, database:
            rows = [(key, cost.seconds, cost.memory) for key, cost in self._new.items()]
            database.executemany("INSERT OR REPLACE INTO costs VALUES (?, ?, ?)", rows)
            self._new.clear()

    def _open(self) -> contextlib.closing[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self._path, timeout=5.0)
        database.execute("CREATE TABLE IF NOT EXISTS costs (key TEXT PRIMARY KEY, seconds REAL, memory INTEGER)")
        return contextlib.closing(database)
