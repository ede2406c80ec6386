"""What a machine can build with, found on a PATH as it is."""

import os
import shutil
import subprocess
import sys

import pytest

# What lets root read everything is put down first; an ordinary user has none of it.
_ORDINARY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@pytest.mark.parametrize("inside", ["", "bin"])
def test_folders_on_path_that_may_not_be_read_are_passed_over(inside, tmp_path):
    closed = tmp_path / "closed"
    (closed / "bin").mkdir(parents=True)
    closed.chmod(0)
    before = _ORDINARY if os.geteuid() == 0 else ()
    if before:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv to be an ordinary user")
        os.chown(closed, 65534, 65534)
    env = {**os.environ, "PATH": f"{closed / inside}:{os.environ['PATH']}", "CUDA_HOME": str(closed / "bin" / "cuda")}
    program = "import os, sys; print(os.access(sys.argv[1], os.R_OK)); from wheelsmith.engine.backend import survey"
    program += "; import json; json.dump(survey.survey(), sys.stdout)"
    try:
        answer = subprocess.run(
            [*before, sys.executable, "-c", program, str(closed / "bin")], env=env, capture_output=True, text=True
        )
    finally:
        closed.chmod(0o700)
    assert answer.stdout.startswith("False\n"), answer.stderr
    assert f'"python": "3.{sys.version_info[1]}"' in answer.stdout
