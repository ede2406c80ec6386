"""The Jobs for Kubernetes: valid for the schemas of its API. Their commands run here as its nodes run them."""

import os
import subprocess
import sys
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

    def run(job, index=""):
        [container] = job["spec"]["template"]["spec"]["containers"]
        environment = {each["name"]: each["value"].replace("/wheels/", "") for each in container["env"]}
        environment |= {"WHEELSMITH_CACHE": str(tmp_path / "cache"), "HOME": os.environ["HOME"]}
        environment |= {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "DEADLINE": "0"}
        environment["JOB_COMPLETION_INDEX"] = str(index)
        argv = (*container["command"], *container["args"])
        return subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True)

    build, join = jobs
    assert build["spec"]["completions"] == 2
    Path("die").touch()
    assert [run(build, index).returncode for index in (0, 1)] == [0, -9]
    assert "shard 2/2" in (answer := run(join)).stderr
    assert answer.returncode == 1
    assert "1 cached" in (answer := run(build, 0)).stderr, answer
    assert "1 built" in (answer := run(build, 1)).stderr, answer
    assert run(join).returncode == 0
    assert len(list(Path("dist/wheels").glob("*.whl"))) == 2
    assert not Path(".wheelsmith-kubernetes/shards").exists()
