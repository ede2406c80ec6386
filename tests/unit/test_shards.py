"""Builds are split among jobs: each is in one shard, and the longest shard is about as short as can be."""

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import plan

from wheelsmith.cli.plan import build_matrix_options
from wheelsmith.plan.planned_run import fold
from wheelsmith.plan.shards import estimate_seconds, split, split_by_time
from wheelsmith.report.shards import format_shards


def builds(count):
    """As many builds, of a cell each."""
    return fold([plan(number) for number in range(count)])


def known(*seconds):
    return {each.plan.cell.id: cost for each, cost in zip(builds(len(seconds)), seconds, strict=True)}


@given(st.lists(st.floats(0.1, 1e5), max_size=20), st.integers(1, 24))
def test_every_cell_is_in_one_shard_and_none_is_much_longer_than_it_must_be(seconds, count):
    shards = split(builds(len(seconds)), known(*seconds), count)
    assert len(shards) == count
    assert sorted(name for shard in shards for name in shard.cells) == sorted(known(*seconds))
    best = max([sum(seconds) / count, *seconds, 0])
    assert max(shard.seconds for shard in shards) <= 4 / 3 * best + best + 1
    assert sum(bool(shard.cells) for shard in shards) == min(count, len(seconds))
    assert shards == split(builds(len(seconds))[::-1], known(*seconds), count)


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=20), st.floats(1, 2e4), st.integers(1, 24))
def test_auto_makes_as_few_as_the_limits_allow(seconds, longest, most):
    shards = split_by_time(builds(len(seconds)), known(*seconds), longest=longest, most=most)
    assert 1 <= len(shards) <= most
    alone = [shard for shard in shards if shard.seconds > longest + 1]
    assert len(shards) == most or all(len(shard.cells) == 1 for shard in alone)


def test_cells_that_share_a_wheel_are_in_one_shard():
    one, twin = plan(1, torch="2.11"), plan(1, torch="2.13")
    first, second = split(fold([one, twin]), {}, 2)
    assert first.cells == (one.cell.id, twin.cell.id)
    assert second.cells == ()


def test_what_nothing_is_known_of_costs_as_what_is_like_it():
    three = builds(3)
    names = [each.plan.cell.id for each in three]
    assert len(set(estimate_seconds(three, {}).values())) == 1
    assert estimate_seconds(three, {names[0]: 7.0, names[1]: 9.0}) == {names[0]: 7.0, names[1]: 9.0, names[2]: 8.0}


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("github-matrix", {"include": [{"shard": "1/3", "number": 1}, {"shard": "2/3", "number": 2}]}),
        ("gitlab", {"parallel": {"matrix": [{"SHARD": ["1/3", "2/3"]}]}}),
    ],
)
def test_empty_shards_are_no_jobs(form, shown):
    assert json.loads(format_shards(split(builds(2), {}, 3), form, ())) == shown


def test_steps_of_buildkite_build_as_was_planned():
    """Words stay whole in the step's shell, and a dollar is what it is once Buildkite has read the step."""
    given = {"matrix": Path("a $b/m.yaml"), "engine": "bwrap", "shard_plan": Path("s.json"), "locked": True}
    options = build_matrix_options(**given, offline=True)
    (step,) = json.loads(format_shards(split(builds(1), {}, 1), "buildkite", options))["steps"]
    assert shlex.split(step["command"].replace("$$", "$")) == [
        *("wheelsmith", "build-matrix", "--shard", "1/1"),
        *("--matrix", "a $b/m.yaml", "--engine", "bwrap", "--shard-plan", "s.json", "--locked", "--offline"),
    ]
    assert re.findall(r"\$+", step["command"]) == ["$$"]
    nothing = {"matrix": Path("matrix.yaml"), "engine": None, "shard_plan": None, "locked": False, "offline": False}
    assert build_matrix_options(**nothing) == ()
