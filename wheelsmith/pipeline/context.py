"""What every cell of a run is built with."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.engine import Engine, Limits
from wheelsmith.model import BuildPlan, Listener, PrefixId
from wheelsmith.source.tree import SourceTree
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


class GuessFactors:
    """By how much to multiply guesses of memory, by what they are of, once one in this run was too low."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._too_low: dict[str, float] = {}
        self._needed: dict[str, float] = {}
        self._next: dict[str, float] = {}

    def fell_short(self, what: str, factor: float, following: float) -> None:
        """Take note of a factor that was too low, and of the one that is tried now."""
        with self._lock:
            self._too_low[what] = max(factor, self._too_low.get(what, 0.0))
            self._next[what] = max(following, self.of(what))

    def succeeded(self, what: str, factor: float) -> None:
        """Take note of the factor that one needed; what was enough for it is no longer tried twice over."""
        with self._lock:
            if factor > self._too_low.get(what, factor):
                self._needed[what] = max(factor, self._needed.get(what, 0.0))
                self._next[what] = self._needed[what]

    def of(self, what: str) -> float:
        """Return the factor of the next guess."""
        return self._next.get(what, 1.0)


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
    guess_factors: GuessFactors = field(default_factory=GuessFactors)

    def most_memory(self, memory: int) -> int:
        """Bound what a piece may take (bytes) by what a cell may, and the whole run."""
        return min(memory, self.limits.memory or memory, self.memory)


def log_name(plan: BuildPlan) -> str:
    """Return the file name of a cell's log."""
    return f"{plan.cell.id}.log"
