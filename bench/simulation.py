"""Simulate a run on a machine of any size."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from wheelsmith.pipeline.tasks import Task
from wheelsmith.run.schedule import Capacity, TaskQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The result of a simulated run.

    :param seconds: the duration of the run.
    :param bound: a lower bound for the seconds of any schedule: the largest of the work divided by the cores, the
        longest
        path, and the memory-seconds divided by the memory.
    :param peak_memory: the largest total memory of running tasks in bytes.
    """

    seconds: float
    bound: float
    peak_memory: int

    @property
    def utilisation(self) -> float:
        """Return the bound divided by the duration, at most 1."""
        return self.bound / self.seconds if self.seconds else 1.0


def simulate(groups: Sequence[tuple[str, tuple[Task, ...]]], machine: Capacity) -> Forecast:
    """Run the real scheduler with a simulated clock.

    :param groups: the builds in the order of their admission. Tasks take their ``seconds`` and ``demand``.
    """
    board = TaskQueue(machine, groups)
    running: list[tuple[float, int, Task]] = []
    now, held, peak, count = 0.0, 0, 0, 0
    while not board.is_empty:
        while (task := board.take()) is not None:
            count += 1
            held += task.demand.memory
            heapq.heappush(running, (now + task.seconds, count, task))
        peak = max(peak, held)
        now, _, task = heapq.heappop(running)
        held -= task.demand.memory
        board.done(task)
    return Forecast(seconds=now, bound=_bound(groups, machine), peak_memory=peak)


def _bound(groups: Sequence[tuple[str, tuple[Task, ...]]], machine: Capacity) -> float:
    tasks = [task for _, own in groups for task in own if task.demand.cores]
    work = sum(task.seconds * task.demand.cores for task in tasks) / machine.cores
    memory = sum(task.seconds * task.demand.memory for task in tasks) / machine.memory
    return max(work, memory, longest_path(groups))


def longest_path(groups: Sequence[tuple[str, tuple[Task, ...]]]) -> float:
    """Return the seconds of the longest chain of dependent tasks. Tasks come after those that they need."""
    ends: dict[str, float] = {}
    for _, tasks in groups:
        for task in tasks:
            ends[task.name] = task.seconds + max((ends.get(name, 0.0) for name in task.needs), default=0.0)
    return max(ends.values(), default=0.0)
