"""A script for Slurm, run by a cluster of one node: an array job for the shards, and a job that joins them."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import run_command
from factory import ROOT, Factory
from kernels import matrix, tiny_kernel
from loopback_slurm import loopback_slurm

pytestmark = [pytest.mark.e2e, pytest.mark.release("a cluster of its own")]

# Task 2 dies by SIGKILL if there is a file named die.
WHEELSMITH = f"""#!/bin/sh
if [ "$SLURM_ARRAY_TASK_ID" = 2 ] && rm die 2>/dev/null; then kill -KILL $$; fi
exec {sys.executable} -m wheelsmith "$@"
"""


@pytest.fixture
def cluster(tmp_path):
    (tmp_path / "slurm").mkdir()
    with loopback_slurm(tmp_path / "slurm") as environment:
        yield environment


@pytest.fixture
def submitted(cluster, monkeypatch, capsys, tmp_path):
    """Run the script in a folder with a kernel until both jobs have ended, and return what the join said."""
    folder, cache = tmp_path / "work", Factory.at(tmp_path).cache
    tiny_kernel(folder / "k")
    matrix(folder, "k", torch="2.12, 2.13", cuda="cpu")
    monkeypatch.chdir(folder)
    answer = run_command(monkeypatch, capsys, "ci", "slurm", "--shards", "2", "--wheelsmith", "wheelsmith-factory")
    assert answer.code == 0, answer.text
    programs = folder / ".wheelsmith-slurm" / hashlib.sha256(b"wheelsmith-factory3.12").hexdigest()[:16] / "bin"
    programs.mkdir(parents=True)
    (programs / "wheelsmith").write_text(WHEELSMITH)
    (programs / "wheelsmith").chmod(0o755)
    (programs / "python").symlink_to(sys.executable)

    def submit(**more):
        environment = {**cluster, "WHEELSMITH_CACHE": str(cache), "PYTHONPATH": str(ROOT), **more}
        argv = ("bash", "wheels.slurm.sh", "--cpus-per-task=1", "--mem-per-cpu=1G")
        subprocess.run(argv, cwd=folder, env=environment, check=True, capture_output=True, text=True)
        again = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True)
        assert "of an earlier run have not ended" in again.stderr
        while subprocess.run(["squeue", "-h"], env=cluster, capture_output=True, check=True).stdout:
            time.sleep(0.2)
        return Path(".wheelsmith-slurm/join.log").read_text()

    return submit


def test_a_task_that_was_killed_is_repeated(submitted):
    Path("die").touch()
    assert "shard 2/2" in submitted()
    assert "1 cached · 1 built" in submitted()
    assert len(list(Path("dist/wheels").glob("*.whl"))) == 2


def test_a_join_that_slurm_refuses_leaves_no_builds(cluster, submitted, tmp_path):
    refusing = tmp_path / "sbatch"
    real = shutil.which("sbatch")
    refusing.write_text(f'#!/bin/sh\ncase "$*" in *afterany*) exit 1 ;; esac\nexec {real} "$@"\n')
    refusing.chmod(0o755)
    with pytest.raises(subprocess.CalledProcessError):
        submitted(PATH=f"{tmp_path}:{os.environ['PATH']}")
    for _ in range(100):
        if not subprocess.run(["squeue", "-h"], env=cluster, capture_output=True, check=True).stdout:
            return
        time.sleep(0.2)
    raise AssertionError("the builds are still there")
