"""A partial run keeps the other wheels. Those of an older source are marked, and no command takes them."""

import json
import subprocess
from pathlib import Path

import pytest
import wants
from command_line import run_command
from kernels import matrix, stable_kernel, tiny_kernel
from quick_builds import QuickBuilds, use_quick_builds

from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder

pytestmark = pytest.mark.usefixtures("in_process_worker")

NEW = "tiny-1+cpu.torch2.13-cp39-abi3-manylinux_2_28_x86_64.whl"
ONLY = ("--only", "torch213-*-cpu-*")
KEPT = "kept 5 wheels of an older source: rebuild them or pass --prune\n"
LEFT_OUT = "5 wheels of an older source left out"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    use_quick_builds(monkeypatch)
    return lambda *argv: run_command(monkeypatch, capsys, *argv)


@pytest.fixture
def build(run, tmp_path):
    """A kernel of six combinations, and a command that builds them."""
    tiny_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.11, 2.12, 2.13", cuda="cpu, 13.0")

    def build(*argv, code=0):
        answer = run("build-matrix", "--engine", "local", "--progress", "plain", *argv)
        assert answer.code == code, answer.err
        assert verify(Folder(Path("dist/index"))) == ()
        return answer.err

    return build


@pytest.fixture
def partly(build):
    """All six built, a changed line, and one of them built again."""
    build()
    edit(1)
    return build(*ONLY)


def edit(number):
    Path("k/tiny.cpp").write_text(f"int tiny_answer() {{ return {number}; }}\n")


def older():
    return sorted(entry.filename for entry in Index(Folder(Path("dist/index"))).entries("tiny") if entry.older)


def wheels():
    return sorted(path.name for path in Path("dist/wheels").glob("*.whl"))


def results():
    return json.loads(Path("dist/results.json").read_text())


def test_a_part_of_a_matrix_keeps_the_other_wheels_and_marks_them(partly, run):
    assert KEPT in partly
    assert len(wheels()) == 6
    assert older() == [name for name in wheels() if name != NEW]
    assert list(results()["cells"]) == ["torch213-cxx11-cpu-x86_64-linux"]
    assert results()["older_wheels"] == older()
    assert KEPT in Path("dist/summary.md").read_text()
    assert "kept 5 wheels of an older source" in Path("dist/report.html").read_text()
    page = json.loads(Path("dist/index/simple/tiny/index.json").read_text())
    assert [file["filename"] for file in page["files"] if file["_wheelsmith"].get("older")] == older()
    catalogue = json.loads(Path("dist/index/projects/tiny/catalogue.json").read_text())
    assert sorted(wheel["filename"] for wheel in catalogue["wheels"] if wheel.get("older")) == older()
    assert len(catalogue["versions"][0]["missing"]) == 5
    assert Path("dist/index/projects/tiny/index.html").read_text().count(">older source</span>") == 5
    asked = ("--torch", "2.12", "--cuda", "cpu", "--python-version", "3.12", "--arch", "x86_64", "--glibc", "2.39")
    picked = run("pick", "tiny", "--index", "dist/index", *asked)
    assert "older source" in picked.out + picked.err


def test_the_same_part_again_says_the_same(partly, build):
    assert KEPT in build(*ONLY)


def test_wheels_that_are_built_again_are_no_longer_older(partly, build):
    assert "kept" not in build()
    assert older() == []
    assert len(wheels()) == 6
    assert "older" not in Path("dist/index/_state/tiny.json").read_text()


def test_the_older_source_may_come_back(partly, build):
    tiny_kernel(Path("k"))
    assert "kept 1 wheel of an older source: rebuild it or pass --prune\n" in build("--only", "torch211-*-cpu-*")
    assert older() == [NEW]


def test_prune_removes_them(partly, build):
    assert "kept" not in build(*ONLY, "--prune")
    assert wheels() == [NEW]
    assert len(list(Path("dist/index").rglob("*.whl"))) == 1


def test_a_cancelled_run_keeps_what_it_did_not_reach(build, monkeypatch):
    build()
    edit(1)
    monkeypatch.setattr(QuickBuilds, "most", 2)
    assert "kept 4 wheels of an older source" in build(code=130)
    assert len(wheels()) == 6


def test_a_wheel_of_another_plan_is_older_too(build, monkeypatch, tmp_path):
    build()
    matrix(tmp_path, "k", torch="2.11, 2.12, 2.13", cuda="cpu, 13.0", more='manylinux: "2_34"\n')
    monkeypatch.setattr(QuickBuilds, "most", 1)
    build(code=130)
    assert len(older()) == 5


