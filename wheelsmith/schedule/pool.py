"""Run builds on this machine: several at once, never more than its memory holds."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wheelsmith.model import BuildPlan, BuildResult, Failure, Status
from wheelsmith.schedule.fold import Build

RunOne = Callable[[BuildPlan, threading.Event], BuildResult]
_TICK = 0.2  # seconds between looks at the cancel flag


def run_builds(
    builds: Sequence[Build],
    run_one: RunOne,
    *,
    jobs: int,
    memory: int,
    cost: Callable[[BuildPlan], int],
    on_result: Callable[[BuildResult], None],
    fail_fast: bool,
    cancel: threading.Event,
) -> tuple[BuildResult, ...]:
    """Run every build and give an answer for every plan.

    :param jobs: builds at once.
    :param memory: bytes that all builds together may need; one that needs more runs alone.
    :param cost: the bytes that a build needs at its worst. The costliest start first, so that none is left for the end.
    :param on_result: is called in the calling thread, as answers come.
    :param cancel: when set, what runs is killed and what waits is not started.
    """
    waiting = sorted(builds, key=lambda build: -cost(build.plan))
    state = _Pool(run_one=run_one, memory=memory, cost=cost, waiting=waiting, fail_fast=fail_fast)
    threads = [threading.Thread(target=state.work, daemon=True) for _ in range(min(jobs, len(builds)))]
    for thread in threads:
        thread.start()
    answers: list[BuildResult] = []
    left = len(builds)
    while left:
        try:
            build, result = state.finished.get(timeout=_TICK)
        except queue.Empty:
            if cancel.is_set():
                state.stop()
            continue
        left -= 1
        for answer in build.answers(result):
            answers.append(answer)
            on_result(answer)
    for thread in threads:
        thread.join()
    return tuple(answers)


@dataclass(slots=True, kw_only=True)
class _Pool:
    """What the workers share; each spawns and waits for its processes in its own thread."""

    run_one: RunOne
    memory: int
    cost: Callable[[BuildPlan], int]
    waiting: list[Build]
    fail_fast: bool
    finished: queue.SimpleQueue[tuple[Build, BuildResult]] = field(default_factory=queue.SimpleQueue)
    halt: threading.Event = field(default_factory=threading.Event)
    _running: int = 0
    _used: int = 0
    _change: threading.Condition = field(default_factory=threading.Condition)

    def stop(self) -> None:
        """Kill what runs and start nothing more."""
        self.halt.set()
        with self._change:
            self._change.notify_all()

    def work(self) -> None:
        """Take builds until none is left."""
        while (build := self._take()) is not None:
            try:
                result = self._run(build)
                if self.fail_fast and result.status is Status.FAILED:
                    self.stop()
            finally:
                with self._change:
                    self._running -= 1
                    self._used -= self.cost(build.plan)
                    self._change.notify_all()
            self.finished.put((build, result))

    def _take(self) -> Build | None:
        with self._change:
            while self.waiting:
                fitting = next((b for b in self.waiting if self.halt.is_set() or self._fits(b)), None)
                if fitting is not None:
                    self.waiting.remove(fitting)
                    self._running += 1
                    self._used += self.cost(fitting.plan)
                    return fitting
                self._change.wait()
        return None

    def _fits(self, build: Build) -> bool:
        return self._running == 0 or self._used + self.cost(build.plan) <= self.memory

    def _run(self, build: Build) -> BuildResult:
        if self.halt.is_set():
            return _unmade(build.plan, Status.CANCELLED, Failure(stage="queue", message="not started"))
        try:
            return self.run_one(build.plan, self.halt)
        except Exception as error:  # noqa: BLE001  # a mistake of ours in one cell must not lose the others
            failure = Failure(stage="internal", message=f"wheelsmith failed: {type(error).__name__}: {error}")
            return _unmade(build.plan, Status.FAILED, failure)


def _unmade(plan: BuildPlan, status: Status, failure: Failure) -> BuildResult:
    return BuildResult(cell=plan.cell, plan_digest=plan.build_digest, status=status, failure=failure)
