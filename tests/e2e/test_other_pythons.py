"""A project's Python, wherever it is installed, brings nothing of the machine with it: no package, no library."""

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import wants

from wheelsmith.engine import Command, ExitReason, Limits, Mount, bwrap, engines, this_machine

pytestmark = pytest.mark.e2e
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
LIBRARY = f"lib/python{VERSION}"
EVIL = "raise SystemExit('code of the machine ran')\n"
ASK = """
import ctypes, importlib.util, json, os, site, ssl, sys
print("RUNS", sys.version_info[:2], sys.prefix)
for name in ("evil", "sitecustomize", "usercustomize", "pip", "setuptools", "numpy", "torch", "apt_pkg"):
    if importlib.util.find_spec(name):
        print("ESCAPED: can be imported", name)
for folder in {*sys.path, *site.getsitepackages(), site.getusersitepackages()}:
    if folder.endswith("-packages") and os.path.isdir(folder) and os.listdir(folder):
        print("ESCAPED: packages", folder, os.listdir(folder)[:3])
for path in ("bin/nvcc", "bin/pip", "lib/libevil.so", "include/evil.h", "share/evil", "lib/python2.7", "etc"):
    if sys.prefix != "/usr" and os.path.lexists(os.path.join(sys.prefix, path)):
        print("ESCAPED: can be seen", path)
if os.listdir("/usr/local"):
    print("ESCAPED: /usr/local")
header = os.path.join(sys.prefix, "include", f"python{sys.version_info[0]}.{sys.version_info[1]}", "Python.h")
print("HEADERS", os.path.isfile(header))
"""


@pytest.fixture(scope="module")
def kept():
    """A Python as pyenv and uv keep them, with what its owner installed into it; it is a copy of this one."""
    # A sandbox has a /tmp of its own, where nobody's Python lies.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield lay_out(Path(folder).resolve() / f".pyenv/versions/{VERSION}.0")


def lay_out(prefix):
    (prefix / "bin").mkdir(parents=True)
    program = prefix / f"bin/python{VERSION}"
    shutil.copy(Path(sys.base_prefix, f"bin/python{VERSION}").resolve(), program)
    library = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix}))
    left = shutil.ignore_patterns("test", "__pycache__", "*-packages", "config-*", "ensurepip", "sitecustomize.py")
    shutil.copytree(library, prefix / LIBRARY, ignore=left)
    for shared in Path(sys.base_prefix, "lib").glob(f"libpython{VERSION}*.so*"):
        shutil.copy(shared, prefix / "lib" / shared.name)
    for name in (
        *(f"{LIBRARY}/site-packages/{name}" for name in ("evil.py", "evil.pth", "sitecustomize.py", "pip.py")),
        *(f"{LIBRARY}/{name}" for name in ("sitecustomize.py", "usercustomize.py", "dist-packages/numpy.py")),
        *("bin/nvcc", "bin/pip", "lib/libevil.so", "lib/python2.7/os.py", "share/evil", "etc/pip.conf"),
        *("include/evil.h", f"include/python{VERSION}/Python.h"),
    ):
        path = prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import sys; {EVIL}" if name.endswith(".pth") else EVIL)
    return program


def test_what_is_beside_a_python_is_seen_outside(kept):
    """So that the test below shows something."""
    answer = subprocess.run([kept, "-c", ASK], capture_output=True, text=True)
    assert answer.returncode != 0
    assert "code of the machine ran" in answer.stderr


@pytest.mark.parametrize("where", ["kept", "the system's"])
def test_nothing_of_the_machine_can_be_imported(where, kept, tmp_path, monkeypatch):
    wants.program("bwrap")
    program = str(kept) if where == "kept" else f"/usr/bin/python{VERSION}"
    if not Path(program).is_file():
        wants.absent(f"there is no {program}")
    machine = replace(this_machine(), pythons={VERSION: program})
    monkeypatch.setattr(bwrap, "this_machine", lambda: machine)
    (tmp_path / "work").mkdir()
    command = Command(
        name="wheelsmith-other-python",
        argv=(f"python{VERSION}", "-c", ASK),
        mounts=(Mount(source=tmp_path / "work", target="/work", writable=True),),
        env={},
        workdir="/work",
        limits=Limits(seconds=60.0),
        python=VERSION,
    )
    lines = []
    exit_ = engines(tmp_path / "cache")["bwrap"].run(command, lines.append, threading.Event())
    assert (exit_.reason, exit_.code) == (ExitReason.EXITED, 0), lines
    assert [line for line in lines if line.startswith("ESCAPED")] == []
    prefix = kept.parents[1] if where == "kept" else Path("/usr")
    assert lines[0] == f"RUNS {sys.version_info[:2]} {prefix}"
    assert lines[-1].startswith("HEADERS")
    assert where != "kept" or lines[-1] == "HEADERS True"
