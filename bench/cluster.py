"""Simulate a run on many machines, with the real board and the real queue of each machine."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.simulation import longest_path
from wheelsmith.pipeline.tasks import Task
from wheelsmith.run.schedule import Capacity, TaskQueue
from wheelsmith.run.schedule.board import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBuild:
    """A build with the tasks of each compile step, and what follows them.

    :param again: tasks that the last machine repeats if others compiled the steps, such as preprocessing.
    """

    steps: tuple[tuple[Task, ...], ...]
    pack: Task
    again: tuple[Task, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks of the whole build."""
        return (*(task for step in self.steps for task in step), self.pack)

    @property
    def seconds(self) -> float:
        """Return the seconds of one core."""
        return sum(task.seconds for task in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWorker:
    """A machine of a simulated cluster.

    :param speed: relative speed of a core.
    :param joins: seconds until it joins.
    :param dies: seconds until it dies; None for never.
    :param fetch: seconds that each build waits for the network before it starts.
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
    :param lost: seconds of work that had to be repeated.
    :param paid: seconds of cores from when their machine joins until it dies or the run ends.
    :param bound: a lower limit of the seconds for any schedule.
    """

    seconds: float
    lost: float
    paid: float
    bound: float


@dataclass(slots=True)
class _Machine:
    worker: SimulatedWorker
    queue: TaskQueue
    sizes: dict[str, int] = field(default_factory=dict)  # build → tasks
    left: dict[str, int] = field(default_factory=dict)  # build → tasks that have not ended
    spent: dict[str, float] = field(default_factory=dict)
    is_alive: bool = True


class _Cluster:
    def __init__(
        self, builds: Mapping[str, SimulatedBuild], costs: Mapping[str, float], workers: Sequence[SimulatedWorker]
    ) -> None:
        self.builds = builds
        self.board = Board(costs, {name: len(build.steps) for name, build in builds.items()})
        self.machines = {
            f"w{number:03}": _Machine(worker, TaskQueue(Capacity(cores=worker.cores, memory=worker.memory), ()))
            for number, worker in enumerate(workers)
        }
        self.changed: set[str] = set()
        self.events: list[tuple[float, int, str, str, Task | None]] = []
        self.lost = 0.0
        self.seconds = 0.0
        self.count = 0
        for name, machine in self.machines.items():
            self._plan(machine.worker.joins, "join", name)
            if machine.worker.dies is not None:
                self._plan(machine.worker.dies, "die", name)

    def run(self) -> None:
        while not self.board.is_done:
            self.seconds, _, kind, name, task = heapq.heappop(self.events)
            machine = self.machines[name]
            if kind == "join":
                self.board.add_worker(name, machine.worker.cores, machine.worker.speed)
            elif kind == "die":
                machine.is_alive = False
                self.lost += sum(machine.spent[build] for build in machine.left)
                self.board.remove_worker(name)
            elif machine.is_alive and task is not None:
                self._end(name, machine, task)
            self._start()

    def _plan(self, when: float, kind: str, name: str, task: Task | None = None) -> None:
        self.count += 1
        heapq.heappush(self.events, (when, self.count, kind, name, task))

    def _end(self, name: str, machine: _Machine, task: Task) -> None:
        machine.queue.done(task)
        build = task.group
        machine.spent[build] += task.seconds / machine.worker.speed
        machine.left[build] -= 1
        if not machine.left[build]:
            del machine.left[build]
            self.board.measure(name, build, machine.spent[build])
            self.board.finish(build)
        self.changed.add(name)

    def _start(self) -> None:
        while True:
            while given := self.board.take():
                name, build = given
                machine, tasks = self.machines[name], self._tasks(build)
                machine.sizes[build] = machine.left[build] = len(tasks)
                machine.spent[build] = 0.0
                machine.queue.admit([(build, tasks)])
                self.changed.add(name)
            if not self.changed:
                return
            name = self.changed.pop()
            if (machine := self.machines[name]).is_alive:
                self._start_tasks(name, machine)

    def _start_tasks(self, name: str, machine: _Machine) -> None:
        while (task := machine.queue.take()) is not None:
            self.board.start(name, task.group)
            fetch = 0.0 if task.needs else machine.worker.fetch / machine.sizes[task.group]
            self._plan(self.seconds + task.seconds / machine.worker.speed + fetch, "end", name, task)
        self.board.set_idle(name, is_idle=machine.queue.held.cores < machine.worker.cores)

    def _tasks(self, name: str) -> tuple[Task, ...]:
        """Return the tasks of a build, of a part of it, or of what is left after its parts."""
        if part := self.board.parts.get(name):
            steps = self.builds[part.build].steps[part.number :: part.count]
            return tuple(replace(task, group=name) for step in steps for task in step)
        build = self.builds[name]
        if any(part.build == name for part in self.board.parts.values()):
            needs = tuple(task.name for task in build.again)
            return (*build.again, replace(build.pack, needs=needs))
        return build.tasks


def simulate_cluster(
    builds: Mapping[str, SimulatedBuild], costs: Mapping[str, float], workers: Sequence[SimulatedWorker]
) -> ClusterForecast:
    """Run builds on a simulated cluster.

    :param costs: build → the seconds of one core that the board expects.
    """
    cluster = _Cluster(builds, costs, workers)
    cluster.run()
    end = cluster.seconds
    power = sum(worker.cores * worker.speed for worker in workers)
    longest = longest_path([(name, build.tasks) for name, build in builds.items()])
    return ClusterForecast(
        seconds=end,
        lost=cluster.lost,
        paid=sum(worker.cores * max(0.0, min(end, worker.dies or end) - worker.joins) for worker in workers),
        bound=max(sum(build.seconds for build in builds.values()) / power, longest / max(w.speed for w in workers)),
    )
