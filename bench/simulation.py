"""How long a run would take on a machine that one does not have, and how well it would use it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from wheelsmith.pipeline.tasks import Task
from wheelsmith.run.schedule import Capacity, TaskQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a simulated run comes to.

    :param seconds: from the first task's start to the last one's end.
    :param bound: seconds that no schedule can beat: the cores' share of the work, the longest path, and the memory's
        share of what tasks hold.
    :param peak_memory: the most bytes that tasks held at once.
    """

    seconds: float
    bound: float
    peak_memory: int

    @property
    def utilisation(self) -> float:
        """Return how near to the bound it comes, at most 1."""
        return self.bound / self.seconds if self.seconds else 1.0


def simulate(groups: Sequence[tuple[str, tuple[Task, ...]]], machine: Capacity) -> Forecast:
    """Run the real scheduler against a clock of its own.

    :param groups: the builds, in the order in which they are admitted; every task's ``seconds`` and ``demand`` count.
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
    return max(work, memory, _longest_path(groups))


def _longest_path(groups: Sequence[tuple[str, tuple[Task, ...]]]) -> float:
    """Return the seconds of the longest chain; tasks stand after what they need."""
    ends: dict[str, float] = {}
    for _, tasks in groups:
        for task in tasks:
            ends[task.name] = task.seconds + max((ends.get(name, 0.0) for name in task.needs), default=0.0)
    return max(ends.values(), default=0.0)
