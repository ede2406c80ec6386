"""Tasks with dependencies, and the resources that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

MIB = 2**20
PACK_SECONDS = 3.0  # duration of linking, packing, repair and check


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources that a running task occupies.

    :param cores: 0 for a task that only waits for the network or the disk.
    :param memory: bytes.
    :param is_guess: the memory is a guess, so the task gets an equal share of all memory if that is more.
    """

    cores: int = 1
    memory: int = 0
    is_guess: bool = False


class TaskAdder(Protocol):
    """The interface of the scheduler for running tasks."""

    def add(self, group: str, tasks: tuple[Task, ...]) -> None:
        """Add tasks to a build that has a running task. Ignored if the build was cancelled or has failed."""

    def wait(self, name: str) -> None:
        """Release the cores of a running task, because it waits for tasks that it adds."""


class RetryTask(Exception):  # noqa: N818  # not an error; the scheduler catches it
    """A task must run again later. If neither argument is given, its resources are estimated again.

    :param memory: bytes that it needs.
    :param after: name of the running task whose result it needs.
    """

    def __init__(self, *, memory: int = 0, after: str | None = None) -> None:
        super().__init__()
        self.memory = memory
        self.after = after


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a run.

    :param name: name of the task, unique in the run.
    :param group: the build that it belongs to; empty if several builds need it.
    :param run: performs the task with a memory limit in bytes, and returns the tasks that follow.
    :param needs: names of tasks that must end first. They may be added later.
    :param demand: the resources that it needs.
    :param rank: expected seconds from its start to the end of its build, on the longest path. The largest runs first.
    :param seconds: expected duration.
    :param estimate: returns resources and duration again when all needed tasks have ended and more is known.
    :param min_memory: minimum of memory in bytes, from earlier attempts.
    """

    name: str
    group: str
    run: Callable[[int], tuple[Task, ...]]
    needs: tuple[str, ...] = ()
    demand: Resources = Resources()
    rank: float = 0.0
    seconds: float = 0.0
    estimate: Callable[[], tuple[Resources, float]] | None = None
    min_memory: int = 0

    def with_estimate(self) -> Task:
        """Return the task with a new estimate of its resources."""
        if self.estimate is None:
            return self
        demand, seconds = self.estimate()
        return replace(self, demand=replace(demand, memory=max(demand.memory, self.min_memory)), seconds=seconds)

    def for_retry(self, reason: RetryTask) -> Task:
        """Return the task for another attempt."""
        needs = (*self.needs, reason.after) if reason.after else self.needs
        if not reason.memory:
            return replace(self, needs=needs)
        return replace(self, needs=needs, demand=replace(self.demand, memory=reason.memory), min_memory=reason.memory)
