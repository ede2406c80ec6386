"""Run builds on this machine: their tasks share its cores, never more than its memory holds."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from wheelsmith.model import BuildResult, Status
from wheelsmith.pipeline.tasks import Resources, RetryTask, Task, TaskAdder
from wheelsmith.run.schedule.task_queue import Capacity, TaskQueue

_TICK = 0.2  # seconds between looks at the cancel flag


class SchedulableBuild(Protocol):
    """One build, as whoever runs it needs to know it."""

    name: str

    def tasks(self, adder: TaskAdder) -> tuple[Task, ...]:
        """Return the tasks to begin with.

        :param adder: takes more of them in while one of them runs.
        """

    def stop(self) -> None:
        """Kill what runs of it."""

    def result(self, error: BaseException | None) -> BuildResult:
        """Return what came of it; called once, when nothing of it runs any more.

        :param error: why it failed; None when its tasks are done, or were never begun because the run was stopped.
        """


def run_builds(
    builds: Sequence[SchedulableBuild],
    shared: Sequence[Task],
    *,
    machine: Capacity,
    on_result: Callable[[BuildResult], None],
    fail_fast: bool,
    cancel: threading.Event,
    on_load: Callable[[Resources], None] = lambda _: None,
) -> None:
    """Run every build and return an answer for each.

    :param builds: in the order in which they begin.
    :param shared: tasks that several builds wait for.
    :param on_result: is called in the calling thread, as answers come.
    :param cancel: when set, what runs is killed and what waits is not started. So it is where ``on_result`` raises,
        before its error is passed on.
    :param on_load: is told in any thread what running tasks hold, whenever that changes; it must not wait.
    """
    named = {build.name: build for build in builds}
    pool = _Pool(builds=named, machine=machine, fail_fast=fail_fast, on_load=on_load)
    pool.board.add(shared)
    for _ in range(machine.cores + machine.io_slots):
        pool.start_thread()
    try:
        for _ in builds:
            on_result(_next_result(pool, cancel))
    finally:
        # Nothing runs any more when this returns: who called removes the folders that builds work in.
        pool.stop()
        pool.close()
        pool.join()


def _next_result(pool: _Pool, cancel: threading.Event) -> BuildResult:
    while True:
        try:
            result = pool.finished.get(timeout=_TICK)
        except queue.Empty:
            if cancel.is_set():
                pool.stop()
            continue
        if isinstance(result, BaseException):
            raise result
        return result


@dataclass(slots=True, kw_only=True)
class _Pool:
    """What the workers share; each spawns and waits for its processes in its own thread."""

    builds: dict[str, SchedulableBuild]
    machine: Capacity
    fail_fast: bool
    on_load: Callable[[Resources], None]
    board: TaskQueue = field(init=False)
    finished: queue.SimpleQueue[BuildResult | BaseException] = field(default_factory=queue.SimpleQueue)
    _errors: dict[str, BaseException | None] = field(default_factory=dict)
    _running: dict[str, Task] = field(default_factory=dict)
    _waiting: set[str] = field(default_factory=set)
    _threads: list[threading.Thread] = field(default_factory=list)
    _closed: bool = False
    _change: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.board = TaskQueue(self.machine, [(build.name, build.tasks(self)) for build in self.builds.values()])

    def start_thread(self) -> None:
        """Start one more worker."""
        thread = threading.Thread(target=self.work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        """Wait until every worker has ended; called once nothing starts any more."""
        for thread in self._threads:
            thread.join()

    def add(self, group: str, tasks: tuple[Task, ...]) -> None:
        """Take tasks of a build in, one of which runs; nothing is taken of one that was given up."""
        with self._change:
            if group in self.builds and group not in self._errors:
                self.board.add(tasks)
                self._change.notify_all()

    def wait(self, name: str) -> None:
        """Take back the cores of a task that runs, and have its place taken."""
        with self._change:
            if name in self._running and name not in self._waiting:
                self._waiting.add(name)
                self.board.wait(self._running[name])
                self.start_thread()
                self._change.notify_all()

    def stop(self) -> None:
        """Kill what runs and start nothing more."""
        with self._change:
            for name in self.board.clear():
                self._finish(name, None)
            for name in list(self.builds):
                self._abandon(name, None)
            self._change.notify_all()

    def close(self) -> None:
        """End the workers."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def work(self) -> None:
        """Do tasks until there are none; whoever waits for results learns if that cannot go on."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001  # it is raised where results are waited for
            self.finished.put(error)

    def _work(self) -> None:
        while (task := self._next()) is not None:
            try:
                follow = task.run(task.demand.memory)
            except RetryTask as reason:
                has_waited = self._settle(task, again=reason)
            except BaseException as error:  # noqa: BLE001  # a mistake of ours in one cell must not lose the others
                has_waited = self._settle(task, error=error)
            else:
                has_waited = self._settle(task, follow=follow)
            if has_waited:
                return  # another has its place

    def _next(self) -> Task | None:
        with self._change:
            while not self._closed:
                if (task := self.board.take()) is not None:
                    self._running[task.name] = task
                    self.on_load(self.board.held)
                    return task
                self._change.wait()
        return None

    def _settle(
        self,
        task: Task,
        *,
        follow: tuple[Task, ...] = (),
        again: RetryTask | None = None,
        error: BaseException | None = None,
    ) -> bool:
        """Take note of a task's end; say whether it has waited for others."""
        with self._change:
            stopped = task.group in self._errors
            del self._running[task.name]
            has_waited = task.name in self._waiting
            self._waiting.discard(task.name)
            if again is not None and not stopped:
                self.board.again(task, again)
            elif self.board.done(task, () if stopped else follow):
                self._finish(task.group, self._errors.setdefault(task.group, error))
            elif error is not None:
                self._abandon(task.group, error)
            self.on_load(self.board.held)
            self._change.notify_all()
        return has_waited

    def _abandon(self, name: str, error: BaseException | None) -> None:
        """Let a build end without a wheel; its first error is the one that is told."""
        build = self.builds.get(name)
        if build is None:
            return
        if name not in self._errors:
            self._errors[name] = error
            build.stop()
        if self.board.drop(name):
            self._finish(name, self._errors[name])

    def _finish(self, name: str, error: BaseException | None) -> None:
        build = self.builds.pop(name, None)
        if build is None:
            return
        result = build.result(error)
        self.finished.put(result)
        if self.fail_fast and result.status is Status.FAILED:
            self.stop()
