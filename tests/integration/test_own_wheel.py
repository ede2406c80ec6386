"""wheelsmith's own wheel: it holds all that it needs, and works where nothing of its source is."""

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from installers import FOREIGN, UV

import wheelsmith

pytestmark = pytest.mark.release("builds a wheel and installs what wheelsmith depends on, from the package index")
ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", out, ROOT], check=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The programs of a fresh environment."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([UV, "venv", "--quiet", "--no-project", folder], check=True)
    subprocess.run([UV, "pip", "install", "--quiet", "--python", folder, wheel], check=True)
    return folder / "bin"


@pytest.fixture
def run(tmp_path):
    """Run a command in a folder of its own, with nothing of this checkout within reach."""

    def run(*command):
        return subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)

    return run


def test_it_holds_every_file_of_the_package(wheel):
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "wheelsmith", "docker"]
    listed = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    own = {
        path if path.startswith("wheelsmith/") else f"wheelsmith/{path}" for path in listed if (ROOT / path).is_file()
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == own
    assert {
        "wheelsmith/py.typed",
        "wheelsmith/frameworks/torch.json",
        "wheelsmith/wheel/symbols/torch-x86_64.bin",
    } < held


def test_it_runs(installed, run):
    assert run(installed / "wheelsmith", "--version").stdout.split()[1] == wheelsmith.__version__
    assert run(installed / "python", "-m", "wheelsmith", "--version").stdout.split()[1] == wheelsmith.__version__
    where = run(installed / "python", "-c", "import wheelsmith; print(wheelsmith.__file__)").stdout
    assert Path(where).is_relative_to(installed.parent)


def test_it_plans(installed, run, tmp_path):
    missing = run(installed / "wheelsmith", "plan")
    assert (missing.returncode, missing.stdout) == (2, ""), missing.stderr
    assert "matrix.yaml" in missing.stderr
    shutil.copytree(ROOT / "examples" / "img2gray", tmp_path / "kernel")
    (tmp_path / "matrix.yaml").write_text("kernel: {path: kernel}\naxes: {torch: [2.13], cuda: [cpu, 13.0]}\n")
    planned = run(installed / "wheelsmith", "plan", "--engine", "local", "--json")
    assert planned.returncode == 0, planned.stderr
    assert [plan["cell"]["cuda"] for plan in json.loads(planned.stdout)["plans"]] == [None, "13.0"]


def test_it_builds_in_a_sandbox(installed, run, tmp_path):
    """The check in the sandbox imports what wheelsmith depends on from where it was installed."""
    shutil.copytree(ROOT / "examples" / "img2gray", tmp_path / "kernel")
    (tmp_path / "matrix.yaml").write_text("kernel: {path: kernel}\naxes: {torch: [2.13], cuda: [cpu]}\n")
    built = run(installed / "wheelsmith", "build-matrix", "--engine", "bwrap")
    assert built.returncode == 0, built.stdout + built.stderr
    assert list(tmp_path.glob("dist/**/*.whl"))


def test_it_checks(installed, wheel, run):
    checked = run(installed / "wheelsmith", "check", "--json", wheel)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    program = f"import pathlib, wheelsmith; print(wheelsmith.check_wheel(pathlib.Path({str(wheel)!r})).ok)"
    assert run(installed / "python", "-c", program).stdout == "True\n"


def test_uvx_runs_it(wheel, run):
    answer = run(UV.with_name("uvx"), "--from", wheel, "wheelsmith", "--version")
    assert answer.stdout.split()[1] == wheelsmith.__version__, answer.stderr
