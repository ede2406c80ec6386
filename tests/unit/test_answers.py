"""What a run promises, whatever an executor brings: one answer for every cell, and a wheel that is there."""

from dataclasses import replace

import pytest
from plans import plan
from wheels import make_wheel

from wheelsmith.model import BuildResult, Failure, Status
from wheelsmith.plan.planned_run import fold
from wheelsmith.run.result_collector import ResultCollector
from wheelsmith.store import Store
from wheelsmith.wheel import wheel_file

ONE, SAME, OTHER = plan(1, "2.11"), plan(1, "2.13"), plan(2, "2.13")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def built(store, tmp_path):
    """The answer for the first plan, whose wheel is in the store."""
    path = make_wheel(tmp_path, "k1", "1")
    store.put(ONE.build_digest, path, wheel_file(path))
    return BuildResult(
        cell=ONE.cell, plan_digest=ONE.build_digest, status=Status.BUILT, wheel=wheel_file(path), log="one.log"
    )


@pytest.fixture
def seen():
    return []


@pytest.fixture
def answers(store, seen):
    return ResultCollector(fold([ONE, SAME, OTHER]), store, seen.append)


def shown(seen):
    return [(result.cell.id, result.status.value) for result in seen]


def failed(asked):
    failure = Failure(stage="compile", message="no")
    return BuildResult(cell=asked.cell, plan_digest=asked.build_digest, status=Status.FAILED, failure=failure)


def test_every_cell_of_a_build_is_answered(answers, built, seen):
    answers.take(built)
    answers.take(failed(OTHER))
    assert shown(seen) == [(ONE.cell.id, "built"), (SAME.cell.id, "folded"), (OTHER.cell.id, "failed")]
    assert seen[0] == built
    answers.cancel_rest()
    answers.fail_rest("any")
    assert len(seen) == 3


def test_the_first_answer_counts(answers, built, seen):
    """An executor that loses a worker makes its build again, and may then get both answers."""
    answers.take(built)
    answers.take(failed(ONE))
    answers.take(failed(plan(9)))
    assert shown(seen) == [(ONE.cell.id, "built"), (SAME.cell.id, "folded")]


@pytest.mark.parametrize(
    "change",
    [
        lambda built: replace(built, wheel=replace(built.wheel, sha256="0" * 64)),
        lambda built: replace(built, plan_digest="of another wheelsmith"),
        lambda built: replace(built, cell=OTHER.cell, plan_digest=OTHER.build_digest),
    ],
    ids=["other bytes", "another plan", "never stored"],
)
def test_a_wheel_that_is_not_in_the_store_is_none(change, answers, built, seen):
    """A run left it out of its index, and said that it is built."""
    answers.take(change(built))
    assert seen[0].status is Status.FAILED
    assert seen[0].wheel is None
    assert seen[0].log == "one.log"
    assert seen[0].failure.message == f"the wheel of this result is not in the store: {built.wheel.filename}"
    assert seen[0].failure.remedy
    assert answers.some_failed
