"""Builds on a Dask cluster: its workers and its scheduler may die at any time."""

import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from factory import Factory
from kernels import matrix, tiny_kernel
from loopback_dask import DaskCluster

from wheelsmith.base.errors import EngineError, MachineError, WheelsmithError
from wheelsmith.base.files import sha256_file
from wheelsmith.model import CellStarted, Notice, Status
from wheelsmith.run.build import build
from wheelsmith.run.executors.dask import run as cluster_run
from wheelsmith.run.prepare import Request, prepare

pytestmark = [pytest.mark.e2e, pytest.mark.release("a cluster of its own")]

TORCHES = "2.10, 2.11, 2.12, 2.13"
# A worker with this on its path says that it has another version.
OTHER_VERSION = "import wheelsmith\nwheelsmith.__version__ = '0.0.1'\n"
# A worker with this on its path sees a disk with one free byte, on which no compiler works.
FULL_DISK = """\
import shutil
real = shutil.disk_usage
shutil.disk_usage = lambda path: real(path)._replace(free=1)
import wheelsmith.pipeline.cell as cell
def fail(*arguments): raise OSError(28, "No space left on device")
cell.lay_out = fail
"""


@pytest.fixture
def cluster(tmp_path):
    (tmp_path / "cluster").mkdir()
    with DaskCluster(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def add_worker(cluster, tmp_path):
    """Start a worker with a cache of its own, which has toolchains."""

    def add(name, code=""):
        cache = Factory.at(tmp_path / name).cache
        (tmp_path / f"{name}-path").mkdir()
        (tmp_path / f"{name}-path" / "sitecustomize.py").write_text(code)
        cluster.add_worker(name, cache, PYTHONPATH=str(tmp_path / f"{name}-path"))

    return add


@pytest.fixture
def request_of(cluster, tmp_path):
    tiny_kernel(tmp_path / "k")
    path = matrix(tmp_path, "k", torch=TORCHES)
    cache = Factory.at(tmp_path).cache
    return Request(matrix=path, cache=cache, engine="bwrap", executor=f"dask://{cluster.address}")


class Run:
    """A run that has begun, in a thread."""

    def __init__(self, request, on_event=lambda event: None):
        self.events, self.cancel, self.error, self.record = [], threading.Event(), None, None
        self._prepared = prepare(request)
        self._on_event = on_event
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _listen(self, event):
        self.events.append(event)
        self._on_event(event)

    def _run(self):
        try:
            self.record = build(self._prepared, self._listen, self.cancel)
        except WheelsmithError as error:
            self.error = error

    def wait(self):
        self._thread.join(timeout=240)
        assert not self._thread.is_alive()
        return self

    @property
    def warnings(self):
        return [event.text for event in self.events if isinstance(event, Notice) and event.level == "warning"]

    @property
    def wheels(self):
        assert self.error is None, self.error
        assert {result.status for result in self.record.results} == {Status.BUILT}, self.record.results
        return {result.wheel.filename: result.wheel.sha256 for result in self.record.results}


def test_two_workers_build_what_one_machine_builds(request_of, add_worker, tmp_path):
    add_worker("a")
    add_worker("b")
    wheels = Run(request_of).wait().wheels
    local = Factory.at(tmp_path / "local")
    assert wheels == Run(replace(request_of, executor="local", cache=local.cache, out=tmp_path / "l")).wait().wheels
    assert {path.name: sha256_file(path) for path in (tmp_path / "dist/wheels").iterdir()} == wheels


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hangs"])
def test_the_builds_of_a_lost_worker_are_repeated(number, request_of, add_worker, cluster, monkeypatch):
    monkeypatch.setattr(cluster_run, "_SILENCE", 12.0)
    add_worker("a")
    started = threading.Event()
    run = Run(request_of, lambda event: started.set() if isinstance(event, CellStarted) else None)
    assert started.wait(120)
    cluster.signal("a", number)
    add_worker("b")
    assert len(run.wait().wheels) == 4
    assert any("was lost" in text and "other workers build torch2" in text for text in run.warnings)


@pytest.mark.parametrize(
    ("code", "why"),
    [(OTHER_VERSION, "it has wheelsmith 0.0.1"), (FULL_DISK, "its disk is full")],
    ids=["other version", "full disk"],
)
def test_a_worker_that_cannot_build_loses_its_own_work_only(code, why, request_of, add_worker):
    add_worker("bad", code)
    run = Run(request_of)
    while not any(why in text for text in run.warnings) and run.error is None:
        time.sleep(0.1)
    add_worker("good")
    assert len(run.wait().wheels) == 4


def test_without_a_worker_it_ends_and_hears_an_interruption(request_of, monkeypatch):
    run = Run(request_of)
    run.cancel.set()
    assert {result.status for result in run.wait().record.results} == {Status.CANCELLED}
    monkeypatch.setattr(cluster_run, "_NO_WORKER", 2.0)
    error = Run(request_of).wait().error
    assert isinstance(error, EngineError)
    assert "no worker that can build for 2 seconds" in error.message


def test_without_a_scheduler_it_ends_and_what_is_finished_is_kept(request_of, add_worker, cluster):
    add_worker("a")
    finished = threading.Event()
    run = Run(request_of, lambda event: finished.set() if "result" in dir(event) else None)
    assert finished.wait(120)
    cluster.kill("scheduler")
    error = run.wait().error
    assert isinstance(error, EngineError), error
    assert error.message == "the Dask scheduler is gone"
    with pytest.raises(MachineError, match="there is no Dask scheduler at"):
        build(prepare(request_of))
    again = Run(replace(request_of, executor="local")).wait()
    assert Status.CACHED in {result.status for result in again.record.results}


def test_an_interruption_stops_the_workers(request_of, add_worker, cluster, tmp_path):
    add_worker("a")
    started = threading.Event()
    run = Run(request_of, lambda event: started.set() if isinstance(event, CellStarted) else None)
    assert started.wait(120)
    run.cancel.set()
    began = time.monotonic()
    run.wait()
    assert time.monotonic() - began < 60
    assert Status.CANCELLED in {result.status for result in run.record.results}
    assert not list(Path(tmp_path / "a/cache/work").glob("run-*"))  # the session has ended
