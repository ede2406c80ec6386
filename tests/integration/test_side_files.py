"""What it takes to offer another kind of file beside wheels: the kind itself, and nothing else."""

import json
import os
import shutil

import pytest
from signatures import SIGNATURE
from wheels import make_wheel

from wheelsmith.index.entries.side_files import MAX_SIZE, side_files
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.storage.folder import Folder

pytestmark = pytest.mark.usefixtures("in_process_worker")

SIGNED = b"signed by somebody\n"


@pytest.fixture
def signatures(monkeypatch):
    """Signatures are known as long as the test runs."""
    monkeypatch.setitem(side_files(), SIGNATURE.suffix, SIGNATURE)


@pytest.fixture
def made(tmp_path):
    """A wheel, and its signature beside it."""
    wheel = make_wheel(tmp_path / "made", "kernel", "1+cpu.torch2.9", requires=("torch==2.9.*",))
    wheel.with_name(f"{wheel.name}.signature").write_bytes(SIGNED)
    return wheel


@pytest.fixture
def index(signatures, made, tmp_path, run):
    """An index of the wheel and its signature."""
    assert run("publish", tmp_path / "index", "--from", made.parent).code == 0
    return tmp_path / "index"


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def signature(index):
    (found,) = index.glob("files/*/*/*.signature")
    return found


def test_it_is_published_announced_and_published_on(index, made, tmp_path, run):
    for target in (index, tmp_path / "second"):
        if target != index:
            assert run("publish", target, "--from", index).code == 0
        page = target / "cpu" / "kernel"
        (file,) = json.loads((page / "index.json").read_bytes())["files"]
        assert (page / file["signature"].replace("%2B", "+")).read_bytes() == SIGNED
        assert f' data-signature="{file["signature"]}"' in (page / "index.html").read_text()
        assert verify(Folder(target)) == ()
    assert run("index", "add", tmp_path / "third", made).code == 0
    assert signature(tmp_path / "third").read_bytes() == SIGNED


def test_a_wheel_that_is_there_takes_it_later(signatures, made, tmp_path, run):
    alone = tmp_path / "alone" / made.name
    alone.parent.mkdir()
    shutil.copy(made, alone)
    assert run("index", "add", tmp_path / "index", alone).code == 0
    assert "signature" not in (tmp_path / "index" / "_state" / "kernel.json").read_text()
    assert run("index", "add", tmp_path / "index", made).code == 0
    assert signature(tmp_path / "index").read_bytes() == SIGNED
    whole = files(tmp_path / "index")
    assert run("index", "add", tmp_path / "index", alone).code == 0
    assert files(tmp_path / "index") == whole
    assert verify(Folder(tmp_path / "index")) == ()


def test_what_was_published_stays_and_what_nothing_announces_is_collected(index, made, run):
    before = files(index)
    made.with_name(f"{made.name}.signature").write_bytes(b"signed again")
    assert run("index", "add", index, made).code == 0
    for path in index.rglob("*.signature"):
        os.utime(path, (1, 1))
    assert run("index", "gc", index, "--grace", "1h").code == 0
    assert files(index) == before
    assert run("index", "remove", index, "kernel", "1").code == 0
    for path in (index / "files").rglob("*"):
        os.utime(path, (1, 1))
    assert run("index", "gc", index, "--grace", "1h").code == 0
    assert not any((index / "files").rglob("*.*"))


DAMAGES = {
    "gone": lambda path: path.unlink(),
    "another": lambda path: path.write_bytes(b"signed by nobody"),
    "with its wheel": lambda path: shutil.rmtree(path.parents[2]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_named_and_taken_from_copies(name, index, made, tmp_path, run):
    before = files(index)
    DAMAGES[name](signature(index))
    named, alone = run("index", "verify", index), run("index", "repair", index)
    assert (named.code, alone.code) == (1, 1)
    assert set(named.out.splitlines()) <= set(alone.err.splitlines())
    assert run("publish", tmp_path / "target", "--from", index).code == 4
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / f"{made.name}.signature").write_bytes(b"signed by nobody")
    damaged = files(index)
    assert run("index", "repair", index, "--from", tmp_path / "wrong").code == 1
    assert files(index) == damaged
    repaired = run("index", "repair", index, "--from", made.parent)
    assert repaired.code == 0
    assert set(repaired.out.splitlines()) == {key for key in before if damaged.get(key) != before[key]}
    assert files(index) == before


def test_what_nobody_has_is_given_up_by_the_command_that_is_named(index, made, tmp_path, run):
    signature(index).unlink()
    told = run("index", "verify", index)
    assert f"{made.name}.signature is listed but missing" in told.out
    command = told.err.partition("no copy: wheelsmith ")[2].partition(",")[0]
    assert run(*command.split()).code == 0
    made.with_name(f"{made.name}.signature").unlink()
    assert run("index", "add", index, made).code == 0
    assert verify(Folder(index)) == ()


FORGED = {
    "a hash that leads out": {".signature": "../../../../outside"},
    "no text": {".signature": 5},
    "an unknown kind": {"/../../../x": "ab" * 32},
    "METADATA": {".metadata": "ab" * 32},
    "a list": [],
}


def test_what_is_a_link_or_too_large_is_not_taken(signatures, made, tmp_path, run):
    beside = made.with_name(f"{made.name}.signature")
    os.truncate(beside, MAX_SIZE + 1)
    answer = run("index", "add", tmp_path / "index", made)
    assert (answer.code, "is larger than 16 MiB" in answer.err) == (4, True)
    beside.rename(tmp_path / "private")
    beside.symlink_to(tmp_path / "private")
    assert run("index", "add", tmp_path / "index", made).code == 0
    assert not any((tmp_path / "index").rglob("*.signature"))


def test_what_is_too_large_is_not_published_on(index, made, monkeypatch, tmp_path, run):
    monkeypatch.setattr("wheelsmith.index.publish.input_folders.MAX_SIZE", len(SIGNED) - 1)
    answer = run("publish", tmp_path / "target", "--from", index)
    assert (answer.code, f"{made.name}.metadata" in answer.err) == (4, True)
