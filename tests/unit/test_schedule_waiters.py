"""Builds that wait for tasks which they add while they run: any mix of them comes to an end, within the machine."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from wheelsmith.pipeline.tasks import Resources, RetryTask, Task
from wheelsmith.run.schedule import Capacity, TaskQueue

SIZES = st.integers(1, 12)
# A call: what its phases need, one after another; and which of them is the first to want more memory.
CALLS = st.lists(st.lists(SIZES, min_size=1, max_size=3), max_size=4)
BUILDS = st.lists(st.tuples(SIZES, CALLS), min_size=1, max_size=7)


def task(name, group, memory, *, needs=(), cores=1, is_guess=False):
    demand = Resources(cores=cores, memory=memory, is_guess=is_guess)
    return Task(name=name, group=group, run=lambda _: (), demand=demand, needs=needs, rank=memory)


@dataclass
class Machine:
    """A board, and what runs; whoever waits goes on when all that it added is done."""

    board: TaskQueue
    capacity: Capacity
    calls: dict
    running: list = field(default_factory=list)
    waiters: dict = field(default_factory=dict)
    open: dict = field(default_factory=dict)
    gone: set = field(default_factory=set)

    def start(self):
        while (taken := self.board.take()) is not None:
            self.running.append(taken)
            self.check()

    def check(self):
        assert len(self.running) <= self.capacity.cores
        used = sum(one.demand.memory for one in (*self.running, *self.waiters.values()))
        # Over what there is goes one alone, that nobody waits for or that must be done before memory is given back.
        alone = not self.running or (
            len(self.running) == 1 and (not self.waiters or self.running[0].group in self.waiters)
        )
        assert used <= self.capacity.memory or alone
        assert self.board.held.memory == used
        assert self.board.held.cores == sum(one.demand.cores for one in self.running)

    def step(self, draw):
        one = self.running.pop(draw(st.integers(0, len(self.running) - 1)))
        group = one.group
        if one.name == group and group not in self.waiters and self.calls[group] and group not in self.gone:
            self.waiters[group] = one
            self.board.wait(one)
            self.add(group)
            return
        what = draw(st.sampled_from(["done", "done", "done", "more", "fail"]))
        if what == "more" and one.name != group and one.demand.memory < 12:
            self.board.again(one, RetryTask(memory=12))
            return
        if what == "fail" and group not in self.gone:
            self.gone.add(group)
            self.board.done(one)
            self.board.drop(group)
        else:
            self.board.done(one)
        self.open.get(group, set()).discard(one.name)
        self.end_waiter(group)

    def add(self, group):
        for number, phases in enumerate(self.calls[group]):
            names = [f"{group}:{number}:{n}" for n in range(len(phases))]
            self.open.setdefault(group, set()).update(names)
            self.board.add(
                task(name, group, memory, needs=tuple(names[n - 1 : n]) if n else (), is_guess=memory % 2 == 1)
                for n, (name, memory) in enumerate(zip(names, phases, strict=True))
            )

    def end_waiter(self, group):
        left = self.open.get(group, set())
        if group in self.gone:
            left = {one.name for one in self.running if one.group == group and one.name != group}
        if not left and (waiter := self.waiters.pop(group, None)):
            self.board.done(waiter)


@settings(max_examples=60, deadline=None)
@given(BUILDS, st.integers(1, 3), st.integers(1, 10), st.data())
def test_whatever_waits_comes_to_an_end_within_what_there_is(builds, cores, memory, data):
    capacity = Capacity(cores=cores, memory=memory)
    groups = [(f"b{n}", (task(f"b{n}", f"b{n}", own),)) for n, (own, _) in enumerate(builds)]
    board = TaskQueue(capacity, groups)
    machine = Machine(board, capacity, {f"b{n}": calls for n, (_, calls) in enumerate(builds)})
    machine.start()
    while machine.running:
        machine.step(data.draw)
        machine.start()
    assert not machine.waiters
    assert board.is_empty
    assert board.held == Resources(cores=0, memory=0)


def test_one_that_cannot_begin_before_waiters_end_keeps_nobody_from_what_they_wait_for():
    """It has been overtaken for long, and comes first; but only what comes after it lets it begin."""
    large = replace(task("large", "large", 8), rank=99.0)
    board = TaskQueue(Capacity(cores=1, memory=10), [("waiter", (task("waiter", "waiter", 5),)), ("large", (large,))])
    waiter = board.take()
    board.wait(waiter)
    for number in range(40):
        board.add((task(f"call-{number}", "waiter", 9),))
        call = board.take()
        assert call.group == "waiter"
        board.done(call)
    board.done(waiter)
    assert board.take() == large


def test_a_guess_gets_an_equal_share_of_the_memory_and_no_more():
    def demand(memory, *, is_guess):
        return (task("a", "a", memory, is_guess=is_guess),)

    shares = {}
    for is_guess in (True, False):
        for memory in (2, 9):
            board = TaskQueue(Capacity(cores=4, memory=20), [("a", demand(memory, is_guess=is_guess))])
            shares[memory, is_guess] = board.take().demand.memory
    assert shares == {(2, True): 5, (9, True): 9, (2, False): 2, (9, False): 9}


def test_a_guess_takes_no_memory_that_is_held_by_waiters():
    board = TaskQueue(Capacity(cores=2, memory=20), [("waiter", (task("waiter", "waiter", 8),))])
    board.wait(board.take())
    board.add(task(name, "waiter", 1, is_guess=True) for name in "ab")
    assert [board.take().demand.memory for _ in range(2)] == [6, 6]
