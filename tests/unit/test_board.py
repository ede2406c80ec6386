"""Which worker gets which builds."""

from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.run.schedule.board import MOST_LOSSES, Board


def board(costs, *workers, steps=None):
    made = Board(costs, steps)
    for name, cores in workers:
        made.add_worker(name, cores)
    return made


def slow_down(made, name, factor):
    """Let the board know that a worker takes longer than expected."""
    worker, build = made.take()
    assert worker == name
    made.measure(name, build, factor)
    made.finish(build)


def test_the_fastest_worker_gets_the_longest_build_first():
    made = board({"long": 100, "mid": 60, "short": 10, "first": 1000}, ("slow", 4))
    made.take()
    made.measure("slow", "first", 2000)
    made.finish("first")
    made.add_worker("fast", 4)
    assert made.take() == ("fast", "long")


def test_a_slow_worker_leaves_a_build_that_would_end_last():
    made = board({"first": 1000, "long": 100, "a": 10, "b": 10, "c": 10}, ("slow", 1))
    made.take()
    made.measure("slow", "first", 4000)
    made.finish("first")
    made.add_worker("fast", 1)
    made.add_worker("fast too", 1)
    assert made.take() == ("fast", "long")
    assert made.take() == ("fast too", "a")
    assert made.take() == ("slow", "c")
    alone = board({"first": 1000, "long": 100}, ("slow", 1))
    slow_down(alone, "slow", 4000)
    assert alone.take() == ("slow", "long")


def test_a_worker_gets_another_build_when_it_has_started_all_and_has_an_idle_core():
    made = board({"a": 1000, "b": 900, "c": 800}, ("x", 4))
    assert made.take() == ("x", "a")
    made.set_idle("x", is_idle=True)
    assert made.take() is None
    made.start("x", "a")
    assert made.take() == ("x", "b")
    made.start("x", "b")
    made.set_idle("x", is_idle=False)
    assert made.take() is None


def test_a_worker_that_is_nearly_done_gets_another_build():
    made = board({"a": 8, "b": 7}, ("x", 1))
    assert made.take() == ("x", "a")
    made.start("x", "a")
    assert made.take() == ("x", "b")


def test_a_worker_that_comes_late_finds_work():
    made = board({f"{number:03}": 100 for number in range(100)}, ("x", 4))
    while taken := made.take():
        made.start(*taken)
        made.set_idle("x", is_idle=len(made.builds_of("x")) < 4)
    assert len(made.builds_of("x")) == 4
    made.add_worker("y", 4)
    assert made.take()[0] == "y"


def test_the_builds_of_a_lost_worker_wait_again():
    made = board({"a": 2, "b": 1}, ("x", 1))
    name, build = made.take()
    assert made.remove_worker(name) == ()
    assert not made.is_done
    made.add_worker("y", 1)
    assert made.take() == ("y", build)


def test_a_build_with_which_many_workers_were_lost_is_given_up_but_not_one_that_only_waited():
    made = board({"bad": 2, "waits": 1})
    for number in range(MOST_LOSSES):
        made.add_worker(str(number), 1)
        assert made.take() == (str(number), "bad")
        made.start(str(number), "bad")
        assert made.take() == (str(number), "waits")
        assert made.remove_worker(str(number)) == (("bad",) if number == MOST_LOSSES - 1 else ())
    made.add_worker("last", 1)
    assert made.take() == ("last", "waits")


def test_a_long_build_is_compiled_in_parts_and_then_linked():
    made = board({"long": 1000, "short": 10}, *((name, 1) for name in "abcd"), steps={"long": 4})
    taken = [made.take() for _ in range(4)]
    parts = [made.parts[build] for _, build in taken]
    assert sorted((part.build, part.number, part.count) for part in parts) == [("long", n, 4) for n in range(4)]
    for name, build in taken:
        made.start(name, build)
        assert made.take() in {None, ("a", "short"), ("b", "short")}
        made.finish(build)
    made.finish("short")
    assert made.take()[1] == "long"
    assert not made.is_done
    made.finish("long")
    assert made.is_done


@given(
    st.dictionaries(st.text(min_size=1), st.floats(0.01, 1e6), min_size=1, max_size=40),
    st.lists(st.integers(1, 300), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_every_build_ends_whatever_workers_come_and_go(costs, cores, random):
    made, done, number = board(costs, steps=dict.fromkeys(costs, 3)), [], 0
    while not made.is_done:
        if len(made.workers) < len(cores):
            number += 1
            made.add_worker(f"w{number}", random.choice(cores))
        while made.take():
            pass
        worker = random.choice(sorted(made.workers))
        held = sorted(made.builds_of(worker))
        if held and random.random() < 0.8:
            build = random.choice(held)
            done += [] if build in made.parts else [build]
            made.measure(worker, build, random.random() * costs.get(build, 1.0))
            made.finish(build)
        elif random.random() < 0.3:
            made.remove_worker(worker)
    assert sorted(done) == sorted(costs)


def test_the_announced_speed_counts_until_a_worker_has_built_something():
    made = board({"long": 100, "mid": 50, "short": 10})
    made.add_worker("slow", 1, speed=10.0)
    made.add_worker("fast", 1, speed=30.0)
    assert made.take() == ("fast", "long")
    assert made.take() == ("slow", "short")
