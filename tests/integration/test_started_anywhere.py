"""The folder that wheelsmith is started in may be a stranger's: nothing that lies there is imported."""

import subprocess
import sys
import zipfile

import pytest
import wants
from wheels import make_wheel

from wheelsmith.base.errors import WheelError
from wheelsmith.engine import engines
from wheelsmith.engine.sandbox_selftest import run_selftest
from wheelsmith.index.pick.machine import probe_machine, run_install
from wheelsmith.index.resolve.install_commands import Template
from wheelsmith.wheel import repair
from wheelsmith.wheel.archive import open_wheel

# What Python's own programs import, and what ours do.
NAMES = ("zipfile", "json", "re", "__future__", "importlib", "platform", "wheel", "auditwheel", "threading", "pathlib")


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A folder full of modules that note when they are imported; returns the note."""
    folder, note = tmp_path / "strange", tmp_path / "note"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(note)!r}, 'a').write('{name} ')\nraise SystemExit(99)\n")
    monkeypatch.chdir(folder)
    # Where it is set, it would hide what each call has to say itself.
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return note


def test_the_trap_works(trap):
    assert subprocess.run([sys.executable, "-m", "zipfile", "-h"], capture_output=True).returncode == 99
    assert trap.exists()


def test_a_wheel_is_packed_and_repaired(trap, tmp_path):
    wheel = make_wheel(tmp_path / "left", "pure", "1")
    made = repair.pack(open_wheel(wheel), tmp_path / "work")
    assert zipfile.ZipFile(made).testzip() is None
    with pytest.raises(WheelError, match="no manylinux platform fits"):  # it is a pure one
        repair.repair_platform(wheel, tmp_path)
    assert not trap.exists()


def test_an_environment_is_looked_at(trap):
    assert probe_machine(sys.executable).python_version.startswith("3.")
    assert not trap.exists()


def test_the_chosen_command_is_run(trap):
    run_install(Template(lines=((sys.executable, "-m", "zipfile", "-h"),)))
    assert not trap.exists()


def test_promises_are_tried(trap, tmp_path):
    wants.program("bwrap")
    found = {promise.what: promise.found for promise in run_selftest(engines(tmp_path)["bwrap"], None)}
    assert "tested: by a kill" in found.values(), found
    assert not trap.exists()
