"""A worker with real limits: whatever its operation does, the client gets an answer or one clear error."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wheelsmith.base import errors
from wheelsmith.base.beneath import WorkFolder
from wheelsmith.worker import Worker, WorkerLimits, client, import_path, process, read_response, write_request

SUPPORT = str(Path(__file__).parent.parent / "support")
LIMITS = WorkerLimits(memory=2**29, cpu_seconds=1, seconds=300, file_size=2**24)


@pytest.fixture(autouse=True)
def _operations(monkeypatch):
    monkeypatch.setattr(process, "import_path", lambda: (*import_path(), SUPPORT))


@pytest.fixture(params=["bwrap", "plain"])
def worker(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(client.shutil, "which", lambda _: None)
    elif not shutil.which("bwrap"):
        pytest.skip("no bubblewrap")
    with Worker(LIMITS) as worker:
        yield worker


def call(worker, name, **request):
    return worker.call(f"worker_operations:{name}", request, subject="x.whl")


def test_one_process_serves_many_requests(worker):
    answers = [call(worker, "add", a=1, b=b) for b in range(3)]
    assert [answer["sum"] for answer in answers] == [1, 2, 3]
    assert len({answer["process"] for answer in answers}) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fill_memory", "the reader ran out of memory (512 MiB)"),
        ("spin", "it took more than 1s of CPU time"),
        ("abort", f"the reader stopped unexpectedly (signal {signal.SIGABRT:d})"),
        ("leave", "the reader stopped unexpectedly (exit code 3)"),
        ("kill_itself", "the reader was killed"),
        ("write_much", "a file in it is too large"),
        ("nest", "it is nested too deeply"),
        ("nested_answer", "it is nested too deeply"),
        ("long_answer", "the reader wrote no valid response"),
        ("odd_answer", "the reader failed (TypeError: Object of type set is not JSON serializable)"),
        ("fail", "the reader failed (IndexError: list index out of range and more)"),
    ],
)
def test_a_failure_is_one_clear_error_and_the_next_call_works(worker, name, message):
    with pytest.raises(errors.WorkerError) as caught:
        call(worker, name)
    assert str(caught.value) == f"x.whl cannot be read: {message}"
    assert call(worker, "add", a=2, b=2)["sum"] == 4


def test_the_traceback_is_kept_for_developers(worker):
    with pytest.raises(errors.WorkerError) as caught:
        call(worker, "fail")
    assert "in fail" in caught.value.details


@pytest.mark.parametrize("name", ["sleep", "spin_in_children"])
def test_a_deadline_ends_the_process_and_its_children(worker, monkeypatch, name):
    monkeypatch.setattr(worker, "_limits", WorkerLimits(seconds=2))
    with pytest.raises(errors.WorkerError, match=r"^x\.whl cannot be read: it took more than 2s$"):
        call(worker, name)
    assert call(worker, "add", a=2, b=2)["sum"] == 4


def test_a_process_that_is_killed_in_the_middle(worker):
    call(worker, "add", a=1, b=1)
    killer = threading.Timer(0.5, lambda: os.kill(worker._process._process.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(errors.WorkerError, match="the reader was killed"):
        call(worker, "sleep")
    assert call(worker, "add", a=2, b=2)["sum"] == 4


def test_a_process_that_was_killed_between_two_requests_is_replaced(worker):
    call(worker, "add", a=1, b=1)
    os.kill(worker._process._process.pid, signal.SIGKILL)
    worker._process._thread.join()
    assert call(worker, "add", a=2, b=2)["sum"] == 4


def test_a_long_number_is_a_number(worker):
    assert call(worker, "count_digits", text="9" * 50_000) == {"digits": 50_000}


def test_what_a_library_prints_breaks_nothing(worker):
    assert call(worker, "print_much") == {"read": ""}
    assert call(worker, "add", a=2, b=2)["sum"] == 4


def test_larger_inputs_have_more_time(worker):
    limits = LIMITS.for_input(2**28)
    assert (limits.cpu_seconds, limits.seconds, limits.memory) == (2, 600, 2**29 + 2**28)


def test_errors_for_users_are_raised_again(worker):
    with pytest.raises(errors.SourceError) as caught:
        call(worker, "refuse")
    assert (str(caught.value), caught.value.remedy) == ("a.toml:3: it is no source", "take another")
    with pytest.raises(errors.MatrixMistakesError) as several:
        call(worker, "refuse_twice")
    assert [type(each) for each in several.value.mistakes] == [errors.MatrixError, errors.SourceError]
    assert several.value.exit_code == errors.ExitCode.USAGE
    with pytest.raises(errors.WheelError, match="it is no wheel"):
        call(worker, "refuse_by_its_own")
    with pytest.raises(errors.MachineError, match="No such file or directory"):
        call(worker, "open_missing")


def test_threads_share_a_worker(worker):
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda b: call(worker, "add", a=1, b=b), range(20)))
    assert [answer["sum"] for answer in answers] == list(range(1, 21))
    assert len({answer["process"] for answer in answers}) == 1  # although the thread that started it has ended


def test_in_bubblewrap_it_writes_to_its_own_folder_alone_and_has_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    (tmp_path / "input").write_text("content")
    with socket.create_server(("127.0.0.1", 0)) as server, Worker(LIMITS) as worker:
        answer = call(
            worker,
            "reach",
            outside=str(tmp_path / "outside"),
            port=server.getsockname()[1],
            input=str(tmp_path / "input"),
        )
        assert (worker.folder / "result").read_text() == "content"
        assert "SECRET" not in answer["environment"]
        assert answer["done"] == [] or not worker._sandbox
    assert not worker.folder.exists()


def test_where_bubblewrap_does_not_start_it_runs_without(tmp_path, monkeypatch):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bwrap: No permissions to create new namespace >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Worker(LIMITS) as worker:
        assert call(worker, "add", a=2, b=2)["sum"] == 4


def test_a_worker_that_cannot_start_is_an_error(worker, monkeypatch):
    monkeypatch.setattr(process, "import_path", lambda: ("/nowhere",))
    monkeypatch.setattr(process.sys, "executable", "/bin/false")
    with pytest.raises(errors.WorkerError, match="does not start"):
        call(worker, "add", a=2, b=2)


CLIENT = """
import os, signal, sys, threading
from wheelsmith.worker import Worker, import_path, process
process.import_path = lambda: (*import_path(), sys.argv[1])
with Worker() as worker:
    print(worker.call("worker_operations:add", {"a": 1, "b": 1})["sum"], worker._process._process.pid, flush=True)
    worker.call("worker_operations:" + sys.argv[2], {})
