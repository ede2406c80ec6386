"""What every cell of a run is built with."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.engine import Engine, Limits
from wheelsmith.model import BuildPlan, Listener, PrefixId
from wheelsmith.source import SourceTree
from wheelsmith.store import Costs, Objects, Store
from wheelsmith.toolchain import Toolchains


class InFlightKeys:
    """Which task is making which piece at this moment, so that no two make the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, str] = {}

    def claim(self, key: str, task: str) -> str | None:
        """Take a piece on; return the name of the task that has it already."""
        with self._lock:
            other = self._tasks.setdefault(key, task)
            return None if other == task else other

    def release(self, key: str) -> None:
        """Let it go, made or not."""
        with self._lock:
            self._tasks.pop(key, None)


class Shortfalls:
    """By how much guesses of memory were too low in this run, by what they were of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._factors: dict[str, float] = {}

    def note(self, what: str, factor: float) -> None:
        """Take note of a guess that was too low by a factor."""
        with self._lock:
            self._factors[what] = max(factor, self.factor(what))

    def factor(self, what: str) -> float:
        """Return by how much to raise the next guess."""
        return self._factors.get(what, 1.0)


class ToolchainPrefetcher:
    """Toolchains that are prepared ahead; what went wrong then is told to every cell that wants one."""

    def __init__(self, toolchains: Toolchains) -> None:
        self.toolchains = toolchains
        self._errors: dict[PrefixId, WheelsmithError] = {}

    def prefetch(self, prefix: PrefixId) -> None:
        """Prepare a prefix, and keep what goes wrong for whoever needs it."""
        try:
            self.toolchains.prepare(prefix)
        except WheelsmithError as error:
            self._errors[prefix] = error

    def prepare(self, prefix: PrefixId) -> Path:
        """Return a prefix.

        :raises WheelsmithError: it cannot be made.
        """
        if prefix in self._errors:
            raise self._errors[prefix]
        return self.toolchains.prepare(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """What every cell of a run is built with.

    :param own_engine: where wheelsmith's own programs read what a build left.
    :param limits: of one cell.
    :param memory: bytes that the whole run may use.
    :param cores: cores that a cell may use whose steps are not wheelsmith's to share out.
    :param all_cores: that all builds together may keep busy.
    :param folder: a scratch folder of this run alone.
    :param logs: where one log per cell is written.
    :param test: a command that must succeed with each wheel installed, or None.
    :param force: build also what the store has.
    :param reuse: take compiled pieces that were made before.
    """

    source: SourceTree
    engine: Engine
    own_engine: Engine
    toolchains: ToolchainPrefetcher
    store: Store
    objects: Objects
    costs: Costs
    limits: Limits
    memory: int
    cores: int
    all_cores: int
    folder: Path
    logs: Path
    listen: Listener
    test: str | None = None
    force: bool = False
    reuse: bool = True
    claims: InFlightKeys = field(default_factory=InFlightKeys)
    shortfalls: Shortfalls = field(default_factory=Shortfalls)

    def most_memory(self, memory: int) -> int:
        """Bound what a piece may take (bytes) by what a cell may, and the whole run."""
        return min(memory, self.limits.memory or memory, self.memory)


def log_name(plan: BuildPlan) -> str:
    """Return the file name of a cell's log."""
    return f"{plan.cell.id}.log"
