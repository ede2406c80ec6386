"""A wheel in the store is asked again by every check that it has not passed, once, and is never built again for it."""

import json
import shutil
import subprocess
import sys

import pytest
from command_line import run_command
from factory import Factory
from kernels import matrix, pure_kernel

from wheelsmith.store import Store
from wheelsmith.wheel import wheel_file
from wheelsmith.wheel.archive import open_wheel
from wheelsmith.wheel.checker_version import checker_digest, checker_files
from wheelsmith.wheel.repair import pack

pytestmark = pytest.mark.xdist_group("rechecked wheels")

BUILD = ("build-matrix", "--engine", "local", "--progress", "plain")
CELL = "torch212-cxx11-cpu-x86_64-linux"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A pure kernel, built for two cells."""
    folder = tmp_path_factory.mktemp("built")
    pure_kernel(folder / "k")
    matrix(folder, "k", torch="2.12, 2.13", cuda="cpu")
    answer = Factory(folder=folder, cache=folder / "cache").run_in_process(*BUILD)
    assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture
def run(monkeypatch, capsys, built, tmp_path):
    """Build it again, as often as asked."""
    shutil.copytree(built, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))

    def again():
        answer = run_command(monkeypatch, capsys, *BUILD)
        cells = json.loads((tmp_path / "dist" / "results.json").read_text())["cells"]
        return answer, cells[CELL]

    return again


def record(folder):
    (path,) = (folder / "cache" / "store" / "plans").glob("*.json")
    return path


def say_checked(folder, edition):
    """Write another edition of the check beside the stored wheel; None writes none, as it was before."""
    path = record(folder)
    said = json.loads(path.read_text())
    del said["checked"]
    path.write_text(json.dumps(said | ({} if edition is None else {"checked": edition})))


def put_a_lie(folder, checked):
    """Put a wheel that lies in the place of the stored one, as if a check had let it pass."""
    store, digest = Store(folder / "cache" / "store"), record(folder).stem
    stored = store.find(digest)
    contents = open_wheel(stored.path)
    contents.files["pure/evil.pth"] = contents.files["torch/__init__.py"] = b"import os\n"
    (folder / "lie").mkdir()
    lie = pack(contents, folder / "lie")
    store.put(digest, lie, wheel_file(lie), checked)


def test_a_built_wheel_says_which_check_it_passed(run, tmp_path):
    assert json.loads(record(tmp_path).read_text())["checked"] == checker_digest()
    (tmp_path / "dist" / "logs" / f"{CELL}.log").unlink()
    answer, _ = run()
    assert "2 cached in " in answer.err
    assert not (tmp_path / "dist" / "logs" / f"{CELL}.log").exists()


@pytest.mark.parametrize("edition", [None, "another"])
def test_another_check_asks_it_again_once(edition, run, tmp_path):
    made = record(tmp_path)
    before = json.loads(made.read_text())
    say_checked(tmp_path, edition)
    answer, cell = run()
    assert (answer.code, cell["status"]) == (0, "cached"), answer.err
    assert [timing["stage"] for timing in cell["timings"]] == ["check"]
    assert json.loads(made.read_text()) == before
    assert run()[1]["timings"] == []


def test_what_it_refuses_fails_its_cell_and_is_not_built_again(run, tmp_path):
    put_a_lie(tmp_path, "another")
    for _ in range(2):
        answer, cell = run()
        assert answer.code == 1
        assert (cell["status"], cell["failure"]["stage"]) == ("failed", "check")
        assert "it installs torch/" in cell["failure"]["message"]
        assert cell["wheel"] is None
        assert [timing["stage"] for timing in cell["timings"]] == ["check"]


def test_what_this_check_has_passed_is_not_asked_again(run, tmp_path):
    put_a_lie(tmp_path, checker_digest())
    answer, cell = run()
    assert (answer.code, cell["status"]) == (0, "cached")


def test_the_edition_is_of_all_that_the_check_is_made_of():
    """A module that decides what the check finds, and is left out, would let wheels keep an old verdict."""
    code = (
        "import sys, wheelsmith, wheelsmith.wheel.check\n"
        "for name, module in sorted(sys.modules.items()):\n"
        "    if name.partition('.')[0] == 'wheelsmith' and module.__file__: print(module.__file__)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    package = checker_files()[0].parents[1]
    imported = {path.removeprefix(f"{package}/") for path in answer.stdout.split()}
    digested = {str(path.relative_to(package)) for path in checker_files()}
    assert imported - digested == {"__init__.py"}
    assert {"wheel/symbols/manylinux.json", "base/projects.json", "wheel/symbols/torch-x86_64.bin"} <= digested
