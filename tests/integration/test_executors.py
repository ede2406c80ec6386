"""Every executor is held to the same, and a run to its promises by any of them."""

import json
import threading
from dataclasses import replace

import pytest
from kernels import matrix, pure_kernel

from wheelsmith.base.errors import SettingError
from wheelsmith.model import BuildResult, CellFinished, Expectation, Failure, RunFinished, Status, Toolset, ignore
from wheelsmith.run.build import build, make_build_request
from wheelsmith.run.executors import EXECUTORS, BuildRequest, open_executor
from wheelsmith.run.prepare import Request, prepare
from wheelsmith.run.prepared_set import PreparedSet
from wheelsmith.run.scratch import scratch
from wheelsmith.store import Store


@pytest.fixture(params=EXECUTORS)
def executor(request):
    return open_executor(request.param)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "worker"))
    pure_kernel(tmp_path / "k")
    path = matrix(tmp_path, "k", torch="2.12, 2.13")
    return Request(matrix=path, cache=tmp_path / "cache", engine="local", executor=__name__)


@pytest.fixture
def work(asked, tmp_path):
    """Builds of one source: of a version each."""
    plans = []
    for version, torch in enumerate(("2.8", "2.9", "2.10", "2.11", "2.12", "2.13"), start=1):
        matrix(tmp_path, "k", torch=torch, more=f"version: {version}\n")
        prepared = prepare(asked)
        plans += prepared.plans
    (prepared.out / "logs").mkdir(parents=True)
    with scratch(asked.cache / "work") as folder:
        yield replace(make_build_request(PreparedSet.of(prepared), folder), to_build=tuple(plans))


@pytest.fixture
def two(work):
    return replace(work, to_build=work.to_build[-2:])


class Heard:
    """What an executor says."""

    def __init__(self):
        self.events = []
        self.results = []
        self.threads = set()

    def take(self, result):
        self.results.append(result)
        self.threads.add(threading.current_thread())

    def of(self, executor, work, cancel=None):
        executor.build(work, listen=self.events.append, on_result=self.take, cancel=cancel or threading.Event())
        return {result.cell.id: result for result in self.results}


def assert_threads_ended(before):
    """Those that watch a cluster's processes end a moment after it; Dask keeps those of its own pools."""
    started = [thread for thread in threading.enumerate() if thread not in before]
    for thread in started:
        if not thread.name.startswith("Dask-"):
            thread.join(10)
            assert not thread.is_alive(), thread.name


def test_each_plan_has_one_answer_and_its_wheel_is_stored(executor, two):
    heard = Heard()
    found = heard.of(executor, two)
    store = Store(two.cache / "store")
    assert len(heard.results) == len(found) == 2
    for plan in two.to_build:
        result = found[plan.cell.id]
        assert (result.status, result.plan_digest) == (Status.BUILT, plan.build_digest), result.failure
        assert store.find(plan.build_digest).wheel == result.wheel
        assert (two.logs / result.log).is_file()
    assert heard.threads == {threading.current_thread()}
    assert [path.name for path in two.folder.iterdir()] == ["lock"]
    # These are the run's to tell.
    assert not any(isinstance(event, CellFinished | Expectation) for event in heard.events)
    again = Heard().of(executor, replace(two, to_build=(), to_recheck=two.to_build))
    assert {result.status for result in again.values()} == {Status.CACHED}
    assert {name: result.wheel for name, result in again.items()} == {
        name: result.wheel for name, result in found.items()
    }


def test_nothing_to_do_is_done(executor, work):
    assert Heard().of(executor, replace(work, to_build=())) == {}


def test_a_failure_is_an_answer(executor, two, tmp_path):
    (tmp_path / "k" / "torch-ext" / "pure" / "__init__.py").write_text("VALUE = 2\n")
    found = Heard().of(executor, two)
    assert len(found) == 2
    assert {result.status for result in found.values()} == {Status.FAILED}
    assert all("was changed after the build was planned" in result.failure.message for result in found.values())


def test_a_plan_of_other_compilers_is_neither_built_nor_stored(executor, two):
    made_up = Toolset(arch="x86_64", cxx="g++", version="g++ 99", digest="f" * 64)
    right, wrong = two.to_build[0], replace(two.to_build[1], toolset=made_up)
    found = Heard().of(executor, replace(two, to_build=(right, wrong)))
    assert found[right.cell.id].status is Status.BUILT
    failed = found[wrong.cell.id]
    assert failed.status is Status.FAILED
    assert failed.failure.message.startswith("the plan was made for another machine: g++ is ")
    assert failed.failure.message.endswith(", not g++ 99 (ffffffffffff)")
    assert Store(two.cache / "store").find(wrong.build_digest) is None


