"""wheelsmith test: the wheel for this machine, installed afresh by pip from an index, and a command beside it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import wants
from factory import Factory
from kernels import matrix, pure_kernel
from loopback import serving
from machines import machine
from once import made_once, run_folder
from outside import outside
from sampled import sampled
from shop import NOW, make_torches
from wheels import make_wheel, offer, tell_results
from wrong_server import instead, on_files, spoiled

from wheelsmith.base.errors import ExitCode
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell
from wheelsmith.platforms import Gpu
from wheelsmith.run.testing import install_check
from wheelsmith.run.testing.command import activated_variables, machine_label

pytestmark = pytest.mark.xdist_group("wheel tests")

CELL = "torch213-cxx11-cpu-x86_64-linux"
WHEEL = "pure-1-py3-none-any.whl"
USE = (
    "import importlib.util, pure, sys; there = importlib.util.find_spec('torch').origin; "
    "sys.exit(not (pure.VALUE == 1 and there.startswith(sys.prefix) and pure.__file__.startswith(sys.prefix)))"
)
slow = pytest.mark.release("each makes an environment, and pip installs into it")


def _build(folder):
    factory = Factory.at(folder)
    pure_kernel(folder / "k")
    matrix(folder, "k", torch="2.13", cuda="cpu, 13.0")
    answer = factory.run("build-matrix", "--engine", "local", "--progress", "quiet")
    assert answer.returncode == 0, answer.stderr
    make_torches(folder / "pytorch")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return made_once(run_folder(tmp_path_factory) / "wheel-tests", _build)


@pytest.fixture
def factory(kept, tmp_path):
    """What a run left of a kernel with nothing compiled, published to a channel."""
    shutil.copytree(kept, tmp_path / "factory", symlinks=True)
    factory = Factory(folder=tmp_path / "factory", cache=tmp_path / "factory/cache")
    assert factory.run_in_process("publish", "index", "--channel", "test", "--from", "dist").returncode == 0
    return factory


@pytest.fixture
def world(factory, tmp_path, monkeypatch):
    """Where torch comes from, which is a stand-in here; nothing else is outside."""
    (tmp_path / "pypi").mkdir()
    roots = {"download.pytorch.org": factory.folder / "pytorch", "pypi.org": tmp_path / "pypi"}
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    with outside(roots, tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment


def try_it(factory, *argv, index="index/test", project="pure"):
    return factory.run_in_process("test", project, "--index", str(index), "--output", "said.json", *argv)


def said(factory):
    (test,) = json.loads((factory.folder / "said.json").read_text())["tests"]
    return test


def python(text):
    return ("--", "python", "-c", text)


@pytest.mark.usefixtures("world")
def test_what_was_published_is_tested_recorded_and_promoted(factory):
    (factory.folder / "pure.py").write_text("raise SystemExit('this is not the wheel')\n")
    with serving(factory.folder / "index/test") as url:
        answer = try_it(factory, "--of", "dist", *python(USE), index=url)
    assert (answer.returncode, answer.stdout) == (0, "passed\n"), answer.stderr
    assert f"{WHEEL}: for torch 2.13, CPU, x86_64" in answer.stderr
    assert "pip install pure==1 torch==2.13.0+cpu --index-url http://127.0.0.1:" in answer.stderr
    (wheel,) = (factory.folder / "dist/index/files").rglob("*.whl")
    test = said(factory)
    assert (test["wheel"], test["sha256"], test["outcome"], test["cell"]) == (WHEEL, wheel.parent.name, "passed", CELL)
    assert test["where"].startswith("no GPU, no NVIDIA driver, x86_64, glibc ")
    told = factory.run_in_process("index", "record-tests", "index/test", "said.json", "--of", "dist")
    assert (told.returncode, "1 test recorded" in told.stderr) == (0, True), told.stderr
    argv = ("promote", "index", "--of", "dist", "--from", "test", "--to", "stable", "--require", "passed")
    promoted = factory.run_in_process(*argv)
    assert (promoted.returncode, "1 wheel promoted" in promoted.stderr) == (0, True), promoted.stderr


@pytest.mark.usefixtures("world")
@pytest.mark.release("installs anew for each of its commands")
def test_a_test_that_fails_is_said_to_have_failed_and_nothing_is_promoted(factory):
    ended = try_it(factory, "--on", "a bench", "--attempts", "2", *python("print('##[error]'); raise SystemExit(3)"))
    assert (ended.returncode, ended.stdout) == (1, "failed\n"), ended.stderr
    assert "attempt 2 of 2: exit code 3" in ended.stderr
    # What it prints is nothing that a CI system would obey.
    assert "\\x23#[error]" in ended.stderr
    assert "##[error]" not in ended.stderr.replace("raise SystemExit", "")
    assert (said(factory)["outcome"], said(factory)["where"]) == ("failed", "a bench")
    assert factory.run_in_process("index", "record-tests", "index/test", "said.json").returncode == 0
    refused = factory.run_in_process("promote", "index", "--of", "dist", "--from", "test", "--to", "stable")
    assert (refused.returncode, "pure 1 was not promoted: failed: pure-1" in refused.stderr) == (1, True)


@slow
@pytest.mark.usefixtures("world")
def test_what_passes_after_it_failed_is_flaky(factory):
    once = "import pathlib; p = pathlib.Path('ran'); first = not p.exists(); p.touch(); raise SystemExit(first)"
    ended = try_it(factory, "--attempts", "3", *python(once))
    assert (ended.returncode, ended.stdout, said(factory)["outcome"]) == (0, "flaky\n", "flaky"), ended.stderr
    again = try_it(factory, "--attempts", "3", *python(once))
    assert (again.stdout, said(factory)["outcome"]) == ("passed\n", "passed")


@slow
@pytest.mark.usefixtures("world")
def test_the_environment_is_a_fresh_one_and_goes(factory, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(factory.folder))
    text = (
        "import json, os, sys; open('seen', 'w').write(json.dumps([sys.prefix, os.environ['VIRTUAL_ENV'], sys.path]))"
    )
    assert try_it(factory, *python(text)).returncode == 0
    prefix, told, path = json.loads((factory.folder / "seen").read_text())
    assert prefix == told != sys.prefix
    assert not {"", str(factory.folder)} & set(path)
    assert not Path(prefix).exists()


def test_of_the_variables_outside_only_those_are_seen_that_decide_no_test(monkeypatch, tmp_path):
    kept = {
        *("HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"),
        *("CUDA_VISIBLE_DEVICES", "XDG_CACHE_HOME", "PIP_INDEX_URL", "PIP_CONFIG_FILE"),
    }
    dropped = {
        *(
            "PYTHONOPTIMIZE",
            "PYTEST_ADDOPTS",
            "PYTHONPATH",
            "PYTEST_PLUGINS",
            "PYTHONHOME",
            "PYTHONSTARTUP",
            "LD_PRELOAD",
        ),
        *(
            "LD_LIBRARY_PATH",
            "PYTHONWARNINGS",
            "PYTHONBREAKPOINT",
            "PIP_TARGET",
            "TORCH_LIBRARY",
            "COVERAGE_PROCESS_START",
        ),
        *("xPATH", "HOME2", "PYTHON_GIL", "UNITTEST", "TOX_ENV", "BASH_ENV", "ENV", "CUDA_LAUNCH_BLOCKING", "GIT_DIR"),
    }
    for name in kept | dropped:
        monkeypatch.setenv(name, "x")
    seen = activated_variables(tmp_path)
    assert (kept - seen.keys(), dropped & seen.keys()) == (set(), set())
    assert seen["PATH"].startswith(f"{tmp_path}/bin:")


@slow
@pytest.mark.usefixtures("world")
def test_a_test_that_fails_does_so_whatever_is_set_outside(factory, monkeypatch):
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    assert try_it(factory, *python("raise SystemExit(__debug__)")).returncode == ExitCode.CELLS_FAILED


@slow
@pytest.mark.usefixtures("world")
def test_a_command_that_takes_too_long_or_prints_without_end_has_failed(factory):
    slow = try_it(factory, "--timeout", "5s", *python("import time; time.sleep(600)"))
    assert (slow.returncode, "attempt 1 of 1: it exceeded the time limit" in slow.stderr) == (1, True), slow.stderr
    loud = try_it(factory, *python("while True: print('x' * 4000)"))
    assert (loud.returncode, "attempt 1 of 1: it printed more than 16 MiB" in loud.stderr) == (1, True), loud.stderr[
        -500:
    ]
    assert len(loud.stderr) < 40 << 20


@slow
@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("algorithm", ["md5", "sha512"])
def test_a_page_with_another_hash_gives_no_other_wheel(factory, algorithm):
    other = make_wheel(factory.folder / "other", "pure", "1", files={"pure/__init__.py": b"VALUE = 2\n"})
    link = f"{other.as_uri()}#{algorithm}={hashlib.new(algorithm, other.read_bytes()).hexdigest()}"
    for root in ("simple", "cpu"):
        for page in (factory.folder / "index/test" / root / "pure").iterdir():
            page.unlink()
        (page.parent / "index.html").write_text(f'<!doctype html><a href="{link}">{other.name}</a>')
    ended = try_it(factory, *python("import pure, sys; sys.exit(pure.VALUE != 1)"))
    # pip is then given the wheel by its address and its sha256.
    assert (ended.returncode, said(factory)["outcome"]) == (0, "passed"), ended.stderr


@slow
@pytest.mark.usefixtures("world")
def test_a_test_that_is_cancelled_leaves_nothing(factory, tmp_path):
    began = factory.folder / "began"
    wait = f"import pathlib, time; pathlib.Path({str(began)!r}).touch(); time.sleep(600)"
    argv = [sys.executable, "-m", "wheelsmith", "test", "pure", "--index", "index/test", *python(wait)]
    place = tmp_path / "temporary"
    place.mkdir()
    environment = {**factory.environment(), "TMPDIR": str(place)}
    running = subprocess.Popen(argv, cwd=factory.folder, env=environment, stderr=subprocess.DEVNULL)
    while not began.exists():
        assert running.poll() is None
        time.sleep(0.05)
    running.terminate()
    assert running.wait() == ExitCode.INTERRUPTED
    assert list(place.iterdir()) == []
    assert subprocess.run(["pgrep", "-f", str(began)], capture_output=True).stdout == b""


FAULTS = {
    "the wheel's server": instead(503, lambda asked: asked.path.endswith(".whl")),
    "the pages' server": instead(503, lambda asked: asked.page and "pip/" in asked.headers.get("user-agent", "")),
    "half of the file": on_files(lambda answer: replace(answer, body=answer.body[: len(answer.body) // 2])),
    "no file": instead(404, lambda asked: asked.path.endswith(".whl")),
}


@slow
@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("fault", FAULTS)
def test_of_a_wheel_that_cannot_be_installed_nothing_is_said(factory, fault):
    with spoiled(factory.folder / "index/test", FAULTS[fault]) as url:
        ended = try_it(factory, *python("pass"), index=url)
    assert (ended.returncode, (factory.folder / "said.json").exists()) == (4, False), ended.stderr
    assert "no result is recorded" in ended.stderr


@slow
@pytest.mark.usefixtures("world")
def test_of_a_wheel_nothing_is_said_where_somebody_kills_pip_or_the_command(factory, monkeypatch):
    ended = try_it(factory, *python("import os; os.kill(os.getpid(), 9)"))
    assert (ended.returncode, (factory.folder / "said.json").exists()) == (4, False), ended.stderr
    for ending in ("kill -15 $$", "sh -c 'kill -9 $$'; exit $?"):
        ended = try_it(factory, "--", "sh", "-c", ending)
        assert (ended.returncode, (factory.folder / "said.json").exists()) == (4, False), ended.stderr
    crashed = try_it(factory, *python("import os; os.abort()"))
    assert (crashed.returncode, said(factory)["outcome"]) == (1, "failed"), crashed.stderr

    def kill_pip(self, line, report, pip=install_check.WheelTester._pip):
        return pip(self, ("sh", "-c", "kill -9 $$") if "install" in line else line, report)

    monkeypatch.setattr(install_check.WheelTester, "_pip", kill_pip)
    ended = try_it(factory, *python("pass"))
    assert (ended.returncode, (factory.folder / "said.json").exists()) == (4, False), ended.stderr


@slow
@pytest.mark.usefixtures("world")
def test_what_pip_is_told_elsewhere_changes_nothing(factory, monkeypatch, tmp_path):
    """But for a file of settings that has it install elsewhere: then there is nothing to test."""
    constraint, settings = tmp_path / "constraint.txt", tmp_path / "pip.conf"
    constraint.write_text("pure==0.9\n")
    for name, text in {
        "PIP_CONSTRAINT": str(constraint),
        "PIP_DRY_RUN": "1",
        "PIP_TARGET": str(tmp_path / "target"),
        "PIP_PYTHON": sys.executable,
        "PIP_NO_BINARY": ":all:",
    }.items():
        monkeypatch.setenv(name, text)
    ended = try_it(factory, *python(USE))
    assert (ended.returncode, said(factory)["outcome"]) == (0, "passed"), ended.stderr
    settings.write_text(f"[install]\ntarget = {tmp_path / 'target'}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    ended = try_it(factory, *python(USE))
    assert (ended.returncode, "pip did not install the wheel in its environment" in ended.stderr) == (4, True), (
        ended.stderr
    )


@slow
@pytest.mark.usefixtures("world")
def test_another_wheel_than_the_one_that_is_told_of_is_not_tested(factory):
    """As where a page is newer than the catalogue."""
    page = factory.folder / "index/test/simple/pure/index.html"
    root = factory.folder / "index/test/cpu/pure/index.html"
    other = make_wheel(factory.folder / "other", "pure", "1", files={"pure/__init__.py": b"VALUE = 2\n"})
    for each in (page, root):
        each.write_text(f'<!doctype html><a href="{other.as_uri()}">{other.name}</a>')
    ended = try_it(factory, *python("pass"))
    assert ended.returncode == 4
    assert f"pip installed {WHEEL} with another hash than on the index" in ended.stderr
    newer = make_wheel(factory.folder / "other", "pure", "1+cpu")
    for each in (page, root):
        each.write_text(f'<!doctype html><a href="{newer.as_uri()}">{newer.name}</a>')
    ended = try_it(factory, *python("pass"))
    assert (ended.returncode, "pip installed pure 1+cpu instead of 1" in ended.stderr) == (4, True), ended.stderr
    assert not (factory.folder / "said.json").exists()


def elsewhere(factory):
    path = make_wheel(factory.folder / "made", "pure", "1+cpu.torch2.13", tag="cp39-abi3-manylinux_2_17_aarch64")
    cell = Cell(release="2.13", toolkit=None, arch="aarch64")
    Index(Folder(factory.folder / "index/elsewhere")).add([offer(path, cell)], upload_time=NOW)
    return "--index", "index/elsewhere", *python("pass")


def too_new(factory):
    path = make_wheel(factory.folder / "made", "pure", "2")
    cell = Cell(release="2.13", toolkit=None, arch="x86_64")
    Index(Folder(factory.folder / "index/only-new")).add([offer(path, cell)], upload_time=NOW)
    return "--index", "index/only-new", "--of", "dist", *python("pass")


def other_project(factory):
    path = make_wheel(factory.folder / "made", "other", "1")
    Index(Folder(factory.folder / "apart/index")).add([offer(path)], upload_time=NOW)
    tell_results(factory.folder / "apart", "other", "1")
    return "--of", "apart", *python("pass")


MISTAKES = {
    "no wheel fits": (elsewhere, 3, "x86_64 is not served"),
    "not what was built": (too_new, 1, "the index lists no wheel from dist"),
    "another project": (other_project, 1, "apart has wheels of other"),
    "no such program": (lambda f: ("--", "no-such-program"), 4, "no-such-program cannot be run"),
    "no such Python": (lambda f: ("--python", "no-such-python", *python("pass")), 4, "is not an executable Python"),
    "two lines": (lambda f: ("--on", "two\nlines", *python("pass")), 1, "the description of the test is invalid"),
    "no address": (
        lambda f: ("--details", "javascript:1", *python("pass")),
        1,
        "the description of the test is invalid",
    ),
    "no command": (lambda f: (), 2, "Missing argument"),
    "nothing signed": (lambda f: ("--key", "release.pub", *python("pass")), 2, "release.pub"),
}


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("mistake", sampled(MISTAKES, "no wheel fits", "no such Python", "no command"))
def test_where_nothing_can_be_tested_nothing_is_said(factory, mistake):
    words, code, text = MISTAKES[mistake]
    (factory.folder / "said.json").write_text("of an earlier test")
    ended = try_it(factory, *words(factory))
    assert (ended.returncode, text in ended.stderr) == (code, True), ended.stderr
    # Of a command line that is none, nothing is done.
    assert (factory.folder / "said.json").exists() == (mistake == "no command")


@slow
@pytest.mark.usefixtures("world")
def test_only_what_is_signed_by_who_is_believed_is_tested(factory):
    wants.program("openssl")
    for name in ("release", "other"):
        key, public = factory.folder / f"{name}.key", factory.folder / f"{name}.pub"
        subprocess.run(("openssl", "genpkey", "-algorithm", "ed25519", "-out", key), check=True, capture_output=True)
        subprocess.run(("openssl", "pkey", "-in", key, "-pubout", "-out", public), check=True, capture_output=True)
    assert factory.run_in_process("sign", "dist", "--key", "release.key").returncode == 0
    assert factory.run_in_process("publish", "index", "--channel", "signed", "--from", "dist").returncode == 0
    for key, where, message in (
        ("other.pub", "index/signed", f"{WHEEL}: "),
        ("release.pub", "index/test", f"{WHEEL} is not signed"),
    ):
        refused = try_it(factory, "--key", key, *python("pass"), index=where)
        assert (refused.returncode, message in refused.stderr) == (1, True), refused.stderr
        assert not (factory.folder / "said.json").exists()
    answer = try_it(factory, "--key", "release.pub", *python(USE), index="index/signed")
    assert (answer.returncode, answer.stdout) == (0, "passed\n"), answer.stderr
    assert f"#sha256={said(factory)['sha256']}" in answer.stderr


@slow
@pytest.mark.usefixtures("world")
def test_a_run_of_a_ci_system_is_what_tells_more(factory, monkeypatch):
    for name, text in {
        "BUILDKITE": "true",
        "BUILDKITE_BUILD_URL": "https://buildkite.example.org/a/b/builds/7",
    }.items():
        monkeypatch.setenv(name, text)
    assert try_it(factory, *python("pass")).returncode == 0
    assert said(factory)["details"] == "https://buildkite.example.org/a/b/builds/7"
    monkeypatch.setenv("BUILDKITE_BUILD_URL", "https://user:word@buildkite.example.org/a b")
    assert try_it(factory, *python("pass")).returncode == 0
    assert said(factory)["details"] is None


def test_a_machine_is_described_by_what_is_seen():
    gpu = Gpu(name="NVIDIA H200\x1b[31m", capability="9.0")
    found = replace(machine(driver="13.0"), python_version="3.13.1", free_threaded=True, gpus=(gpu, gpu))
    text = "2 x NVIDIA H200 [31m (9.0), a driver for CUDA up to 13.0, x86_64, glibc 2.36, Python 3.13t"
    assert machine_label(found) == text