"""


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", ["spin", "sleep"])
def test_it_dies_with_the_process_that_started_it(tmp_path, plain, name):
    env = {**os.environ, "TMPDIR": str(tmp_path), **({"PATH": "/nowhere"} if plain else {})}
    argv = [sys.executable, "-c", CLIENT, SUPPORT, name]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as parent:
        _, pid = parent.stdout.readline().split()
        time.sleep(0.3)
        parent.kill()
    end = time.monotonic() + 20
    while time.monotonic() < end and Path(f"/proc/{pid}/cmdline").exists():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        time.sleep(0.05)
    assert time.monotonic() < end


def test_a_job_in_a_folder(tmp_path):
    def run(name, request):
        with WorkFolder.make(tmp_path / name) as work:
            write_request(work, f"worker_operations:{name}", request)
            argv = [sys.executable, "-m", "wheelsmith.worker", tmp_path / name]
            env = {**os.environ, "PYTHONPATH": SUPPORT}
            code = subprocess.run(argv, env=env, stderr=subprocess.DEVNULL).returncode
            return code, read_response(work, "x.whl")

    code, answer = run("add", {"a": 2, "b": 2})
    assert (code, answer["sum"]) == (0, 4)
    with pytest.raises(errors.SourceError, match="it is no source"):
        run("refuse", {})
    with pytest.raises(errors.WorkerError, match=r"^x\.whl cannot be read: the reader wrote no response"):
        run("fail", {})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"error": {}}', "[" * 100_000, '{"result": 1}'])
def test_a_job_that_left_no_response_is_an_error(tmp_path, text):
    (tmp_path / "response.json").write_text(text)
    with WorkFolder(tmp_path) as work, pytest.raises(errors.WorkerError, match=r"^x\.whl cannot be read: the reader"):
        read_response(work, "x.whl")
