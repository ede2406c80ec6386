"""Pieces of work that wait for one another, and what each needs of the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

MIB = 2**20
PACK_SECONDS = 3.0  # that a build takes after its objects: to link, pack, repair and check


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a task holds while it runs.

    :param cores: 0 for a task that waits for the network or the disk.
    :param memory: bytes.
    """

    cores: int = 1
    memory: int = 0


class TaskAdder(Protocol):
    """Who runs the tasks of builds, as one that runs sees it."""

    def add(self, group: str, tasks: tuple[Task, ...]) -> None:
        """Take tasks of a build in, one of which runs; nothing is taken of one that was given up."""

    def wait(self, name: str) -> None:
        """Take back the cores of a task that runs: from now on it waits for tasks that it adds."""


class RetryTask(Exception):  # noqa: N818  # no error: whoever runs tasks catches it
    """A task cannot be done now: it wants more memory, or the result of another that is being worked on.

    One that says neither is estimated anew.
    """

    def __init__(self, *, memory: int = 0, after: str | None = None) -> None:
        super().__init__()
        self.memory = memory
        self.after = after


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A piece of work.

    :param name: unique in a run.
    :param group: the build it belongs to; empty for what several builds wait for.
    :param needs: names of tasks that must be done first, which may be added later.
    :param rank: seconds from its start to the end of its build, along the longest path: the larger goes first.
    :param seconds: what it is expected to take.
    :param run: does it, given the memory (bytes) it may use, and gives the tasks that follow from it.
    :param estimate: says what it needs, once what it waited for is done and more is known than when it was made.
    :param least: bytes of memory that it has shown to need, whatever is estimated.
    """

    name: str
    group: str
    run: Callable[[int], tuple[Task, ...]]
    needs: tuple[str, ...] = ()
    demand: Resources = Resources()
    rank: float = 0.0
    seconds: float = 0.0
    estimate: Callable[[], tuple[Resources, float]] | None = None
    least: int = 0

    def estimated(self) -> Task:
        """Return the task with what it is known to need now."""
        if self.estimate is None:
            return self
        demand, seconds = self.estimate()
        return replace(self, demand=replace(demand, memory=max(demand.memory, self.least)), seconds=seconds)

    def again(self, reason: RetryTask) -> Task:
        """Return the task as it is tried once more."""
        needs = (*self.needs, reason.after) if reason.after else self.needs
        if not reason.memory:
            return replace(self, needs=needs)
        return replace(self, needs=needs, demand=replace(self.demand, memory=reason.memory), least=reason.memory)
