"""Runs whose reader goes away: they go on, and leave all that they would have left."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernels import matrix, pure_kernel
from sampled import sampled

from wheelsmith.base.beneath import remove_tree


@pytest.fixture
def start(stored, tmp_path):
    """Start a run of four cells that share a wheel, which was made before; with its output going somewhere."""
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.12, 2.13", cuda="cpu, 13.0")

    def start(*options, settings=(), **streams):
        command = [sys.executable, "-m", "wheelsmith", "build-matrix", "--engine", "local", *options]
        env = {**os.environ, "WHEELSMITH_CACHE": str(tmp_path / "cache"), **dict(settings)}
        return subprocess.Popen(command, cwd=tmp_path, env=env, **streams)

    return start


def _gone():
    read, write = os.pipe()
    os.close(read)
    return write


@pytest.fixture(params=["pipe", "full disk"])
def nowhere(request):
    stream = _gone() if request.param == "pipe" else os.open("/dev/full", os.O_WRONLY)
    yield stream
    os.close(stream)


@pytest.mark.parametrize("progress", sampled(["plain", "live", "quiet"], "live"))
def test_a_run_goes_on_when_nobody_reads_its_progress(start, progress, nowhere, tmp_path):
    remove_tree(tmp_path / "cache")  # it has something to build
    run = start("--progress", progress, "--json", stderr=nowhere, stdout=subprocess.PIPE)
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0
    assert len(json.loads(said)["cells"]) == 4
    assert said == (tmp_path / "dist" / "results.json").read_bytes()
    assert (tmp_path / "dist" / "report.html").is_file()
    assert list((tmp_path / "dist").rglob("*.whl"))


@pytest.mark.release("each is a whole run; the first ones are quick")
@pytest.mark.parametrize(
    "options", sampled(["--progress=json", "--json"], "--progress=json"), ids=["events", "results"]
)
def test_a_run_goes_on_when_nobody_reads_what_it_gives(start, options, nowhere, tmp_path):
    run = start(options, stdout=nowhere, stderr=subprocess.PIPE, text=True)
    _, said = run.communicate(timeout=300)
    assert "Traceback" not in said
    assert len(json.loads((tmp_path / "dist" / "results.json").read_text())["cells"]) == 4
    assert list((tmp_path / "dist").rglob("*.whl"))
    # Whoever asked for data and did not get it is told; who went away did not want it.
    full = os.path.samestat(os.fstat(nowhere), Path("/dev/full").stat())
    assert run.returncode == (4 if full else 0)
    assert ("cannot write to stdout" in said) == full


@pytest.mark.release("each is a whole run; the first ones are quick")
def test_a_failure_is_told_by_the_exit_code_alone_if_it_must_be(start, nowhere, tmp_path):
    (tmp_path / "k" / "build.toml").write_text("nonsense")
    run = start(stderr=nowhere, stdout=nowhere)
    assert run.wait(timeout=300) == 2


@pytest.mark.parametrize("encoding", sampled(["ascii", "latin-1", "koi8-r"], "ascii"))
@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--only", "✗*")], ids=["build", "plan", "mistake"])
def test_a_terminal_that_lacks_characters_shows_others(start, encoding, options, tmp_path):
    (tmp_path / "k").rename(tmp_path / "ядро✓")
    text = (tmp_path / "matrix.yaml").read_text()
    (tmp_path / "matrix.yaml").write_text(text.replace("path: k", "path: ядро✓"), encoding="utf-8")
    settings = {"PYTHONIOENCODING": encoding}.items()
    run = start(*options, settings=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = run.communicate(timeout=300)
    assert run.returncode == (3 if "--only" in options else 0), err
    assert b"Traceback" not in err
    (out + err).decode(encoding)


@pytest.mark.parametrize("closed", sampled([">&-", "2>&-", ">&- 2>&-", "<&-"], ">&- 2>&-"))
def test_closed_streams_do_no_harm(start, closed, tmp_path):
    pure = f"cd {tmp_path} && exec {sys.executable} -m wheelsmith build-matrix --engine local {closed}"
    env = {**os.environ, "WHEELSMITH_CACHE": str(tmp_path / "cache")}
    answer = subprocess.run(["/bin/sh", "-c", pure], env=env, capture_output=True, timeout=300)
    assert answer.returncode == 0
    assert len(json.loads((tmp_path / "dist" / "results.json").read_text())["cells"]) == 4
