import threading
import time
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import plan

from bench.simulation import simulate
from wheelsmith.model import BuildResult, Failure, Status, WheelRecord
from wheelsmith.pipeline.tasks import Resources, RetryTask, Task
from wheelsmith.run.schedule import Capacity, TaskQueue, run_builds

WHEEL = WheelRecord(filename="w", sha256="s", size=1, metadata_sha256="m", requires_python=None)


@dataclass
class Script:
    """A build that does what a test says."""

    number: int
    run: object
    memory: int = 1
    needs: tuple = ()
    stopped: threading.Event = field(default_factory=threading.Event)
    made: bool = False

    @property
    def name(self):
        return plan(self.number).cell.id

    def tasks(self, adder):
        demand = Resources(memory=self.memory)
        return (Task(name=self.name, group=self.name, run=self._run, demand=demand, needs=self.needs),)

    def _run(self, memory):
        follow = self.run(self, memory)
        self.made = True
        return follow if isinstance(follow, tuple) else ()

    def stop(self):
        self.stopped.set()

    def result(self, error):
        own = plan(self.number)
        if error is None and self.made:
            return BuildResult(cell=own.cell, plan_digest="d", status=Status.BUILT, wheel=WHEEL)
        status = Status.FAILED if error else Status.CANCELLED
        return BuildResult(
            cell=own.cell, plan_digest="d", status=status, failure=Failure(stage="build", message=str(error))
        )


def run(builds, *, cores=2, memory=100, shared=(), fail_fast=False, cancel=None):
    seen = []
    machine = Capacity(cores=cores, memory=memory)
    cancel = cancel or threading.Event()
    run_builds(
        builds,
        shared,
        machine=machine,
        on_result=lambda _, result: seen.append(result),
        fail_fast=fail_fast,
        cancel=cancel,
    )
    assert len(seen) == len(builds)
    return [result.status for result in seen]


def fine(build, memory):
    return ()


def broken(build, memory):
    raise KeyError("oops")


def test_fail_fast_starts_nothing_more():
    statuses = run([Script(n, broken) for n in range(6)], cores=1, fail_fast=True)
    assert Status.CANCELLED in statuses


def test_cancelling_reaches_what_runs():
    cancel = threading.Event()

    def wait(build, memory):
        cancel.set()
        assert build.stopped.wait(10)

    statuses = run([Script(n, wait) for n in range(4)], cores=1, cancel=cancel)
    assert statuses.count(Status.CANCELLED) == 3


@pytest.mark.parametrize("when", ["at once", "after another"])
def test_a_task_that_cannot_say_what_it_needs_fails_alone(when):
    def unsure(build, memory):
        def estimate():
            raise ZeroDivisionError("no cores")

        return (Task(name=f"{build.name}:next", group=build.name, run=lambda memory: (), estimate=estimate),)

    builds = [Script(0, unsure), Script(1, fine), Script(2, fine)]
    if when == "at once":
        builds[0].tasks = lambda _: unsure(builds[0], 0)
    assert sorted(run(builds)) == [Status.BUILT, Status.BUILT, Status.FAILED]


def test_a_mistake_of_ours_ends_the_run_and_does_not_hang_it():
    class Mistaken(Script):
        def result(self, error):
            raise KeyError("a mistake of ours")

    with pytest.raises(KeyError, match="a mistake of ours"):
        run([Mistaken(0, broken), Script(1, fine)], fail_fast=True)


def test_nothing_runs_any_more_when_a_listener_failed():
    started = threading.Event()
    running = []

    def slow(build, memory):
        running.append(build.number)
        started.set()
        build.stopped.wait(10)
        running.remove(build.number)

    def first(build, memory):
        assert started.wait(10)

    def listener(build, result):
        raise BrokenPipeError

    builds = [Script(0, first), *(Script(n, slow) for n in range(1, 9))]
    machine = Capacity(cores=2, memory=100)
    before = threading.active_count()
    with pytest.raises(BrokenPipeError):
        run_builds(builds, (), machine=machine, on_result=listener, fail_fast=False, cancel=threading.Event())
    assert running == []
    assert threading.active_count() == before


def test_a_failed_piece_ends_its_build_and_frees_who_waits_for_it():
    """Another build that waits for the same piece makes it itself."""
    claimed, tried = [], []
    begun = threading.Event()

    def owner(build, memory):
        claimed.append(build.name)
        begun.set()
        time.sleep(0.05)
        raise KeyError("oops")

    def waiter(build, memory):
        begun.wait(5)
        if not tried:
            tried.append(1)
            raise RetryTask(after=claimed[0])

    assert sorted(run([Script(0, owner), Script(1, waiter)])) == [Status.BUILT, Status.FAILED]


