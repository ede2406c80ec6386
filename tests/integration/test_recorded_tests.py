"""What jobs say of wheels that they tested, taken by an index: all of it, or nothing."""

import json
import os
import shutil
from pathlib import Path

import pytest
from command_line import run_command
from wheels import make_wheel, offer, tell_results

from wheelsmith.index.entries.entry import PlannedVersion
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = pytest.mark.usefixtures("in_process_worker")

NOW = "2026-01-02T03:04:05Z"
CPU = Cell(release="2.9", toolkit=None, arch="x86_64")
CUDA = Cell(release="2.9", toolkit="13.0", arch="x86_64")
WHEELS = {CPU.id: "kernel-1+cpu.torch2.9-py3-none-any.whl", CUDA.id: "kernel-1+cu130.torch2.9-py3-none-any.whl"}


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A channel with a version of two wheels, and another project."""
    monkeypatch.chdir(tmp_path)
    offers = [
        offer(make_wheel(tmp_path / "made", "kernel", f"1+{each.compute}.torch2.9"), each) for each in (CPU, CUDA)
    ]
    plan = PlannedVersion(version="1", cells=tuple(sorted((CPU.id, CUDA.id))))
    other = offer(make_wheel(tmp_path / "made", "other", "1"))
    folder = Folder(tmp_path / "index" / "test")
    Index(folder).add([*offers, other], upload_time=NOW, planned={"kernel": (plan,)})
    # What a run left has the kernel alone.
    built = Folder(tmp_path / "dist" / "index")
    Index(built).add(offers, upload_time=NOW, planned={"kernel": (plan,)})
    tell_results(tmp_path / "dist", "kernel", "1")
    return folder


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*argv):
        answer = run_command(monkeypatch, capsys, *argv)
        assert "Traceback" not in answer.err
        return answer

    return run


def word(index, cell=CPU.id, outcome="passed", where="H200", project="kernel", **more):
    entries = Index(index).entries(project)
    (entry,) = (each for each in entries if cell is None or cell in {one.id for one in each.cells})
    said = {"wheel": entry.filename, "sha256": entry.sha256, "outcome": outcome, "where": where, "cell": cell}
    return said | {"details": None} | more


def write(name, *tests, **more):
    Path(name).write_text(json.dumps({"schema_version": 1, "tests": tests} | more))
    return name


def outcomes(index, project="kernel"):
    return {
        entry.filename: [(test.where, test.cell, test.outcome.value) for test in entry.tests]
        for entry in Index(index).entries(project)
        if entry.tests
    }


def test_words_of_several_machines_are_recorded_by_one_change(index, run):
    one = write("1.json", word(index), word(index, CUDA.id, "flaky"))
    two = write("2.json", word(index, where="L40S", details="https://ci.example.org/7"))
    before = run("index", "record-tests", "index/test", one, two, "--dry-run")
    assert (before.code, outcomes(index)) == (0, {})
    assert [line.split()[-1] for line in before.out.splitlines()].count("_state/kernel.json") == 1
    answer = run("index", "record-tests", "index/test", one, two, "--of", "dist")
    assert (answer.code, answer.out) == (0, ""), answer.err
    assert "3 tests recorded: index/test" in answer.err
    assert outcomes(index) == {
        WHEELS[CPU.id]: [("H200", CPU.id, "passed"), ("L40S", CPU.id, "passed")],
        WHEELS[CUDA.id]: [("H200", CUDA.id, "flaky")],
    }
    assert Index(index).entries("kernel")[0].tests[1].details == "https://ci.example.org/7"
    assert verify(index) == ()


@pytest.mark.parametrize("order", [("1.json", "2.json"), ("2.json", "1.json")])
def test_of_two_words_on_one_machine_and_cell_the_worse_counts(index, run, order):
    write("1.json", word(index))
    write("2.json", word(index, outcome="failed"))
    assert run("index", "record-tests", "index/test", *order).code == 0
    assert outcomes(index) == {WHEELS[CPU.id]: [("H200", CPU.id, "failed")]}
    # What is said later is the last word.
    assert run("index", "record-tests", "index/test", "1.json").code == 0
    assert outcomes(index) == {WHEELS[CPU.id]: [("H200", CPU.id, "passed")]}


BAD = {
    "no JSON": "{",
    "a list": "[]",
    "no number": '{"schema_version": NaN, "tests": []}',
    "no result": '{"schema_version": 1, "tests": [{"outcome": "not tested", "where": "x", "wheel": "y", "sha256": "1"}'
    "]}",
    "deep": "[" * 100_000,
    "not UTF-8": b"\xff",
    "too long": b" " * (1 << 20) + b"{}",
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_file_of_tests_is_refused(index, run, name):
    text = BAD[name]
    Path("bad.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    answer = run("index", "record-tests", "index/test", write("1.json", word(index)), "bad.json")
    assert (answer.code, outcomes(index)) == (1, {})
    assert "bad.json cannot be read" in answer.err
    assert len(answer.err) < 1000


def test_what_is_no_plain_file_is_not_waited_for(index, run):
    os.mkfifo("pipe.json")
    answer = run("index", "record-tests", "index/test", "pipe.json")
    assert (answer.code, outcomes(index)) == (1, {})
    assert "pipe.json is not a regular file" in answer.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": "0" * 64}, "which index/test does not list with that sha256"),
        ({"wheel": "kernel-2+cpu.torch2.9-py3-none-any.whl"}, "tests kernel-2+cpu.torch2.9-py3-none-any.whl, which"),
        ({"wheel": "../../etc/passwd"}, "is not the name of a wheel"),
        ({"wheel": "nobody-1-py3-none-any.whl"}, "has no project nobody"),
        ({"cell": CUDA.id}, "no wheel for the cell"),
        ({"cell": "<b>"}, "cannot be read"),
        ({"where": "two\nlines"}, "cannot be read"),
        ({"where": "\ud800"}, "cannot be read"),
        ({"details": "javascript:alert(1)"}, "cannot be read"),
        ({"outcome": "not tested"}, "without a result"),
        ({"outcome": "great"}, "cannot be read"),
        ({"more": 1}, "has no field more"),
        ({"sha256": 1}, "cannot be read"),
    ],
)
def test_one_word_that_does_not_hold_and_nothing_is_recorded(index, run, change, said):
    write("2.json", word(index) | change)
    answer = run("index", "record-tests", "index/test", write("1.json", word(index, CUDA.id)), "2.json")
    assert (answer.code != 0, outcomes(index)) == (True, {})
    assert said in answer.err


def test_another_version_of_the_file_is_refused(index, run):
    answer = run("index", "record-tests", "index/test", write("1.json", word(index), schema_version=2))
    assert (answer.code, "schema version is not 1" in answer.err) == (1, True)


@pytest.mark.parametrize("there", [False, "folder"])
def test_a_job_that_left_no_word_is_named(index, run, there):
    if there:
        Path("2.json").mkdir()
    answer = run("index", "record-tests", "index/test", write("1.json", word(index)), "2.json")
    assert (answer.code, outcomes(index)) == (1, {})
    assert "2.json cannot be read" in answer.err


def test_a_job_says_nothing_of_what_was_not_built_there(index, run):
    both = write("1.json", word(index), word(index, None, project="other"))
    answer = run("index", "record-tests", "index/test", both, "--of", "dist")
    assert (answer.code, outcomes(index), outcomes(index, "other")) == (1, {}, {})
    assert "1.json tests other-1-py3-none-any.whl, which is not one of the built wheels" in answer.err
    assert run("index", "record-tests", "index/test", both).code == 0
    assert outcomes(index, "other") != {}


def test_what_a_run_left_names_the_version_that_is_promoted(index, run):
    argv = ("promote", "index", "--of", "dist", "--from", "test", "--to", "stable", "--require", "tested")
    run("index", "record-tests", "index/test", write("1.json", word(index)))
    refused = run(*argv)
    assert (refused.code, f"kernel 1 was not promoted: not tested: {WHEELS[CUDA.id]}" in refused.err) == (1, True)
    run("index", "record-tests", "index/test", write("1.json", word(index, CUDA.id)))
    answer = run(*argv)
    assert (answer.code, "2 wheels promoted, 0 already there: index/stable" in answer.err) == (0, True), answer.err


def test_what_is_promoted_is_named_once(index, run):
    to = ("--from", "test", "--to", "stable")
    assert "cannot be used with" in run("promote", "index", "kernel", "1", "--of", "dist", *to).err
    assert "name the version to promote" in run("promote", "index", "kernel", *to).err
    shutil.rmtree("dist/index")
    assert "dist has no wheel of kernel" in run("promote", "index", "--of", "dist", *to).err
