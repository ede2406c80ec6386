"""What goes wrong between a Hub and its clients, by chance but from a seed."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field


@dataclass
class Weather:
    """How often, of all commits, something happens: each a share between 0 and 1, together at most 1.

    :param refused: 412, though nobody came between.
    :param busy: 409: another commit is in progress.
    :param failed: 500 or 504 before anything was done.
    :param silently_done: 500 or 504 after it was done, as the Hub did before
        https://github.com/huggingface/datasets/pull/7708.
    :param cut: the connection ends before anything was done, or after all was.
    :param lagging: of all questions for a branch's head, those answered with the head before it.
    :param unread: of all files that are asked for, those answered with 503.
    :param planned: what happens to the first commits, before chance takes over.
    :param late: how many of the first questions for a head are answered with the one before it.
    """

    seed: int = 0
    refused: float = 0
    busy: float = 0
    failed: float = 0
    silently_done: float = 0
    cut: float = 0
    lagging: float = 0
    unread: float = 0
    planned: list[str] = field(default_factory=list)
    late: int = 0
    happened: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()

    def commit(self) -> str:
        """Return what happens to a commit; nothing is the empty string."""
        with self._lock:
            if self.planned:
                return self._noted(self.planned.pop(0))
            left = self._random.random()
            for name in ("refused", "busy", "failed", "silently_done", "cut"):
                left -= getattr(self, name)
                if left < 0:
                    kind = "cut before" if name == "cut" and self._random.random() < 0.5 else name
                    return self._noted(kind)
        return ""

    def lags(self) -> bool:
        with self._lock:
            if self.late:
                self.late -= 1
                return True
        return self._falls("lagging")

    def unreadable(self) -> bool:
        return self._falls("unread")

    def error(self) -> int:
        with self._lock:
            return self._random.choice([500, 502, 504])

    def _falls(self, name: str) -> bool:
        with self._lock:
            return self._random.random() < getattr(self, name) and bool(self._noted(name))

    def _noted(self, kind: str) -> str:
        self.happened[kind] = self.happened.get(kind, 0) + 1
        return kind
