"""Which worker gets which builds."""

from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.run.schedule.board import MOST_LOSSES, Board


def board(costs, *workers, needs=None):
    made = Board(costs, needs)
    for name, power in workers:
        made.add_worker(name, power)
    return made


def test_the_fastest_worker_gets_the_longest_build_first():
    made = board({"long": 100, "mid": 60, "short": 10}, ("slow", 1), ("fast", 4))
    assert made.take() == ("fast", ("long",))


def test_a_slow_worker_leaves_a_build_that_would_end_last():
    made = board({"long": 100, "a": 10, "b": 10, "c": 10}, ("fast", 4), ("slow", 1))
    assert made.take() == ("fast", ("long",))
    name, builds = made.take()
    assert name == "slow"
    assert "long" not in builds
    # Nothing else is left to wait for, so that it takes whatever there is.
    alone = board({"long": 100}, ("slow", 1))
    assert alone.take() == ("slow", ("long",))


def test_many_short_builds_are_given_in_parts_that_shrink():
    made = board({f"{number:03}": 1 for number in range(100)}, ("a", 1), ("b", 1))
    sizes = []
    while given_now := made.take():
        sizes.append(len(given_now[1]))
        for build in given_now[1]:
            made.finish(build)
    assert sizes[0] == 25
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == 100


def test_the_builds_of_a_lost_worker_wait_again():
    made = board({"a": 2, "b": 1}, ("x", 1))
    name, builds = made.take()
    assert made.remove_worker(name) == ()
    assert not made.is_done
    made.add_worker("y", 1)
    assert made.take() == ("y", builds)


def test_a_build_with_which_many_workers_were_lost_is_given_up_but_not_those_that_waited():
    made = board({"bad": 1, "waits": 1})
    for number in range(MOST_LOSSES):
        made.add_worker(str(number), 1)
        while not {"bad", "waits"} <= made.builds_of(str(number)) and made.take():
            pass
        made.start(str(number), "bad")
        lost = made.remove_worker(str(number))
        assert lost == (("bad",) if number == MOST_LOSSES - 1 else ())
    made.finish("bad")
    made.add_worker("last", 1)
    assert made.take() == ("last", ("waits",))


def test_a_build_waits_for_its_parts():
    made = board(
        {"whole": 1, "whole 1/2": 50, "whole 2/2": 50}, ("x", 1), ("y", 1), needs={"whole": ["whole 1/2", "whole 2/2"]}
    )
    assert {made.take(), made.take()} == {("x", ("whole 1/2",)), ("y", ("whole 2/2",))}
    assert made.take() is None
    made.finish("whole 1/2")
    assert made.take() is None
    made.finish("whole 2/2")
    assert made.take() == ("x", ("whole",))


@given(
    st.dictionaries(st.text(min_size=1), st.floats(0.01, 1e6), min_size=1, max_size=40),
    st.lists(st.floats(0.1, 300), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_every_build_ends_whatever_workers_come_and_go(costs, powers, random):
    made, done, number = board(costs), [], 0
    while not made.is_done:
        if len(made.workers) < len(powers):
            number += 1
            made.add_worker(f"w{number}", random.choice(powers))
        while made.take():
            pass
        worker = random.choice(sorted(made.workers))
        held = sorted(made.builds_of(worker))
        if held and random.random() < 0.8:
            done.append(random.choice(held))
            made.finish(done[-1])
        elif random.random() < 0.3:
            made.remove_worker(worker)
    assert sorted(done) == sorted(costs)
