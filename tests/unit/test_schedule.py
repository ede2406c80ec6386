import threading
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from wheelsmith.model import BuildPlan, BuildResult, Cell, Failure, Recipe, SourceId, Status, WheelFile, WheelSpec
from wheelsmith.schedule import fold, run_builds


def plan(number: int, torch: str = "2.11") -> BuildPlan:
    spec = WheelSpec(
        distribution=f"k{number}",
        version="1",
        python_tag="py3",
        abi_tag="none",
        platform="any",
        metadata="",
        module="k",
        gpu_archs=(),
        torch=None,
        cuda=None,
        arch="any",
        stable_abi=None,
    )
    return BuildPlan(
        cell=Cell(torch=torch, cuda=None, arch=f"a{number}"),
        source=SourceId(origin="path", revision=None, commit=None, tree="t"),
        image=None,
        toolset=None,
        cuda=None,
        torch=None,
        recipe=Recipe(steps=(), generated={}, contents={}, namespace="n", extension=None),
        environment={},
        wheel=spec,
        recipe_version=1,
    )


def made(a_plan: BuildPlan) -> BuildResult:
    wheel = WheelFile(filename="w", sha256="s", size=1, metadata_sha256="m", requires_python=None)
    return BuildResult(cell=a_plan.cell, plan_digest=a_plan.build_digest, status=Status.BUILT, wheel=wheel)


def broken(a_plan: BuildPlan) -> BuildResult:
    failure = Failure(stage="build", message="no")
    return BuildResult(cell=a_plan.cell, plan_digest=a_plan.build_digest, status=Status.FAILED, failure=failure)


def run(plans, run_one, **options):
    seen = []
    defaults = {"jobs": 2, "memory": 100, "cost": lambda p: 1, "fail_fast": False, "cancel": threading.Event()}
    answers = run_builds(fold(plans), run_one, on_result=seen.append, **{**defaults, **options})
    assert sorted(map(repr, seen)) == sorted(map(repr, answers))
    return {a.cell.id: a.status for a in answers}


def test_the_same_wheel_is_built_once():
    runs = []
    plans = [plan(1, "2.11"), plan(2), plan(1, "2.13")]
    answers = run(plans, lambda p, _: runs.append(p) or made(p))
    assert len(runs) == 2
    assert answers[plans[2].cell.id] is Status.FOLDED
    # A failure is every folded cell's failure.
    answers = run(plans, lambda p, _: broken(p))
    assert set(answers.values()) == {Status.FAILED}


def test_a_failure_does_not_stop_the_others():
    plans = [plan(n) for n in range(6)]
    answers = run(plans, lambda p, _: broken(p) if p is plans[0] else made(p))
    assert list(answers.values()).count(Status.BUILT) == 5


def test_fail_fast_starts_nothing_more():
    plans = [plan(n) for n in range(6)]
    answers = run(plans, lambda p, _: broken(p), jobs=1, fail_fast=True)
    counts = list(answers.values())
    assert Status.CANCELLED in counts
    assert len(counts) == 6


def test_cancelling_reaches_what_runs():
    cancel = threading.Event()

    def wait(p, halt):
        cancel.set()
        assert halt.wait(10)
        return made(p)

    answers = run([plan(n) for n in range(4)], wait, jobs=1, cancel=cancel)
    assert list(answers.values()).count(Status.CANCELLED) == 3


def test_our_own_mistake_is_one_cells_failure():
    def fail(p, _):
        raise KeyError("oops")

    assert set(run([plan(1), plan(2)], fail).values()) == {Status.FAILED}


@settings(max_examples=25, deadline=None)
@given(costs=st.lists(st.integers(1, 12), min_size=1, max_size=12), jobs=st.integers(1, 6))
def test_memory_is_never_overdrawn(costs, jobs):
    plans = [plan(n) for n in range(len(costs))]
    price = {p.wheel.distribution: c for p, c in zip(plans, costs, strict=True)}
    lock, used, worst = threading.Lock(), [0], [0]

    def cost(p):
        return price[p.wheel.distribution]

    def one(p, _):
        with lock:
            used[0] += cost(p)
            worst[0] = max(worst[0], used[0])
        time.sleep(0.0005)
        with lock:
            used[0] -= cost(p)
        return made(p)

    answers = run(plans, one, jobs=jobs, memory=10, cost=cost)
    assert set(answers.values()) == {Status.BUILT}
    assert worst[0] <= max(10, *costs)