def test_a_cancelled_run_does_not_go_on(executor, work):
    cancel, before = threading.Event(), threading.enumerate()
    cancel.set()
    found = Heard().of(executor, work, cancel)
    assert sum(result.status is Status.BUILT for result in found.values()) < len(work.to_build)
    assert {result.status for result in found.values()} <= {Status.CANCELLED, Status.BUILT}
    assert_threads_ended(before)


def test_the_error_of_who_listens_is_passed_on(executor, two):
    before = threading.enumerate()

    def broken(result):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        executor.build(two, listen=lambda event: None, on_result=broken, cancel=threading.Event())
    assert_threads_ended(before)


def test_what_an_executor_is_given_travels(work):
    assert BuildRequest.from_json(json.loads(json.dumps(work.to_json()))) == work
    with pytest.raises(ValueError, match="expected a path, not 5"):
        BuildRequest.from_json(work.to_json() | {"cache": 5})


# --- a run, by an executor that a test makes ----------------------------------------------------------------------


class Executor:
    """Does what a test says; it is opened by its name, as any."""

    does = None

    def build(self, work, *, listen, on_result, cancel):
        type(self).does(work, on_result, cancel)


@pytest.fixture
def run(monkeypatch, asked):
    """Run a matrix of two cells, which are one build, and give what came of it."""
    monkeypatch.setitem(EXECUTORS, __name__, (__name__, "Executor"))

    def run(does, listen=ignore, **changes):
        monkeypatch.setattr(Executor, "does", staticmethod(does))
        events, cancel = [], threading.Event()
        request = replace(asked, **changes)
        outcome = build(prepare(request), lambda event: (events.append(event), listen(event)), cancel)
        assert isinstance(events[-1], RunFinished)
        assert events[-1].results == outcome.results
        assert not outcome.excluded
        return [result.status for result in outcome.results], outcome

    return run


@pytest.mark.parametrize("name", EXECUTORS)
def test_what_a_build_costs_is_learnt(name, run, asked):
    first, second = [], []
    learning = replace(asked, executor=name)
    (to_build, _) = build(prepare(learning), first.append).results
    assert to_build.status is Status.BUILT, to_build.failure
    run(lambda work, on_result, cancel: None, listen=second.append, force=True)
    known = [[event.seconds for event in events if isinstance(event, Expectation)] for events in (first, second)]
    assert known == [[{}], [{to_build.cell.id: pytest.approx(sum(timing.seconds for timing in to_build.timings))}]]


def failure(plan):
    said = Failure(stage="compile", message="no")
    return BuildResult(cell=plan.cell, plan_digest=plan.build_digest, status=Status.FAILED, failure=said)


def test_an_executor_that_says_nothing_leaves_no_cell_unanswered(run):
    statuses, outcome = run(lambda work, on_result, cancel: None)
    assert statuses == [Status.FAILED] * 2
    assert not outcome.interrupted


def test_an_interrupted_one_leaves_cancelled_cells(run):
    statuses, outcome = run(lambda work, on_result, cancel: cancel.set())
    assert statuses == [Status.CANCELLED] * 2
    assert outcome.interrupted


@pytest.mark.parametrize(("fail_fast", "rest"), [(True, Status.CANCELLED), (False, Status.FAILED)])
def test_what_is_left_after_a_failure_was_cancelled_where_that_was_asked_for(fail_fast, rest, run, tmp_path):
    def first_fails(work, on_result, cancel):
        assert work.fail_fast is fail_fast
        on_result(failure(work.to_build[0]))

    (tmp_path / "k" / "build.toml").write_text(TWO_BUILDS)
    (tmp_path / "k" / "a.cpp").touch()
    (tmp_path / "k" / "binding.cpp").touch()
    assert run(first_fails, fail_fast=fail_fast)[0] == [Status.FAILED, rest]


TWO_BUILDS = """\
[general]
name = "pure"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu"]

[torch]
src = ["binding.cpp"]

[kernel.a]
backend = "cpu"
depends = []
src = ["a.cpp"]
"""


@pytest.mark.parametrize("name", ["no-such", "tcp://127.0.0.1:8786", "local://x", "dask://"])
def test_an_executor_that_there_is_not(name, asked):
    with pytest.raises(SettingError, match=f"there is no executor '{name}'") as said:
        build(prepare(replace(asked, executor=name)))
    assert said.value.remedy == "use local, dask or dask://HOST:PORT"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:port", "a b:1"])
def test_an_address_without_a_port_is_refused_at_once(address):
    with pytest.raises(SettingError, match="is not HOST:PORT"):
        open_executor(f"dask://{address}")
