"""The commands take and tell what people expect of a command line."""

import json
import platform
import re
from functools import partial

import pytest
from factory import Factory
from forge import BASES
from kernels import matrix, pure_kernel
from wheels import make_wheel

from wheelsmith import __version__
from wheelsmith.base.errors import MatrixError
from wheelsmith.model import ignore
from wheelsmith.run.prepare import Request
from wheelsmith.run.replan import plans_of_matrix


@pytest.mark.usefixtures("in_process_worker")
def test_check_takes_folders_of_wheels_and_indexes(run, tmp_path):
    made = [make_wheel(tmp_path / "wheels" / version, "pure", version) for version in ("1", "2")]
    (tmp_path / "wheels" / "torn-1-py3-none-any.whl").write_text("")
    loose = run("check", tmp_path / "wheels")
    assert [line for line in loose.out.splitlines() if line[0] != " "] == [
        "✓ pure-1-py3-none-any.whl",
        "✓ pure-2-py3-none-any.whl",
        "✗ torn-1-py3-none-any.whl",
    ]
    assert loose.code == 1
    assert run("index", "add", tmp_path / "index", made[0]).code == 0
    indexed = run("check", "--json", tmp_path / "index")
    assert (indexed.code, [each["wheel"] for each in json.loads(indexed.out)["wheels"]]) == (0, [made[0].name])
    (tmp_path / "none").mkdir()
    nothing = run("check", tmp_path / "none")
    assert (nothing.code, "contains no index and no wheel" in nothing.err) == (4, True)


@pytest.mark.usefixtures("in_process_worker")
def test_check_shows_what_it_does_not_judge(run, tmp_path):
    made = BASES["plain"]("x86_64")
    made.library.needed.insert(0, "libelsewhere.so")
    path = made.build_file(tmp_path)
    assert "wrong libraries: forged/_ops.abi3.so needs libelsewhere.so: not in" in run("check", path).out
    declared = run("check", "--declare", "libelse*", path)
    note = "  note  libraries: libelsewhere.so is declared, not judged"
    assert (declared.code, declared.out.splitlines()) == (0, [f"✓ {path.name}", note])


@pytest.fixture
def index(tmp_path, run):
    versions, requires = ("1+cpu", "1+cu130"), ("torch==2.11.*",)
    wheels = [make_wheel(tmp_path / "made", "kernel", version, requires=requires) for version in versions]
    assert run("index", "add", tmp_path / "index", *wheels).code == 0
    return tmp_path / "index"


@pytest.mark.usefixtures("in_process_worker")
def test_changes_of_an_index_are_told_and_can_be_undone(run, index):
    def state():
        return (index / "_state" / "kernel.json").read_text()

    def change(verb, *argv):
        foreseen = run("index", verb, index, "kernel", *argv, "--dry-run")
        done = run("index", verb, index, "kernel", *argv)
        assert (foreseen.code, done.code, done.out) == (0, 0, "")
        told, undo = done.err.splitlines()
        assert foreseen.err.splitlines() == [told.replace(" is ", " would be ").replace("wheels ", "wheels would be ")]
        return told, undo.removeprefix("  undo: ")

    before = state()
    told, undo = change("yank", "1", "--reason", "a b")
    assert (told, undo) == (f"2 wheels yanked: {index}", f"wheelsmith index unyank {index} kernel 1")
    told, again = change("unyank", "1")
    assert (told, again) == (f"2 wheels unyanked: {index}", f"wheelsmith index yank {index} kernel 1 --reason 'a b'")
    assert state() == before
    assert change("status", "archived")[0] == f"kernel is archived: {index}"
    assert change("status", "deprecated")[1] == f"wheelsmith index status {index} kernel archived"
    told, undo = change("test", "1", "passed", "--on", "H200")
    assert told == f"2 wheels recorded as passed on H200: {index}"
    assert "record another outcome with the same --on and --cell" in undo
    assert change("remove", "1") == (f"2 wheels removed: {index}", "publish the same files again")


