"""Run the tasks of builds in threads, within the cores and memory of this machine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from wheelsmith.model import BuildResult, Status
from wheelsmith.pipeline import CellBuild
from wheelsmith.pipeline.tasks import Resources, RetryTask, Task
from wheelsmith.run.schedule.task_queue import Capacity, TaskQueue

_TICK = 0.2  # seconds between looks at the cancel flag
_MOST_ARRIVED = 64  # builds that arrive later and wait at the same time


_Arriving = tuple[Sequence[CellBuild], Sequence[Task]]


def run_builds(
    builds: Sequence[CellBuild],
    shared: Sequence[Task],
    *,
    machine: Capacity,
    on_result: Callable[[CellBuild, BuildResult], None],
    fail_fast: bool,
    cancel: threading.Event,
    on_load: Callable[[Resources], None] = lambda _: None,
    arriving: Callable[[], _Arriving | None] = lambda: None,
) -> None:
    """Run every build and report a result for each. No task is running when this returns or raises.

    :param builds: in the order in which they start.
    :param shared: tasks that several builds depend on.
    :param on_result: receives each build with its result. If it raises, running tasks are killed and the error
        propagates.
    :param cancel: once it is set, running tasks are killed and no more are started.
    :param on_load: receives the resources of running tasks whenever they change.
    :param arriving: returns builds and shared tasks that have arrived since, without waiting; None if no more will.
    """
    pool = _Pool(builds, machine, on_result=on_result, on_load=on_load, fail_fast=fail_fast)
    # A task that waits for others of its build keeps its thread, so there are additional threads for the builds.
    with ThreadPoolExecutor(machine.cores + machine.io_slots + len(builds) + _MOST_ARRIVED) as threads:
        try:
            pool.run(shared, threads, cancel, arriving)
        finally:
            for build in pool.builds.values():
                build.stop()


class _Pool:
    """The builds of a run. The calling thread starts tasks; the threads of the tasks report to it through a queue."""

    def __init__(
        self,
        builds: Sequence[CellBuild],
        machine: Capacity,
        *,
        on_result: Callable[[CellBuild, BuildResult], None],
        on_load: Callable[[Resources], None],
        fail_fast: bool,
    ) -> None:
        self.builds = {build.name: build for build in builds}
        self._on_result = on_result
        self._on_load = on_load
        self._fail_fast = fail_fast
        self._inbox = queue.SimpleQueue[Callable[[], None]]()
        self._running: dict[str, Task] = {}
        self._errors: dict[str, BaseException | None] = {}
        self._queue = TaskQueue(machine, [(build.name, build.tasks(self)) for build in builds])

    def add(self, group: str, tasks: tuple[Task, ...]) -> None:
        """Add tasks to a build that has a running task. They are ignored if the build was abandoned."""
        self._inbox.put(partial(self._add, group, tasks))

    def wait(self, name: str) -> None:
        """Release the cores of a running task, which from now on waits for tasks that it adds."""
        self._inbox.put(partial(self._wait, name))

    def run(
        self,
        shared: Sequence[Task],
        threads: Executor,
        cancel: threading.Event,
        arriving: Callable[[], _Arriving | None],
    ) -> None:
        """Run all builds until they end."""
        self._queue.add(shared)
        more: _Arriving | None = ((), ())
        while self.builds or self._running or more is not None:
            if cancel.is_set():
                self._stop()
                more = None
            if more is not None and (more := arriving()):
                self._admit(*more)
            while self.builds and (task := self._queue.take()) is not None:
                self._running[task.name] = task
                self._on_load(self._queue.held)
                threads.submit(self._run_task, task)
            with suppress(queue.Empty):
                self._inbox.get(timeout=_TICK)()

    def _admit(self, builds: Sequence[CellBuild], shared: Sequence[Task]) -> None:
        self.builds |= {build.name: build for build in builds}
        self._queue.add(shared)
        self._queue.admit((build.name, build.tasks(self)) for build in builds)

    def _run_task(self, task: Task) -> None:
        """Run a task in its own thread."""
        following: tuple[Task, ...] = ()
        retry = error = None
        try:
            following = task.run(task.demand.memory)
        except RetryTask as reason:
            retry = reason
        except BaseException as exception:  # noqa: BLE001  # a bug in one cell must not stop the others
            error = exception
        self._inbox.put(partial(self._end_task, task, following, retry, error))

    def _end_task(
        self, task: Task, following: tuple[Task, ...], retry: RetryTask | None, error: BaseException | None
    ) -> None:
        """Process the end of a task."""
        stopped = task.group in self._errors
        del self._running[task.name]
        if retry is not None and not stopped:
            self._queue.again(task, retry)
        elif self._queue.done(task, () if stopped else following):
            self._finish(task.group, self._errors.setdefault(task.group, error))
        elif error is not None:
            self._abandon(task.group, error)
        self._on_load(self._queue.held)

    def _add(self, group: str, tasks: tuple[Task, ...]) -> None:
        if group in self.builds and group not in self._errors:
            self._queue.add(tasks)

    def _wait(self, name: str) -> None:
        if name in self._running:
            self._queue.wait(self._running[name])

    def _stop(self) -> None:
        """Kill running tasks and start no more."""
        for name in self._queue.clear():
            self._finish(name, None)
        for name in list(self.builds):
            self._abandon(name, None)

    def _abandon(self, name: str, error: BaseException | None) -> None:
        """End a build without a wheel. Its first error is the one that is reported."""
        build = self.builds.get(name)
        if build is None:
            return
        if name not in self._errors:
            self._errors[name] = error
            build.stop()
        if self._queue.drop(name):
            self._finish(name, self._errors[name])

    def _finish(self, name: str, error: BaseException | None) -> None:
        build = self.builds.pop(name, None)
        if build is None:
            return
        result = build.result(error)
        self._on_result(build, result)
        if self._fail_fast and result.status is Status.FAILED:
            self._stop()
