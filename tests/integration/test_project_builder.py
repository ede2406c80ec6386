"""What runs a project's own build system in the sandbox: it compares names before anything is compiled."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wheelsmith.engine.backend import project

SETUP = """
import sys
from pathlib import Path
from setuptools import setup
from setuptools.command.build_py import build_py

class Build(build_py):
    def run(self):
        Path("compiled").write_text(Path("before").read_text() if Path("before").exists() else "nothing before")
        super().run()

setup(name="my_project", version='{version}', py_modules=["m"], cmdclass={{"build_py": Build}}, setup_requires={needs})
"""


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "m.py").touch()
    return folder


def build(source, *, version="1.0", needs=(), planned=("my-project", "1.0"), **told):
    (source / "setup.py").write_text(SETUP.format(version=version, needs=list(needs)))
    name, public = planned
    plan = {
        "project": {"config_settings": {}, "before_build": None, **told},
        "toolset": None,
        "wheel": {"distribution": name, "version": f"{public}+cu130.torch2.11"},
    }
    (source.parent / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, project.__file__, source.parent / "plan.json", source, source.parent / "dist"]
    return subprocess.run(command, capture_output=True, text=True, cwd=source.parent)


def wheels(source):
    return [path.name for path in sorted(Path(source.parent / "dist").glob("*"))]


def test_it_builds(source):
    answer = build(source)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert wheels(source) == ["my_project-1.0-py3-none-any.whl"]
    assert (source / "compiled").read_text() == "nothing before"


@pytest.mark.release("one more build of a project")
def test_a_local_version_of_the_projects_own_is_no_other_version(source):
    assert build(source, version="1.0+cu130torch2.11").returncode == 0
    assert wheels(source) == ["my_project-1.0+cu130torch2.11-py3-none-any.whl"]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"planned": ("other", "1.0")}, "under kernel: distribution: my"),
        ({"planned": ("my-project", "2")}, "add to matrix.yaml: version: 1.0"),
        ({"version": "1.1+cu130"}, "add to matrix.yaml: version: 1.1"),
        ({"needs": ["no-such-thing>=1", "setuptools"]}, 'add to matrix.yaml: build-requires: ["no-such-thing>=1"]'),
        ({"before_build": "exit 7"}, "before-build ended with exit code 7"),
    ],
)
def test_another_project_is_refused_before_it_is_compiled(settings, line, source):
    answer = build(source, **settings)
    assert answer.returncode == 1
    assert line in answer.stdout.splitlines()[-1]
    assert wheels(source) == []
    assert not (source / "compiled").exists()


def test_a_command_comes_first_in_the_projects_folder(source):
    answer = build(source, before_build="printf 'it was run' > before")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert (source / "compiled").read_text() == "it was run"


BACKEND = """
import json
from setuptools.build_meta import *
from setuptools.build_meta import build_wheel as _build

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open("told", "w") as file:
        json.dump(config_settings, file)
    return _build(folder)
"""


@pytest.mark.release("one more build of a project")
def test_the_backend_is_told_settings(source):
    (source / "backend.py").write_text(BACKEND)
    system = "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    (source / "pyproject.toml").write_text(system)
    answer = build(source, config_settings={"one": ["1=1"], "--two": ["a", "b c"]})
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert json.loads((source / "told").read_text()) == {"one": "1=1", "--two": ["a", "b c"]}


def test_a_project_that_cannot_be_asked_is_refused(source):
    answer = build(source, version="1.0', license=undefined, x='")
    assert answer.returncode == 1
    assert answer.stdout.splitlines()[-1].startswith("wheelsmith: the project's build system failed: ")
    assert "NameError" in answer.stderr + answer.stdout