@pytest.mark.usefixtures("in_process_worker")
def test_what_a_second_yank_changed_cannot_be_undone_by_unyank(run, index):
    assert run("index", "yank", index, "kernel", "1").code == 0
    again = run("index", "yank", index, "kernel", "1", "--reason", "worse")
    assert again.err == f"2 wheels yanked: {index}\n"
    assert run("index", "yank", index, "kernel", "1", "--reason", "worse").err == f"0 wheels yanked: {index}\n"


def test_init_says_when_it_uses_a_package_index(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "ninja").mkdir()
    empty = run("init", "ninja")
    assert empty.code == 4
    assert (
        "error: the kernel has no build.toml, pyproject.toml or setup.py\n  help: name a folder that has one"
        in empty.err
    )
    (tmp_path / "ninja").rmdir()
    monkeypatch.setattr("wheelsmith.source.sdist.newest_release", lambda name: ("1.2", "1.2"))
    monkeypatch.setattr("wheelsmith.run.init_matrix.first_matrix", lambda *_: ("kernel: {}", "ninja 1.2", 1))
    written = run("init", "ninja")
    assert (written.code, written.err.splitlines()[0]) == (
        0,
        "there is no folder ninja here: using ninja==1.2 from the package index",
    )
    named = run("init", "ninja==1.2", "--force")
    assert (named.code, "from the package index" in named.err) == (0, False)


@pytest.mark.parametrize("argv", [("plan",), ("build-matrix",), ("lock",), ("vendor",), ("shell", "x")])
def test_without_a_matrix_init_is_named(run, tmp_path, monkeypatch, argv):
    monkeypatch.chdir(tmp_path)
    answer = run(*argv)
    assert (answer.code, answer.err.splitlines()) == (
        2,
        [
            "error: there is no matrix.yaml",
            "  help: create it with wheelsmith init, or choose another file with --matrix",
        ],
    )


def test_a_rebuild_without_a_matrix_names_the_source(tmp_path):
    with pytest.raises(MatrixError) as caught:
        plans_of_matrix(Request(matrix=tmp_path / "matrix.yaml", cache=tmp_path), ignore)
    assert "name the source of the wheels with --source" in caught.value.remedy


def test_the_version_names_what_a_bug_report_needs(run):
    answer = run("--version")
    python, machine = re.escape(platform.python_version()), f"{platform.system()} {platform.machine()}"
    engines = r"no sandbox|(\w+ [\w.+~-]+, )*\w+ [\w.+~-]+"
    named = rf"wheelsmith {re.escape(__version__)} \(Python {python}, ({engines}), {machine}\)\n"
    assert (answer.code, bool(re.fullmatch(named, answer.out))) == (0, True), answer.out


def test_quiet_shows_only_warnings_of_a_good_run_and_verbose_its_commands(tmp_path):
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.12", cuda="cpu")
    build = partial(Factory.at(tmp_path).run_in_process, "build-matrix", "--engine", "local")
    quiet = build("-q")
    assert (quiet.returncode, quiet.stdout) == (0, "")
    assert [line.partition(":")[0] for line in quiet.stderr.splitlines()] == ["warning"]
    verbose = build("-v", "--force")
    assert verbose.returncode == 0, verbose.stderr
    assert "torch212-cxx11-cpu-x86_64-linux  $ python3 -m build --wheel" in verbose.stderr
    assert "1 built in" in verbose.stderr
    for argv in (("-q", "-v"), ("-q", "--progress", "plain"), ("-v", "--progress", "json")):
        refused = build(*argv)
        assert (refused.returncode, "cannot be used with" in refused.stderr) == (2, True)


def test_quiet_shows_warnings(tmp_path):
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.12", cuda="cpu", more="rules: [{where: {torch: 2.9}, set: {advertise: false}}]\n")
    plan = partial(Factory.at(tmp_path).run_in_process, "plan", "--engine", "local")
    assert plan("-q").stderr.startswith("warning: ")
    assert "torch212-cxx11-cpu-x86_64-linux" in plan("-q").stdout
