"""The queue of tasks: longest path first, within the machine's cores and memory. It uses no threads and no clock.

Builds are admitted one by one, only as many as keep every core busy. Waiting builds need no disk space, and the results
of a thousand cells arrive throughout the run instead of at its end.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from wheelsmith.pipeline.tasks import Resources, RetryTask, Task

# Tasks that may overtake one that waits for resources. After that, a task starts only if it leaves enough memory
# for the waiting one once the largest running task ends.
_MAX_OVERTAKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The resources that all tasks together may use.

    :param memory: bytes; a task that needs more runs alone.
    :param io_slots: number of concurrent tasks that need no core.
    """

    cores: int
    memory: int
    io_slots: int = 4


_Entry = tuple[float, int, Task]


class TaskQueue:
    """The tasks that are waiting, running or done."""

    def __init__(self, machine: Capacity, groups: Iterable[tuple[str, tuple[Task, ...]]]) -> None:
        self._machine = machine
        self._cores, self._memory, self._io_slots = machine.cores, machine.memory, machine.io_slots
        self._queue = deque(groups)
        self._window = 2 * machine.cores + 2
        self._open: dict[str, int] = {}
        self._ready: list[_Entry] = []
        self._ready_io: list[_Entry] = []
        self._missing: dict[str, set[str]] = {}
        self._waiting: dict[str, list[Task]] = {}
        self._done: set[str] = set()
        self._overtaken: dict[str, int] = {}
        self._waiters: dict[str, Task] = {}
        self._count = 0
        self._running = 0
        self._memory_by_task: dict[str, int] = {}

    @property
    def held(self) -> Resources:
        """Return the resources of the running tasks."""
        machine = self._machine
        return Resources(cores=machine.cores - self._cores, memory=machine.memory - self._memory)

    @property
    def is_empty(self) -> bool:
        """Return True if no task is left to start or to wait for."""
        return not (self._queue or self._running or self._ready or self._ready_io or self._waiting)

    def add(self, tasks: Iterable[Task]) -> None:
        """Add tasks."""
        for task in tasks:
            if task.group:
                self._open[task.group] = self._open.get(task.group, 0) + 1
            self._enqueue(task)

    def admit(self, groups: Iterable[tuple[str, tuple[Task, ...]]]) -> None:
        """Add builds to the end of the queue."""
        self._queue.extend(groups)

    def take(self) -> Task | None:
        """Return the next task to start, or None if no waiting task fits."""
        while (task := self._pop_next()) is None:
            if not self._queue or self._cores == 0 or len(self._open) >= self._window:
                return None
            name, tasks = self._queue.popleft()
            self._open.setdefault(name, 0)
            self.add(tasks)
        self._reserve(task, 1)
        return task

    def done(self, task: Task, following: Iterable[Task] = ()) -> bool:
        """Mark a task as done. Return True if its build is done."""
        self._reserve(task, -1)
        self._done.add(task.name)
        self.add(following)
        self._release(task.name)
        if not task.group:
            return False
        self._open[task.group] -= 1
        return self._close_if_done(task.group)

    def again(self, task: Task, reason: RetryTask) -> None:
        """Put a task that must be retried back into the queue."""
        self._reserve(task, -1)
        self._enqueue(task.for_retry(reason))

    def wait(self, task: Task) -> None:
        """Release the cores of a running task, which from now on waits for tasks of its own build."""
        if task.name in self._waiters:
            return
        self._cores += task.demand.cores
        self._waiters[task.name] = task
        self._memory_by_task.pop(task.name, None)

    def drop(self, group: str) -> bool:
        """Remove the tasks of a build that have not started. Return True if none of its tasks is running."""
        ready = (task for _, _, task in (*self._ready, *self._ready_io))
        dropped = {task.name for task in ready if task.group == group}
        self._ready = [entry for entry in self._ready if entry[2].group != group]
        self._ready_io = [entry for entry in self._ready_io if entry[2].group != group]
        for name, waiters in list(self._waiting.items()):
            dropped.update(task.name for task in waiters if task.group == group)
            self._waiting[name] = [task for task in waiters if task.group != group]
            if not self._waiting[name]:
                del self._waiting[name]
        for name in dropped:
            self._missing.pop(name, None)
            # Tasks of other builds may wait for this result. They are released, and produce it themselves.
            self._release(name)
        self._open[group] = self._open.get(group, 0) - len(dropped)
        return self._close_if_done(group)

    def clear(self) -> tuple[str, ...]:
        """Remove every build that was not admitted yet, and return their names."""
        names = tuple(name for name, _ in self._queue)
        self._queue.clear()
        return names

    def _close_if_done(self, group: str) -> bool:
        if self._open[group] > 0:
            return False
        del self._open[group]
        return True

    def _enqueue(self, task: Task) -> None:
        missing = {name for name in task.needs if name not in self._done}
        if not missing:
            self._push_ready(task)
            return
        self._missing[task.name] = missing
        for name in missing:
            self._waiting.setdefault(name, []).append(task)

    def _release(self, name: str) -> None:
        for waiter in self._waiting.pop(name, []):
            missing = self._missing.get(waiter.name)
            if missing is not None:
                missing.discard(name)
                if not missing:
                    del self._missing[waiter.name]
                    self._push_ready(waiter)

    def _push_ready(self, task: Task) -> None:
        self._count += 1
        task = _estimated(task)
        ready = self._ready if task.demand.cores else self._ready_io
        insort(ready, (-task.rank, self._count, task))

    def _pop_next(self) -> Task | None:
        if self._io_slots and self._ready_io:
            return self._ready_io.pop(0)[2]
        reserved = 0
        for place, (rank, count, task) in enumerate(self._ready if self._cores else ()):
            if self._lacks_memory(task):
                # Similar tasks may have finished since, which improves the estimate.
                task = _estimated(task)  # noqa: PLW2901  # the same task
                self._ready[place] = (rank, count, task)
            if self._has_cores(task) and not self._lacks_memory(task) and self._leaves_memory(reserved, task):
                for _, _, other in self._ready[:place]:
                    self._overtaken[other.name] = self._overtaken.get(other.name, 0) + 1
                del self._ready[place]
                return task if reserved else self._with_share(task)
            if not reserved and self._overtaken.get(task.name, 0) >= _MAX_OVERTAKEN and self._fits_with_waiters(task):
                reserved = task.demand.memory
        return None

    def _has_cores(self, task: Task) -> bool:
        # A task that needs more cores than the machine has runs alone, like one that needs more memory.
        return task.demand.cores <= self._cores or self._cores == self._machine.cores

    def _with_share(self, task: Task) -> Task:
        """Return a task whose memory is a guess with an equal share of the memory, if that is more and free."""
        share = min(self._memory, self._memory_without_waiters() // self._machine.cores)
        if not task.demand.is_guess or share <= task.demand.memory:
            return task
        return replace(task, demand=replace(task.demand, memory=share))

    def _lacks_memory(self, task: Task) -> bool:
        runs_alone = self._memory >= self._memory_without_waiters() and self._fits_with_waiters(task)
        return task.demand.memory > self._memory and not runs_alone

    def _leaves_memory(self, reserved: int, task: Task) -> bool:
        """Return True if, with this task running, ``reserved`` bytes are free once the largest running task ends."""
        return (
            not reserved
            or self._memory + max(self._memory_by_task.values(), default=0) - task.demand.memory >= reserved
        )

    def _fits_with_waiters(self, task: Task) -> bool:
        """Return True if a task can run once no other task runs. A task that a waiting one depends on always can."""
        awaited = not self._waiters or any(waiter.group == task.group for waiter in self._waiters.values())
        return awaited or task.demand.memory <= self._memory_without_waiters()

    def _memory_without_waiters(self) -> int:
        # Waiting tasks release their memory only after the tasks that they wait for.
        return self._machine.memory - sum(waiter.demand.memory for waiter in self._waiters.values())

    def _reserve(self, task: Task, sign: int) -> None:
        self._running += sign
        if task.demand.cores == 0:
            self._io_slots -= sign
        elif sign > 0:
            self._memory_by_task[task.name] = task.demand.memory
        else:
            self._memory_by_task.pop(task.name, None)
        if self._waiters.pop(task.name, None) is None:
            self._cores -= sign * task.demand.cores
        self._memory -= sign * task.demand.memory


def _estimated(task: Task) -> Task:
    """Return a task with its estimated demand. If the estimate raises, the returned task fails with that error."""
    try:
        return task.with_estimate()
    except Exception as error:  # noqa: BLE001  # a bug in one estimate must not stop the others
        mistake = error

        def fail(memory: int) -> tuple[Task, ...]:
            del memory
            raise mistake

        return replace(task, run=fail, estimate=None)
