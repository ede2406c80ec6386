"""The Jobs for Kubernetes: valid for the schemas of its API. Their commands run here as its nodes run them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from command_line import run_command
from factory import ROOT, Factory
from kernels import matrix, tiny_kernel

pytestmark = [pytest.mark.e2e, pytest.mark.release("the schemas of Kubernetes")]

IMAGE = "example.org/wheelsmith@sha256:" + 64 * "a"
# Shard 2 dies by SIGKILL if there is a file named die.
WHEELSMITH = f"""#!/bin/sh
if [ "$JOB_COMPLETION_INDEX" = 1 ] && rm die 2>/dev/null; then kill -KILL $$; fi
exec {sys.executable} -m wheelsmith "$@"
"""


@pytest.fixture
def jobs(tmp_path, monkeypatch, capsys):
    """Return the Jobs of a small matrix. The current folder is that of the volume."""
    tiny_kernel(tmp_path / "volume/k")
    matrix(tmp_path / "volume", "k", torch="2.12, 2.13", cuda="cpu")
    monkeypatch.chdir(tmp_path / "volume")
    monkeypatch.setenv("WHEELSMITH_CACHE", str(Factory.at(tmp_path).cache))
    for words in (("plan", "--shards", "2"), ("ci", "kubernetes", "--image", IMAGE)):
        answer = run_command(monkeypatch, capsys, *words)
        assert answer.code == 0, answer.text
    return list(yaml.safe_load_all(Path("wheels.kubernetes.yaml").read_text()))


def test_the_jobs_are_valid_for_every_version_since_the_first_that_has_all_fields(jobs):
    import kubernetes_validate

    newest = int(kubernetes_validate.latest_version().split(".")[1])
    for job in jobs:
        for minor in range(33, newest + 1):
            kubernetes_validate.validate(job, f"1.{minor}.0", strict=True)


def test_a_shard_that_was_killed_is_repeated(jobs, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/wheelsmith").write_text(WHEELSMITH)
    (tmp_path / "bin/wheelsmith").chmod(0o755)

    def start(job, index=""):
        [container] = job["spec"]["template"]["spec"]["containers"]
        environment = {each["name"]: each["value"].replace("/wheels/", "") for each in container["env"]}
        environment |= {"WHEELSMITH_CACHE": str(tmp_path / "cache"), "HOME": os.environ["HOME"]}
        environment |= {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "LONGEST_WAIT": wait}
        environment["JOB_COMPLETION_INDEX"] = str(index)
        argv = (*container["command"], *container["args"])
        return subprocess.Popen(argv, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)

    def run(job, index=""):
        process = start(job, index)
        _, said = process.communicate()
        return process.returncode, said

    wait = "5"
    build, join = jobs
    assert build["spec"]["completions"] == 2
    Path("die").touch()
    assert [run(build, index)[0] for index in (0, 1)] == [0, 137]
    code, said = run(join)
    assert code == 1
    assert "shard 2/2" in said
    # It ends although its shell is the first process of the container.
    stopped = start(build, 1)
    time.sleep(3)
    stopped.terminate()
    stopped.communicate()
    assert stopped.returncode == 130
    assert not list(Path().glob(".wheelsmith-kubernetes/*/2.ended"))
    wait = "600"
    joining = start(join)
    assert "1 cached" in run(build, 0)[1]
    assert "1 built" in run(build, 1)[1]
    _, said = joining.communicate()
    assert joining.returncode == 0, said
    assert len(list(Path("dist/wheels").glob("*.whl"))) == 2
    assert not list(Path().glob(".wheelsmith-kubernetes/*/*.ended"))


def test_jobs_of_an_older_matrix_are_not_written(jobs, monkeypatch, capsys):
    Path("matrix.yaml").write_text(Path("matrix.yaml").read_text() + "# changed\n")
    answer = run_command(monkeypatch, capsys, "ci", "kubernetes", "--image", IMAGE)
    assert answer.code == 2
    assert "has changed since wheelsmith.shards.json was written" in answer.err
