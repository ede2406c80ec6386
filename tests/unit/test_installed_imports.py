"""In the environment of a test, the modules of the wheel come from the wheel."""

import json
import subprocess
import sys
from importlib.resources import files

import pytest

CASES = {"a package": ("kernel", True), "a folder that wheels share": ("shared", False), "another": ("other", False)}


@pytest.mark.parametrize("case", CASES)
def test_modules_of_the_wheel_come_first(tmp_path, case):
    name, from_wheel = CASES[case]
    source = files("wheelsmith.run.testing").joinpath("installed_imports.py").read_text(encoding="utf-8")
    for folder in ("wheel", "source"):
        for module in ("kernel/__init__.py", "other/__init__.py", "shared/part.py"):
            path = tmp_path / folder / module
            path.parent.mkdir(parents=True)
            path.touch()
    (tmp_path / "wheel/_names.py").write_text(source, encoding="utf-8")
    (tmp_path / "wheel/_names.json").write_text(json.dumps(["kernel", "shared"]), encoding="utf-8")
    command = f"import sys; sys.path.insert(0, 'wheel'); import _names; sys.path.insert(0, 'source'); import {name}"
    argv = [sys.executable, "-I", "-c", f"{command}; print(*{name}.__path__)"]
    found = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert found.splitlines()[0].split()[0].startswith(("source", str(tmp_path / "source"))) != from_wheel
