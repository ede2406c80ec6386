"""wheelsmith test-matrix: every wheel with each torch, Python and GPU, in fresh environments over shared packages."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from factory import Factory
from once import made_once, run_folder
from shop import NOW, TORCHES, torch_files
from wheels import make_wheel, offer

from wheelsmith.base.errors import ExitCode
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell
from wheelsmith.run.testing.kept_results import digest_files

pytestmark = pytest.mark.xdist_group("wheel tests")

ARCH = os.uname().machine
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
NATIVE = "cp39-abi3-manylinux_2_17_x86_64"


def _make(root):
    """Write an index with a CPU wheel for each torch and one for CUDA, and the torches, which are stand-ins."""
    made, offers = root / "made", []
    for torch in TORCHES:
        path = make_wheel(made, "kernel", f"1+cpu.torch{torch}", requires=(f"torch=={torch}.*",), tag=NATIVE)
        offers.append(offer(path, Cell(release=torch, toolkit=None, arch="x86_64")))
    path = make_wheel(made, "kernel", "1+cu130.torch2.11", requires=("torch==2.11.*",), tag=NATIVE)
    offers.append(offer(path, Cell(release="2.11", toolkit="13.0", arch="x86_64")))
    old = make_wheel(made, "kernel", "0.9", requires=("torch",))
    offers.append(offer(old, Cell(release="2.13", toolkit=None, arch="x86_64")))
    Index(Folder(root / "index")).add(offers, upload_time=NOW)
    # Importing torch must work, or a failed test says nothing about a wheel.
    for version, _ in TORCHES.values():
        files = {**torch_files(f"{version}+cpu", None), "torch/__init__.py": b""}
        torches = make_wheel(root / "pytorch/made", "torch", f"{version}+cpu", files=files)
        release = Cell(release=version.rpartition(".")[0], toolkit=None, arch="x86_64")
        Index(Folder(root / "pytorch/whl")).add([offer(torches, release)], upload_time=NOW)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return made_once(run_folder(tmp_path_factory) / "matrix-tests", _make)


@pytest.fixture
def factory(kept, tmp_path, monkeypatch):
    shutil.copytree(kept, tmp_path / "factory", symlinks=True)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("WHEELSMITH_TORCH_INDEX", (tmp_path / "factory/pytorch/whl").as_uri())
    return Factory(folder=tmp_path / "factory", cache=tmp_path / "cache")


def run(factory, *argv, python=sys.executable):
    options = ("--python", python) if python else ()
    return factory.run_in_process("test-matrix", "kernel", "--index", "index", *options, *argv)


def recorded(factory):
    tests = json.loads((factory.folder / "test-results/tests.json").read_text())["tests"]
    return {test["cell"]: test for test in tests}


def script(factory, text):
    (factory.folder / "check.py").write_text(text)
    return ("--", "python", "check.py")


CHECK = """
import importlib.metadata, importlib.util, os, sys
import kernel
torch = importlib.util.find_spec("torch").origin
assert kernel.__file__.startswith(sys.prefix), kernel.__file__
assert not torch.startswith(sys.prefix), torch
assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
assert sys.dont_write_bytecode or not importlib.util.cache_from_source(torch).startswith(os.path.dirname(torch))
print(importlib.metadata.version("torch"))
"""


def test_each_wheel_is_tested_with_its_torch_and_recorded(factory):
    ended = run(factory, *script(factory, CHECK))
    assert (ended.returncode, ended.stdout) == (0, "3 passed, 1 not tested\n"), ended.stderr
    assert "kernel 1+cu130.torch2.11: torch 2.11, CUDA 13.0 (this machine has no GPU for CUDA 13.0)" in ended.stderr
    tests = recorded(factory)
    assert {cell: test["where"].rpartition(", ")[2] for cell, test in tests.items()} == {
        f"torch{torch.replace('.', '')}-cxx11-cpu-x86_64-linux": f"torch {version}+cpu"
        for torch, (version, _) in TORCHES.items()
    }
    logs = {path.read_text().strip() for path in (factory.folder / "test-results/logs").iterdir()}
    assert logs == {f"{version}+cpu" for version, _ in TORCHES.values()}
    told = factory.run_in_process("index", "record-tests", "index", "test-results/tests.json")
    assert (told.returncode, "3 tests recorded" in told.stderr) == (0, True), told.stderr
    # Nothing is tested twice, until the test changes.
    again = run(factory, *script(factory, CHECK))
    assert (again.stdout, again.stderr.count("an earlier run tested the same")) == ("3 passed, 1 not tested\n", 3)
    assert recorded(factory) == tests
    changed = run(factory, *script(factory, CHECK + "raise SystemExit(3)"))
    assert (changed.returncode, changed.stdout) == (1, "3 failed, 1 not tested\n")
    assert "attempt 1 of 1: exit code 3" in changed.stderr
    assert list((factory.cache / "work").iterdir()) == []


def test_options_limit_the_matrix_and_shards_share_it(factory):
    command = script(factory, CHECK)
    one = run(factory, "--torch", "2.11", "--cuda", "cpu", *command)
    assert one.stdout == "1 passed\n"
    ran = [run(factory, "--shard", f"{shard}/2", "--out", f"part{shard}", *command) for shard in (1, 2)]
    assert sorted(answer.stdout for answer in ran) == ["1 passed, 1 not tested\n", "2 passed\n"]
    files = [f"part{shard}/tests.json" for shard in (1, 2)]
    told = factory.run_in_process("index", "record-tests", "index", *files)
    assert (told.returncode, "3 tests recorded" in told.stderr) == (0, True), told.stderr
    none = run(factory, "--torch", "2.13", "--shard", "2/2", *command)
    assert (none.returncode, "shard 2/2 has none of the 1 test" in none.stderr) == (0, True), none.stderr


def test_source_beside_the_test_is_never_imported(factory):
    """pytest adds the folder of a conftest.py to the path, before the wheel."""
    for name in ("kernel/__init__.py", "kernel/sub.py"):
        (factory.folder / name).parent.mkdir(exist_ok=True)
        (factory.folder / name).write_text("raise AssertionError('this is the source')\n")
    ended = run(factory, "--torch", "2.13", *script(factory, "import sys\nsys.path.insert(0, '.')\n" + CHECK))
    assert (ended.returncode, ended.stdout) == (0, "1 passed\n"), ended.stderr


CHANGES = {
    "beside": ("helper.py", True),
    "above": ("../conftest.py", True),
    "below": ("data/numbers.txt", True),
    "elsewhere": ("../other/code.py", False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_files_near_the_named_one_decide_whether_it_runs_again(tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    for name in ("tests/data/numbers.txt", "tests/helper.py", "tests/test_it.py", "conftest.py", "other/code.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    paths = [Path("pytest"), Path("tests/test_it.py")]
    before = digest_files(paths)
    name, counts = CHANGES[change]
    (tmp_path / "tests" / name).write_text("2")
    assert (before is not None, digest_files(paths) != before) == (True, counts)
    assert digest_files([Path("pytest")]) is None


FAULTS = {
    "fails once": (
        "import pathlib, sys\nonce = pathlib.Path('once'); first = not once.exists(); once.touch(); sys.exit(first)",
        ("--attempts", "2"),
        (0, "1 flaky\n", "attempt 1 of 2: exit code 1"),
    ),
    "segfault": (
        "import ctypes; ctypes.string_at(0)",
        (),
        (1, "1 failed\n", "attempt 1 of 1: killed by SIGSEGV"),
    ),
    "hang": (
        "import time; time.sleep(600)",
        ("--timeout", "2s"),
        (1, "1 failed\n", "attempt 1 of 1: it exceeded the time limit"),
    ),
    "killed": (
        "import os; os.kill(os.getpid(), 9)",
        (),
        (4, "1 not tested\n", "python was stopped: killed by SIGKILL"),
    ),
    "no torch": (
        "import pathlib, torch; pathlib.Path(torch.__file__).write_text('1 / 0'); raise SystemExit(1)",
        (),
        (4, "1 not tested\n", "'import torch' fails in the test environment: ZeroDivisionError"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_its_outcome(factory, fault):
    text, options, (code, stdout, message) = FAULTS[fault]
    ended = run(factory, "--torch", "2.13", *options, *script(factory, text))
    assert (ended.returncode, ended.stdout) == (code, stdout), ended.stderr
    assert message in ended.stderr + "".join(
        path.read_text() for path in (factory.folder / "test-results/logs").iterdir()
    )
    assert len(recorded(factory)) == (code != ExitCode.ENVIRONMENT)


def test_a_wheel_of_another_build_is_not_tested(factory):
    (wheel,) = (factory.folder / "index/files").rglob("kernel-1+cpu.torch2.13-*.whl")
    other = make_wheel(factory.folder / "other", "kernel", "1+cpu.torch2.13", requires=("torch==2.12.*",), tag=NATIVE)
    shutil.copyfile(other, wheel)
    ended = run(factory, "--torch", "2.13", *script(factory, CHECK))
    assert (ended.returncode, ended.stdout) == (4, "1 not tested\n"), ended.stderr
    assert f"{wheel.name} cannot be installed: " in ended.stderr
    assert "Hash mismatch" in ended.stderr
    told = factory.run_in_process("index", "record-tests", "index", "test-results/tests.json")
    assert (told.returncode, "0 tests recorded" in told.stderr) == (0, True), told.stderr


@pytest.fixture
def installed(factory):
    """An environment with torch 2.11, a stranger's kernel and a program that imports it."""
    folder = factory.folder / "existing"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    wheels = [next((factory.folder / "pytorch/made").glob("torch-2.11.0+cpu-*"))]
    wheels.append(make_wheel(factory.folder / "other", "kernel", "7", files={"kernel/__init__.py": b"1 / 0\n"}))
    check = {
        "checker.py": b"def main():\n    import kernel\n",
        "checker-1.dist-info/entry_points.txt": b"[console_scripts]\ncheck-kernel = checker:main\n",
    }
    wheels.append(make_wheel(factory.folder / "other", "checker", "1", files=check))
    argv = (folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", *wheels)
    subprocess.run(argv, check=True)
    return folder


def test_an_existing_torch_is_used_for_the_wheels_that_it_suits(factory, installed):
    ended = run(factory, "--over", str(installed), *script(factory, CHECK), python=None)
    assert (ended.returncode, ended.stdout) == (0, "1 passed, 3 not tested\n"), ended.stderr
    assert "has torch 2.11.0+cpu, not 2.13)" in ended.stderr
    # The stranger's kernel there did not change.
    assert (installed / f"lib/python{HERE}/site-packages/kernel/__init__.py").read_text() == "1 / 0\n"
    none = run(factory, "--over", str(installed), "--torch", "2.13", *script(factory, CHECK), python=None)
    assert (none.returncode, none.stdout) == (ExitCode.NOTHING_SELECTED, "1 not tested\n")


@pytest.mark.parametrize("options", [("--over", "existing"), ("--with", "checker")])
def test_a_program_of_a_package_runs_with_the_wheel(options, factory, installed, monkeypatch):
    # As if the existing environment were activated: its program would import the stranger's kernel.
    monkeypatch.setenv("PATH", f"{installed}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("PIP_FIND_LINKS", str(factory.folder / "other"))
    python = None if options[0] == "--over" else sys.executable
    ended = run(factory, "--torch", "2.11", "--cuda", "cpu", *options, "--", "check-kernel", python=python)
    assert (ended.returncode, ended.stdout) == (0, "1 passed\n"), ended.stderr


def test_an_index_that_does_not_answer_is_an_error(factory, monkeypatch):
    monkeypatch.setenv("WHEELSMITH_TORCH_INDEX", "http://127.0.0.1:9/")
    ended = run(factory, "--torch", "2.13", *script(factory, CHECK))
    assert (ended.returncode, ended.stdout) == (4, "1 not tested\n")
    assert "http://127.0.0.1:9/cpu/" in ended.stderr


def test_a_cancelled_run_leaves_nothing(factory):
    began = factory.folder / "began"
    script(factory, f"import pathlib, time; pathlib.Path({str(began)!r}).touch(); time.sleep(600)")
    command = ("--", "python", str(factory.folder / "check.py"))
    argv = [sys.executable, "-m", "wheelsmith", "test-matrix", "kernel", "--index", "index", "--python", sys.executable]
    environment = {**factory.environment(), "WHEELSMITH_TORCH_INDEX": os.environ["WHEELSMITH_TORCH_INDEX"]}
    running = subprocess.Popen([*argv, *command], cwd=factory.folder, env=environment, stderr=subprocess.PIPE)
    while not began.exists():
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    _, stderr = running.communicate(timeout=60)
    assert (running.returncode, b"Traceback" in stderr) == (ExitCode.INTERRUPTED, False), stderr
    assert list((factory.cache / "work").iterdir()) == []
    assert subprocess.run(["pgrep", "-f", str(factory.folder / "check.py")], capture_output=True).stdout == b""


MISTAKES = {
    "no such shard": (("--shard", "3/2", "--", "true"), 2, "'3/2' is not K/N with K from 1 to N"),
    "no such torch": (("--torch", "2.8", "--", "true"), 3, "it has wheels for 2.9, 2.11, 2.13 and cpu, cu130"),
    "two pythons": (("--over", "x", "--with", "pytest", "--", "true"), 2, "cannot be used with --over"),
    "no such Python": (("--over", "no-such-python", "--", "true"), 4, "is not an executable Python"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused(factory, mistake):
    argv, code, message = MISTAKES[mistake]
    ended = run(factory, *argv, python=None)
    assert (ended.returncode, message in ended.stderr) == (code, True), ended.stderr
