"""Whoever stops a plan while it waits for an index leaves no process and no file behind."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading

import processes
import pytest
import wants
from factory import Factory
from kernels import write

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def silent():
    """A server that accepts and never answers, and an event of the first question."""
    asked, kept = threading.Event(), []

    def accept():
        with contextlib.suppress(OSError):
            while True:
                kept.append(server.accept()[0])
                asked.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple", asked
    for connection in kept:
        connection.close()


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 130), ("SIGKILL", -9)])
def test_a_plan_that_is_stopped_leaves_nothing(number, code, silent, tmp_path):
    wants.program("setpriv")
    index, asked = silent
    factory = Factory.at(tmp_path)
    factory.resolves_alone()
    pyproject = '[project]\nname = "p"\nversion = "1"\n[build-system]\nrequires = ["helper"]\nbuild-backend = "own"\n'
    write(tmp_path / "p", {"pyproject.toml": pyproject})
    axes = f"axes: {{torch: [2.12, 2.13], cuda: [cpu], python: [{PYTHON}]}}\n"
    (tmp_path / "matrix.yaml").write_text(f"kernel: {{path: p}}\n{axes}toolchain: host\n")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    where = {"PIP_INDEX_URL": index, "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}
    env = factory.environment(TMPDIR=str(temporary), **where)
    run = subprocess.Popen(
        factory.command("plan", "--engine", "local"), cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
    )
    assert asked.wait(processes.PATIENCE)
    # In a terminal, Ctrl-C reaches wheelsmith alone, because uv has a session of its own.
    run.send_signal(signal.Signals[number])
    _, told = run.communicate(timeout=processes.PATIENCE)
    assert (run.returncode, "resolving 2 build environments" in told, "Traceback" in told) == (code, True, False)
    assert processes.left(lambda: processes.with_words(str(factory.cache))) == []
    assert [path.name for path in temporary.iterdir()] == []
    assert list((factory.cache / "locks").iterdir()) == []
