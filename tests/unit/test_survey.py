"""What a machine can build with, found on a PATH as it is."""

import json
import os
import platform
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


def installed(prefix, version, *, headers=True):
    """Put a Python where it might be: nothing of it is ever run."""
    program = prefix / "bin" / f"python{version}"
    for path, content in ((program, b"\x7fELF"), (prefix / f"include/python{version}/Python.h", b"")):
        if headers or path == program:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return str(program.resolve())


def found(home, *path, **more):
    env = {"HOME": str(home), "PATH": ":".join(map(str, (*path, "/usr/bin", "/bin"))), "PYTHONPATH": ":".join(sys.path)}
    program = "import json; from wheelsmith.engine import this_machine; print(json.dumps(this_machine().pythons))"
    answer = subprocess.run([sys.executable, "-c", program], env=env | more, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def test_pythons_of_pyenv_and_uv_are_found(tmp_path):
    managed = tmp_path / ".local/share/uv/python"
    arch = platform.machine()
    installed(tmp_path / ".pyenv/versions/3.97.9", "3.97")
    newest = installed(tmp_path / ".pyenv/versions/3.97.10", "3.97")
    uvs = installed(managed / f"cpython-3.98.1-linux-{arch}-gnu", "3.98")
    for prefix in (
        *(tmp_path / ".pyenv/versions" / name for name in ("3.96.0t", "3.96-dev", "pypy3.96-7.3", "3.96.0rc1")),
        *(managed / f"cpython-{name}" for name in (f"3.96.0+freethreaded-linux-{arch}-gnu", "3.96.0-linux-other-gnu")),
    ):
        installed(prefix, "3.96")
    pythons = found(tmp_path)
    assert (pythons["3.97"], pythons["3.98"]) == (newest, uvs)
    assert "3.96" not in pythons
    threads = installed(managed / f"cpython-3.95.0+freethreaded-linux-{arch}-gnu", "3.95t")
    installed(managed / f"cpython-3.95.0+freethreaded-linux-{arch}-gnu", "3.95")  # its second name
    own = installed(tmp_path / "own", "3.94t")
    installed(tmp_path / "own", "3.94", headers=False)
    (tmp_path / "own/lib/python3.94t").mkdir(parents=True)
    pythons = found(tmp_path, tmp_path / "own/bin")
    assert (pythons["3.95t"], pythons["3.94t"]) == (threads, own)
    assert not {"3.95", "3.94"} & {*pythons}
    elsewhere = found(tmp_path / "nobody", PYENV_ROOT=str(tmp_path / ".pyenv"), UV_PYTHON_INSTALL_DIR=str(managed))
    assert (elsewhere["3.97"], elsewhere["3.98"]) == (newest, uvs)


def test_a_python_with_headers_is_taken_before_one_without(tmp_path):
    bare = installed(tmp_path / "bare", "3.97", headers=False)
    assert found(tmp_path, tmp_path / "bare/bin")["3.97"] == bare
    whole = installed(tmp_path / ".pyenv/versions/3.97.1", "3.97")
    assert found(tmp_path, tmp_path / "bare/bin")["3.97"] == whole
    first = installed(tmp_path / "first", "3.97")
    assert found(tmp_path, tmp_path / "bare/bin", tmp_path / "first/bin")["3.97"] == first


def test_a_shim_is_no_python(tmp_path):
    shim = tmp_path / "shims/python3.97"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexit 1\n")
    assert "3.97" not in found(tmp_path, shim.parent)