def test_a_task_says_what_it_needs_when_it_can_begin():
    known, given_memory = [1], []

    def first(build, memory):
        after = Task(
            name=f"{build.name}:after",
            group=build.name,
            run=lambda memory: given_memory.append(memory) or (),
            needs=(f"{build.name}:learn",),
            estimate=lambda: (Resources(memory=known[0]), 1.0),
        )
        return (after, Task(name=f"{build.name}:learn", group=build.name, run=lambda _: known.__setitem__(0, 7) or ()))

    assert run([Script(1, first)]) == [Status.BUILT]
    assert given_memory == [7]


def test_what_all_wait_for_is_done_first_and_once():
    order = []
    shared = Task(name="fetch", group="", run=lambda _: order.append("fetch") or (), demand=Resources(cores=0))
    builds = [Script(n, lambda build, _: order.append(build.name), needs=("fetch",)) for n in range(3)]
    assert run(builds, shared=(shared,)) == [Status.BUILT] * 3
    assert order[0] == "fetch"
    assert len(order) == 4


@settings(max_examples=25, deadline=None)
@given(costs=st.lists(st.integers(1, 12), min_size=1, max_size=12), cores=st.integers(1, 6))
def test_memory_is_never_overdrawn(costs, cores):
    lock, used, worst = threading.Lock(), [0], [0]

    def one(build, memory):
        with lock:
            used[0] += memory
            worst[0] = max(worst[0], used[0])
        time.sleep(0.0005)
        with lock:
            used[0] -= memory

    statuses = run([Script(n, one, memory=cost) for n, cost in enumerate(costs)], cores=cores, memory=10)
    assert set(statuses) == {Status.BUILT}
    assert worst[0] <= max(10, *costs)


# --- the board and the simulator, without threads -------------------------------------------------------------


def chain(name, pieces):
    """A build: pieces of (seconds, memory) side by side, then one short task."""
    tasks = [
        Task(
            name=f"{name}:{n}",
            group=name,
            run=lambda _: (),
            demand=Resources(memory=memory, is_guess=memory % 2 == 1),
            seconds=seconds,
            rank=seconds + 1,
        )
        for n, (seconds, memory) in enumerate(pieces)
    ]
    last = Task(
        name=f"{name}:last",
        group=name,
        run=lambda _: (),
        demand=Resources(memory=1),
        needs=tuple(task.name for task in tasks),
        seconds=1.0,
        rank=1.0,
    )
    return name, (*tasks, last)


PIECES = st.lists(st.tuples(st.floats(0.1, 50), st.integers(1, 60)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(builds=st.lists(PIECES, min_size=1, max_size=12), cores=st.integers(1, 8), memory=st.integers(60, 200))
def test_every_schedule_keeps_its_bounds(builds, cores, memory):
    groups = [chain(f"b{n}", pieces) for n, pieces in enumerate(builds)]
    forecast = simulate(groups, Capacity(cores=cores, memory=memory))
    assert forecast.bound <= forecast.seconds * 1.000001
    assert forecast.peak_memory <= memory
    # Greedy scheduling is never worse than all the bounds one after another (Graham, 1969).
    work = sum(task.seconds for _, tasks in groups for task in tasks)
    assert forecast.seconds <= work * 1.000001


def test_one_that_waits_for_memory_is_not_overtaken_for_ever():
    small = [(f"s{n}", chain(f"s{n}", [(1.0, 6)])[1]) for n in range(200)]
    big = chain("big", [(1.0, 10)])
    board = TaskQueue(Capacity(cores=2, memory=10), [small[0], big, *small[1:]])
    started = []
    running = []
    while not board.is_empty:
        while (task := board.take()) is not None:
            started.append(task.name)
            running.append(task)
        board.done(running.pop(0))
    assert started.index("big:0") < 60


def test_small_ones_fill_the_cores_that_large_ones_cannot_use():
    """However long they have waited for memory: what leaves them enough, once the one that runs is done, may begin."""
    tasks = [chain(f"{memory}:{n}", [(10.0, memory)])[1][0] for memory in (6, 2) for n in range(40)]
    one_build = ("all", tuple(replace(task, group="all") for task in tasks))
    assert simulate([one_build], Capacity(cores=2, memory=10)).utilisation >= 0.95
