"""The commands that publish and that change an index, on a folder."""

import json
import os
import re
import time

import pytest
from wheels import make_wheel

from wheelsmith.index.publish.verify import verify
from wheelsmith.index.storage.folder import Folder

pytestmark = pytest.mark.usefixtures("in_process_worker")


@pytest.fixture
def built(tmp_path, run):
    """An index as a run leaves it, of four wheels."""
    wheels = [
        make_wheel(tmp_path / "made", "kernel", f"1+{compute}.torch{torch}", requires=(f"torch=={torch}.*",))
        for torch in ("2.10", "2.11")
        for compute in ("cpu", "cu130")
    ]
    assert run("index", "add", tmp_path / "built", *wheels).code == 0
    return tmp_path / "built"


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_publishing_sends_everything_once(tmp_path, built, run):
    target = tmp_path / "target"
    foreseen = run("publish", target, "--from", built, "--dry-run")
    assert not (target / "simple").exists()
    first = run("publish", target, "--from", built)
    assert first.code == 0
    assert "4 wheels published, 0 already there" in first.err
    written = {str(path.relative_to(target)) for path in files(target) if path.name != ".lock"}
    assert {line.split()[-1] for line in foreseen.out.splitlines()} == written
    assert all(line.startswith("write") for line in foreseen.out.splitlines())
    before = files(target)
    second = run("publish", target, "--from", built, "--json")
    answer = json.loads(second.out)
    assert (answer["new"], len(answer["known"]), answer["writes"]) == ([], 4, [])
    assert run("publish", target, "--from", built, "--dry-run").out == ""
    assert files(target) == before
    assert verify(Folder(target)) == ()


def test_other_bytes_are_refused_and_nothing_is_written(tmp_path, built, run):
    assert run("publish", tmp_path / "target", "--from", built).code == 0
    good = make_wheel(tmp_path / "b", "aaa", "1")
    bad = make_wheel(tmp_path / "b", "kernel", "1+cpu.torch2.10", files={"x.py": b"other"})
    before = files(tmp_path / "target")
    answer = run("index", "add", tmp_path / "target", good, bad)
    assert answer.code == 4
    assert "a published file never changes" in answer.err
    assert files(tmp_path / "target") == before


def test_yank_unyank_and_status(built, run):
    def page():
        return (built / "cpu" / "kernel" / "index.html").read_text()

    before = page()
    assert "data-yanked" not in before
    shown = run("index", "yank", built, "kernel", "1+cpu.torch2.10", "--reason", "wrong", "--dry-run")
    assert "cpu/kernel/index.html" in shown.out
    assert page() == before
    assert run("index", "yank", built, "Kernel", "1+cpu.torch2.10", "--reason", "wrong").code == 0
    assert page().count('data-yanked="wrong"') == 1
    assert run("index", "unyank", built, "kernel", "1").code == 0
    assert page() == before
    assert run("index", "status", built, "kernel").out == "active\n"
    assert run("index", "status", built, "kernel", "deprecated", "--reason", "see k2").code == 0
    assert run("index", "status", built, "kernel").out == "deprecated: see k2\n"
    assert verify(Folder(built)) == ()


@pytest.mark.parametrize(
    "argv",
    [
        ("yank", "INDEX", "nothing", "1"),
        ("yank", "INDEX", "kernel", "7"),
        ("status", "INDEX", "../x"),
        ("status", "INDEX", "nothing", "active"),
    ],
)
def test_what_is_not_there_is_one_clear_error(argv, built, run):
    before = files(built)
    answer = run("index", *(str(built) if part == "INDEX" else part for part in argv))
    assert answer.code == 4
    assert re.match(r"error: .+\n(  help: .+\n)?$", answer.err)
    assert files(built) == before


def test_collecting_takes_what_nothing_refers_to_and_what_was_half_written(built, run):
    before = files(built)
    left = [
        built / "files" / "ab" / ("ab" * 32) / "k-1-py3-none-any.whl",
        built / "files" / "ab" / ("ab" * 32) / "k-1-py3-none-any.whl.metadata",
        built / "cpu" / "kernel" / ".index.html.ab12cd_3",
        built / "_state" / ".kernel.json.zz12cd_4",
    ]
    own = built / ".nojekyll"
    for path in (*left, own):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert run("index", "gc", built).out == ""
    for path in (*left, own):
        os.utime(path, (time.time() - 8 * 86400,) * 2)
    shown = run("index", "gc", built, "--dry-run")
    assert sorted(shown.out.split()) == sorted(str(path.relative_to(built)) for path in left)
    assert run("index", "gc", built).out == shown.out
    own.unlink()
    assert files(built) == before
    assert not left[0].parent.exists()


def test_nothing_to_publish_is_said(tmp_path, run):
    answer = run("publish", tmp_path / "target", "--from", tmp_path / "none")
    assert answer.code == 4
    assert "contains no index and no wheel" in answer.err


@pytest.mark.parametrize(
    "target",
    [
        "ftp://x/y",
        "s3:/bucket/whl",
        "S3:bucket",
        "hf:/acme/relu",
        "file:/srv/whl",
        "s3://a b/c",
        "s3://b/c?x",
        "hf://a",
    ],
)
def test_an_address_that_is_none_is_a_wrong_command_line(target, tmp_path, built, run, monkeypatch):
    """A slash too few made a folder of that name, and a success."""
    monkeypatch.chdir(tmp_path)
    before = files(tmp_path)
    answer = run("publish", target, "--from", built)
    assert answer.code == 2
    assert re.match(r"error: .+\n  help: .+\n$", answer.err)
    assert files(tmp_path) == before


def test_a_folder_may_have_the_name_of_an_address(tmp_path, built, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("publish", "./s3:/bucket", "--from", built).code == 0
    assert (tmp_path / "s3:" / "bucket" / "simple").is_dir()


def test_a_file_that_is_no_wheel_is_said(tmp_path, run):
    bad = tmp_path / "k-1-py3-none-any.whl"
    bad.write_text("x")
    answer = run("index", "add", tmp_path / "index", bad)
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert not (tmp_path / "index").exists()
