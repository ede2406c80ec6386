"""The objects and settings that all builds of a run share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from wheelsmith.base.errors import StoreError, WheelsmithError
from wheelsmith.engine import Engine, Limits
from wheelsmith.model import BuildPlan, Listener, PrefixId
from wheelsmith.source.tree import SourceTree
from wheelsmith.store import Costs, Objects, Store
from wheelsmith.toolchain import Toolchains


class InFlightKeys:
    """The cache keys of the running tasks, so that no two tasks compute the same result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, str] = {}

    def claim(self, key: str, task: str) -> str | None:
        """Claim a key for a task. If another task has it, return that task's name."""
        with self._lock:
            other = self._tasks.setdefault(key, task)
            return None if other == task else other

    def release(self, key: str) -> None:
        """Release a key after success or failure."""
        with self._lock:
            self._tasks.pop(key, None)


class GuessFactors:
    """Factors to correct guesses of memory, learned when a guess in this run was too low."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._too_low: dict[str, float] = {}
        self._needed: dict[str, float] = {}
        self._next: dict[str, float] = {}

    def record_shortfall(self, what: str, factor: float, following: float) -> None:
        """Record a factor that was too low.

        :param what: the kind of guess.
        :param following: the factor of the next attempt.
        """
        with self._lock:
            self._too_low[what] = max(factor, self._too_low.get(what, 0.0))
            self._next[what] = max(following, self.of(what))

    def succeeded(self, what: str, factor: float) -> None:
        """Record the factor that a command really needed, and use it from then on in place of the attempted one."""
        with self._lock:
            if factor > self._too_low.get(what, factor):
                self._needed[what] = max(factor, self._needed.get(what, 0.0))
                self._next[what] = self._needed[what]

    def of(self, what: str) -> float:
        """Return the factor of the next guess."""
        return self._next.get(what, 1.0)


class ToolchainPrefetcher:
    """Prepares toolchains before they are needed. An error is raised for each cell that needs the toolchain."""

    def __init__(self, toolchains: Toolchains) -> None:
        self.toolchains = toolchains
        self._errors: dict[PrefixId, WheelsmithError] = {}

    def prefetch(self, prefix: PrefixId) -> None:
        """Prepare a prefix, and store an error for ``prepare``."""
        try:
            self.toolchains.prepare(prefix)
        except WheelsmithError as error:
            self._errors[prefix] = error

    def prepare(self, prefix: PrefixId) -> Path:
        """Return the folder of a prefix.

        :raises WheelsmithError: the prefix cannot be created.
        """
        if prefix in self._errors:
            raise self._errors[prefix]
        return self.toolchains.prepare(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """The objects and settings that all builds of a run share.

    :param sources: name of a kernel → its source. The only kernel of a run has the name ``""``.
    :param builds: name of a kernel → the builds of upstream that it takes.
    :param own_engine: the engine for wheelsmith's own programs, which read the output of builds.
    :param limits: limits of one cell.
    :param memory: bytes that the run may use.
    :param cores: cores of a cell that is built by one command.
    :param all_cores: cores that all builds together may use.
    :param folder: a temporary folder of this run.
    :param logs: folder for the log of each cell.
    :param tests: name of a kernel → a command that must succeed with each of its wheels installed, or None.
    :param force: build cells even if the store has their wheels.
    :param reuse: use compiled objects from the cache.
    """

    sources: dict[str, SourceTree]
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
    builds: dict[str, SourceTree] = field(default_factory=dict)
    tests: dict[str, str | None] = field(default_factory=dict)
    force: bool = False
    reuse: bool = True
    claims: InFlightKeys = field(default_factory=InFlightKeys)
    guess_factors: GuessFactors = field(default_factory=GuessFactors)

    def source(self, plan: BuildPlan) -> SourceTree:
        """Return the source of a plan's kernel."""
        name = plan.cell.kernel or ""
        return self.builds.get(name, self.sources[name]) if plan.repacked else self.sources[name]

    def required_wheels(self, plan: BuildPlan) -> tuple[Path, ...]:
        """Return the wheels of other kernels that a plan requires.

        :raises StoreError: the store has lost one since it was built.
        """
        found = {each.project: self.store.find(each.digest) for each in plan.requires}
        if lost := [project for project, stored in found.items() if stored is None]:
            raise StoreError(f"the wheel of {lost[0]} is not in the cache any more", remedy="run the command again")
        return tuple(stored.path for stored in found.values() if stored)

    def test(self, plan: BuildPlan) -> str | None:
        """Return the test of a plan's kernel, or None."""
        return self.tests.get(plan.cell.kernel or "")

    def cap_memory(self, memory: int) -> int:
        """Limit the memory of a task, in bytes, to that of a cell and of the run."""
        return min(memory, self.limits.memory or memory, self.memory)


def log_name(plan: BuildPlan) -> str:
    """Return the file name of the log of a cell."""
    return f"{plan.cell.id}.log"
