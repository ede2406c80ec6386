"""Projects with a build system of their own: setup.py, torch's cpp_extension, pybind11."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from factory import Factory, gallery

from wheelsmith.wheel.check import check_wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("environments with a whole torch"),
    pytest.mark.xdist_group("projects"),
]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TAG = "cp" + PYTHON.replace(".", "")
ONLY = ("--only", f"*-{TAG}", "--only", "*-cp399")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """This Python's wheel, and that of one that nobody has."""
    factory = gallery(tmp_path_factory.mktemp("project"), "setup-py")
    matrix = factory.folder / "matrix.yaml"
    matrix.write_text(matrix.read_text().replace("python: [", "python: [3.99, "))
    answer = factory.run("build-matrix", "--engine", "bwrap", "--test", *ONLY)
    assert answer.returncode == 0, answer.stderr
    return factory


def test_its_wheel_says_for_which_torch_it_is(project):
    """The first that asks for the project: its environment holds a whole torch."""
    (wheel,) = (project.folder / "dist" / "wheels").iterdir()
    assert wheel.name.startswith(f"add_constant-0.1.0+cpu.torch2.13-{TAG}-{TAG}-manylinux_2_")
    report = check_wheel(wheel)
    assert report.ok, report
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if sys.base_prefix.encode() in archive.read(name)]
    said = {finding.rule: finding.message for finding in report.findings}
    assert said["torch-requirement"] == "Requires-Dist has torch==2.13.*, which admits 2.13"
    assert "of them from torch 2.13" in said["symbols"]


def test_a_python_that_is_not_here_is_a_reason(project):
    cell = project.results()["torch213-cxx11-cpu-x86_64-linux-cp399"]
    assert cell["reason"].startswith("this machine has no Python 3.99: it has 3.")


def test_it_is_installed_by_pip_and_called(project, torch_python):
    """The first that asks for a Python with a whole torch."""
    command = [torch_python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    index = (project.folder / "dist" / "index" / "cpu").as_uri()
    subprocess.run([*command, "--no-deps", "--index-url", index, "add-constant"], check=True)
    tests = project.folder / "../../add_constant/tests"
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    command = [torch_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=tests, env=env)
    assert answer.returncode == 0, answer.stdout
    assert "passed" in answer.stdout


def built(project, out):
    """What is in the wheel but for the plan, which says whether it was told of another compiler, and its digest."""
    (path,) = (project.folder / out / "wheels").iterdir()
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if not name.endswith(("/build-plan.json", "/RECORD", ".cdx.json"))]
        return path.name, {name: wheel.read(name) for name in names}


@pytest.mark.timeout(1800)  # it compiles with all of torch's headers three times
def test_the_same_bytes_again(project):
    """From what was compiled before, compiled once more, and by a compiler before which nothing of ours stands."""
    before = built(project, "dist")
    matrix = (project.folder / "matrix.yaml").read_text()
    # By its path, a compiler is told of no other name of Python's headers.
    headers = sysconfig.get_path("include", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix})
    named = f"-ffile-prefix-map={headers}=/opt/python/include"
    (project.folder / "whole.yaml").write_text(f"{matrix}env: {{CXX: /opt/cxx/bin/g++, CPPFLAGS: {named}}}\n")
    for out, told, phases in (
        ("again", [], "1 of 1 compiler phase reused"),
        ("anew", ["--no-reuse"], "0 of 1 compiler phase reused"),
        ("whole", ["--matrix", "whole.yaml"], None),
    ):
        answer = project.run("build-matrix", "--engine", "bwrap", "--force", "--out", out, *told, *ONLY)
        assert answer.returncode == 0, answer.stderr
        assert built(project, out) == before
        assert re.search(".*compiler phase.*|$", answer.stderr)[0] == (phases or "")


def test_what_the_matrix_must_say(tmp_path):
    factory = Factory.at(tmp_path)
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "setup.py").write_text("raise SystemExit('never run to plan')")
    axes = "axes: {torch: [2.13], cuda: [cpu]}\n"
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(f"kernel: {{path: k}}\nversion: 1\n{axes}")
    nameless = factory.run("plan", "--engine", "bwrap")
    assert nameless.returncode == 2
    assert "kernel.distribution" in nameless.stderr
    matrix.write_text(f"kernel: {{path: k, distribution: x}}\nversion: 1\n{axes}")
    ageless = factory.run("plan", "--engine", "bwrap")
    assert ageless.returncode == 2
    assert "python: [3.11, 3.12]" in ageless.stderr