def test_what_the_matrix_has_no_more_goes(partly, build, tmp_path):
    matrix(tmp_path, "k", torch="2.12, 2.13", cuda="cpu")
    assert "kept 1 wheel of an older source" in build(*ONLY)
    assert len(wheels()) == 2


def test_they_are_published_only_by_name(partly, run):
    answer = run("publish", "target", "--from", "dist", "--json")
    assert json.loads(answer.out)["older_wheels"] == older()
    answer = run("publish", "target")
    assert answer.code == 0
    assert f"0 wheels published, 1 already there, {LEFT_OUT} (build again, or use index add): " in answer.err
    assert [entry.filename for entry in Index(Folder(Path("target"))).entries("tiny")] == [NEW]
    assert run("index", "add", "target", f"dist/wheels/{older()[0]}").code == 0
    assert len(Index(Folder(Path("target"))).entries("tiny")) == 2


def test_they_are_not_signed(partly, run):
    wants.program("openssl")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", "a.key"], check=True, capture_output=True)
    answer = run("sign", "--key", "a.key")
    assert answer.err == f"{LEFT_OUT}: build again\n1 wheel signed, 0 already signed\n"
    assert [path.name for path in Path("dist/wheels").glob("*.json")] == [f"{NEW}.sigstore.json"]


def test_they_are_not_part_of_a_release(partly, run):
    step = ("release", "target", "--engine", "local", "--step", "publish")
    answer = run(*step)
    assert "tiny 1 is not complete: torch211-cxx11-cpu-x86_64-linux, " in answer.err
    answer = run(*step, "--incomplete")
    assert f"publish: 1 wheel published, 0 already there, {LEFT_OUT}" in answer.err


def test_they_are_not_promoted(partly, run):
    Path("all").mkdir()
    Path("dist/index").rename("all/test")
    answer = run("promote", "all", "tiny", "1", "--from", "test", "--to", "stable", "--incomplete")
    assert answer.code == 1
    assert f"of an older source: {older_of('all/test')[0]}" in answer.err


def older_of(index):
    return sorted(entry.filename for entry in Index(Folder(Path(index))).entries("tiny") if entry.older)


# --- wheels of one name -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["plan", "build-matrix"])
def test_two_plans_of_one_name_are_refused_before_anything_is_built(verb, run, tmp_path):
    stable_kernel(tmp_path / "k")
    rule = "rules:\n  - set: {gpu-archs: [9.0]}\n    where: {torch: 2.13}\n"
    matrix(tmp_path, "k", torch="2.12, 2.13", cuda="13.0", more=rule)
    answer = run(verb, "--engine", "local")
    assert answer.code == 2
    assert "would have different wheels of one name, affine-1+cu130.torchstable-cp39-abi3" in answer.err
    assert "help: give both the same settings in matrix.yaml, or exclude one of them" in answer.err
    assert not Path("dist/index").exists()


def test_the_second_wheel_of_one_name_is_a_failure(build, run, monkeypatch):
    """As of a project for several Pythons whose wheels all become cp310-abi3."""
    build()
    edit(1)
    monkeypatch.setattr(QuickBuilds, "version_of", staticmethod(lambda plan: "1+cpu.torch2.11"))
    said = build("--only", "*-cpu-*", code=1)
    assert "1 built · 2 failed in " in said
    assert "its wheel has the name of the wheel of torch211-cxx11-cpu-x86_64-linux, tiny-1+cpu.torch2.11-" in said
    assert "kept 3 wheels of an older source" in said
    answer = run("publish", "target")
    assert (answer.code, "1 wheel published, 0 already there" in answer.err) == (0, True)


def test_an_index_that_was_not_written_is_not_offered_or_published(build, run):
    build()
    assert run("publish", "target").code == 0
    assert run("index", "status", "dist/index", "tiny", "archived").code == 0
    edit(1)
    answer = run("build-matrix", "--engine", "local", "--progress", "plain")
    assert (answer.code, "tiny is archived" in answer.err) == (4, True)
    assert "try it" not in answer.err
    answer = run("publish", "target")
    assert answer.code == 4
    assert f"dist/index is older than the last run: it lacks {wheels()[0]}\n" in answer.err
    assert "help: build again: wheelsmith build-matrix" in answer.err
    assert run("index", "status", "dist/index", "tiny", "active").code == 0
    build()
    assert "in the index with other bytes" in run("publish", "target").err
