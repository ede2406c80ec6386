"""wheelsmith's own pip is all that makes environments: no Python that it builds for needs one."""

import importlib.metadata
import json
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from wheels import make_wheel

from wheelsmith.base.errors import ToolchainError
from wheelsmith.toolchain.environment import install_environment, lock_environment
from wheelsmith.toolchain.pip import run_pip


def test_it_is_declared():
    """So it is there after ``uv tool install``, whose environments have nothing that nobody asks for."""
    needs = [Requirement(text) for text in importlib.metadata.requires("wheelsmith") or ()]
    assert [need.name for need in needs if need.name == "pip" and not need.marker] == ["pip"]


def test_an_environment_is_made_for_a_python_that_is_not_there(tmp_path, monkeypatch):
    make_wheel(tmp_path / "wheels", "dep", "1", requires=("sub>=2",))
    make_wheel(tmp_path / "wheels", "sub", "2", tag="cp399-cp399-manylinux_2_17_x86_64")
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path / "wheels"), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    locked = lock_environment(("dep",), "3.99", "x86_64", tmp_path / "locks")
    assert [(wheel.name, wheel.version) for wheel in locked] == [("dep", "1"), ("sub", "2")]
    install_environment(locked, "3.99", "x86_64", tmp_path / "made")
    assert sorted(path.name for path in (tmp_path / "made").glob("*.py")) == ["dep.py", "sub.py"]
    assert json.loads(next((tmp_path / "locks").glob("*.json")).read_text())


def test_where_somebody_took_it_away_it_is_said_how_to_get_it(tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(ToolchainError, match="pip is not installed beside wheelsmith") as caught:
        run_pip("config", "list", seconds=60)
    assert caught.value.remedy.startswith(f"uv pip install --python {tmp_path}/bare/bin/python pip")
