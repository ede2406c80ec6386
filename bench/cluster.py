"""Simulate a run on many machines, with the real board and the real queue of each machine."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wheelsmith.pipeline.tasks import Task
from wheelsmith.run.schedule import Capacity, TaskQueue
from wheelsmith.run.schedule.board import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWorker:
    """A machine of a simulated cluster.

    :param speed: relative speed of a core.
    :param joins: seconds until it joins.
    :param dies: seconds until it dies; None for never.
    :param fetch: seconds in which it fetches what a build needs, during which its other cores go on.
    """

    cores: int
    memory: int
    speed: float = 1.0
    joins: float = 0.0
    dies: float | None = None
    fetch: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterForecast:
    """The result of a simulated run.

    :param seconds: the duration of the run.
    :param work: seconds of a core of speed 1.
    :param lost: seconds of work that had to be repeated.
    """

    seconds: float
    work: float
    lost: float
    bound: float

    @property
    def utilisation(self) -> float:
        """Return the bound divided by the duration."""
        return self.bound / self.seconds


@dataclass(slots=True)
class _Machine:
    worker: SimulatedWorker
    queue: TaskQueue
    left: dict[str, int] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    alive: bool = True


def _queue(worker: SimulatedWorker) -> TaskQueue:
    return TaskQueue(Capacity(cores=worker.cores, memory=worker.memory), [])


class _Cluster:
    def __init__(
        self,
        groups: Mapping[str, tuple[Task, ...]],
        costs: Mapping[str, float],
        workers: Sequence[SimulatedWorker],
    ) -> None:
        self.groups = groups
        self.board = Board(costs)
        self.machines = {f"w{number:03}": _Machine(worker, _queue(worker)) for number, worker in enumerate(workers)}
        self.touched: set[str] = set()
        self.events: list[tuple[float, int, str, str, Task | None]] = []
        self.count = 0
        self.lost = 0.0
        for name, machine in self.machines.items():
            self.push(machine.worker.joins, "join", name)
            if machine.worker.dies is not None:
                self.push(machine.worker.dies, "die", name)

    def push(self, when: float, kind: str, name: str, task: Task | None = None) -> None:
        self.count += 1
        heapq.heappush(self.events, (when, self.count, kind, name, task))

    def run(self) -> float:
        now = 0.0
        while not self.board.is_done:
            now, _, kind, name, task = heapq.heappop(self.events)
            machine = self.machines[name]
            if kind == "join":
                self.board.add_worker(name, machine.worker.cores)
            elif kind == "die" and machine.alive:
                machine.alive = False
                self.lost += sum(machine.spent[build] for build in machine.left)
                self.board.remove_worker(name)
            elif kind == "end" and machine.alive and task is not None:
                self.end(name, machine, task)
            self.start(now)
        return now

    def end(self, name: str, machine: _Machine, task: Task) -> None:
        machine.queue.done(task)
        machine.spent[task.group] += task.seconds / machine.worker.speed
        machine.left[task.group] -= 1
        if not machine.left[task.group]:
            del machine.left[task.group]
            self.board.measure(name, task.group, machine.spent[task.group])
            self.board.finish(task.group)
        self.touched.add(name)

    def start(self, now: float) -> None:
        while True:
            while given := self.board.take():
                name, build = given
                machine = self.machines[name]
                machine.left[build], machine.spent[build] = len(self.groups[build]), 0.0
                machine.queue.admit([(build, self.groups[build])])
                self.touched.add(name)
            if not self.touched:
                return
            name = self.touched.pop()
            machine = self.machines[name]
            while machine.alive and (task := machine.queue.take()) is not None:
                is_first = task.group not in self.board._workers[name].started
                self.board.start(name, task.group)
                seconds = task.seconds / machine.worker.speed + (machine.worker.fetch if is_first else 0.0)
                self.push(now + seconds, "end", name, task)
            if machine.alive:
                self.board.set_idle(name, is_idle=machine.queue.held.cores < machine.worker.cores)


def simulate_cluster(
    groups: Mapping[str, tuple[Task, ...]], costs: Mapping[str, float], workers: Sequence[SimulatedWorker]
) -> ClusterForecast:
    """Run builds on a simulated cluster.

    :param groups: build → its tasks.
    :param costs: build → the seconds that the board expects.
    """
    cluster = _Cluster(groups, costs, workers)
    seconds = cluster.run()
    work = sum(task.seconds for tasks in groups.values() for task in tasks)
    power = sum(worker.cores * worker.speed for worker in workers)
    fastest = max(worker.speed for worker in workers)
    longest = max(_longest_path(tasks) for tasks in groups.values()) / fastest
    return ClusterForecast(seconds=seconds, work=work, lost=cluster.lost, bound=max(work / power, longest))


def _longest_path(tasks: Sequence[Task]) -> float:
    ends: dict[str, float] = {}
    for task in tasks:
        ends[task.name] = task.seconds + max((ends.get(name, 0.0) for name in task.needs), default=0.0)
    return max(ends.values(), default=0.0)
