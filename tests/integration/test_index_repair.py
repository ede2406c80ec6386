"""What ``index verify`` names, ``index repair`` fixes or leaves with the command that does; the two never disagree."""

import json
import os
import shutil
from dataclasses import replace

import pytest
from states import HIDDEN
from wheels import make_wheel, offer

from wheelsmith.base.json_dataclass import dumps_pretty
from wheelsmith.index.entries.entry import CellWithoutWheel, NoWheel
from wheelsmith.index.publish.verify import repair, verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = pytest.mark.usefixtures("in_process_worker")

NOW = "2026-01-02T03:04:05Z"
CELLS = tuple(Cell(release="2.9", toolkit=cuda, arch="x86_64") for cuda in (None, "13.0"))


def wheel(folder, name, cell):
    return offer(make_wheel(folder, name, f"1+{cell.compute}.torch{cell.release}"), cell)


@pytest.fixture
def index(tmp_path):
    """Two projects on two compute platforms; ``made`` has the wheels."""
    offers = [wheel(tmp_path / "made", name, cell) for name in ("kernel", "relu") for cell in CELLS]
    answer = CellWithoutWheel(
        cell=replace(CELLS[0], release="2.8"), version="1", status=NoWheel.FAILED, reason="it did"
    )
    Index(Folder(tmp_path / "index")).add(offers, upload_time=NOW, answers={"kernel": [answer]})
    return tmp_path / "index"


def content(folder):
    """Return what lies there, without the lock."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != ".lock"
    }


def write(key, data=b"x"):
    def damage(index):
        (index / key).parent.mkdir(parents=True, exist_ok=True)
        (index / key).write_bytes(data)

    return damage


def remove(key):
    return lambda index: shutil.rmtree(index / key) if (index / key).is_dir() else (index / key).unlink()


def first(pattern, then):
    return lambda index: then(min(index.glob(pattern)))


def rehashed(index):
    state = index / "_state" / "kernel.json"
    sha256 = Index(Folder(index)).entries("kernel")[0].metadata_sha256
    state.write_text(state.read_text().replace(sha256, "0" * 64))


def told(about):
    """Return a state what it tells people of its wheels, as an older wheelsmith or a stranger may have left it."""

    def damage(index):
        path = index / "_state" / "kernel.json"
        state = json.loads(path.read_bytes())
        for entry in state["entries"]:
            entry["about"] = about
            if about is None:
                del entry["about"]
        path.write_bytes(dumps_pretty({**state, "schema_version": 2 if about is None else 3}))

    return damage


# What is wrong, and whether it can be fixed without the wheels.
DAMAGES = {
    "a page is gone": (remove("cu130/kernel/index.html"), True),
    "a page is another": (write("projects/kernel/index.html"), True),
    "the lists are broken": (write("_state/.listing.json", b"{"), True),
    "a page of nobody": (write("simple/evil/index.html"), True),
    "a project's state is gone": (remove("_state/relu.json"), True),
    "a side-car is gone": (first("files/*/*/kernel*.metadata", lambda path: path.unlink()), True),
    "a side-car is another": (first("files/*/*/kernel*.metadata", lambda path: path.write_text("Name: x\n")), True),
    "a side-car's hash is another": (rehashed, True),
    "an older wheelsmith wrote the state": (told(None), True),
    "the state tells what METADATA does not": (told({"summary": "Free money", "license": None, "links": []}), True),
    "a wheel is gone": (first("files/*/*/kernel*.whl", lambda path: path.unlink()), False),
    "a wheel is another": (first("files/*/*/kernel*.whl", lambda path: path.write_bytes(b"x" * 9)), False),
    "a wheel of its size is another": (
        first("files/*/*/kernel*.whl", lambda path: path.write_bytes(b"x" * path.stat().st_size)),
        False,
    ),
    "all files are gone": (remove("files"), False),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_named_is_mended(name, index, tmp_path, run):
    damage, by_itself = DAMAGES[name]
    before = content(index)
    assert run("index", "verify", index).code == 0
    damage(index)
    named = run("index", "verify", index)
    assert named.code == 1
    assert named.err.count("  help: ") == len(named.out.splitlines())
    damaged = content(index)
    foreseen = run("index", "repair", index, "--dry-run")
    assert content(index) == damaged
    if not by_itself:
        alone = run("index", "repair", index)
        assert alone.code == 1
        left = run("index", "verify", index)
        # What is left is told in the same words, and with the command that fixes it.
        assert set(left.out.splitlines()) <= set(alone.err.splitlines())
        assert "index repair" in alone.err
        assert "--from FOLDER" in alone.err
    assert run("index", "repair", index, "--from", tmp_path / "made").code == 0
    assert foreseen.code == (0 if by_itself else 1)
    after = run("index", "verify", index)
    assert (after.code, after.out) == (0, "")
    assert run("index", "repair", index).out == ""
    if name != "a project's state is gone":
        assert content(index) == before


def test_what_is_an_owners_own_stays(index, run):
    own = {".nojekyll": b"", "CNAME": b"x", "README.md": b"x", "docs/index.html": b"x", "build/torch/x.py": b"x"}
    for key, data in own.items():
        write(key, data)(index)
    assert run("index", "verify", index).code == 0
    assert run("index", "repair", index).out == ""
    assert own.items() <= content(index).items()


def test_what_is_no_state_is_named_and_never_removed(index, run):
    write("_state/kernel.json.bak", b"x")(index)
    write("_state/Kernel.json", b"x")(index)
    named, repaired = run("index", "verify", index), run("index", "repair", index)
    assert (named.code, repaired.code) == (1, 1)
    assert named.out.splitlines() == [
        "_state/Kernel.json is not the state of a project",
        "_state/kernel.json.bak is not the state of a project",
    ]
    assert set(named.out.splitlines()) <= set(repaired.err.splitlines())
    assert (index / "_state" / "kernel.json.bak").read_bytes() == b"x"


def test_a_link_is_named_with_what_puts_it_there(index, run):
    (index / "simple").rename(index.parent / "elsewhere")
    (index / "simple").symlink_to(index.parent / "elsewhere")
    for command in ("verify", "repair"):
        answer = run("index", command, index)
        assert answer.code == 4
        assert f"{index / 'simple'} is a link, which an index must not contain" in answer.err


def test_wheels_of_other_bytes_fix_nothing(index, tmp_path):
    wheel = min((index / "files").rglob("kernel*.whl"))
    wheel.unlink()
    (tmp_path / "copies" / "deep").mkdir(parents=True)
    (tmp_path / "copies" / "deep" / wheel.name).write_bytes(b"x")
    storage = Folder(index)
    repaired = repair(storage, [tmp_path / "copies"])
    assert [trouble.message for trouble in repaired.left] == [f"{wheel.name} is listed but missing"]
    assert repaired.left == verify(storage)


@pytest.mark.parametrize("hidden", [CELLS[:1], CELLS], ids=["one", "all"])
def test_what_is_kept_back_later_leaves_every_page(hidden, tmp_path):
    """advertise: false reaches the pages and the catalogue of a root that nobody is to find it in any more."""
    storage = Folder(tmp_path / "index")
    made = [make_wheel(tmp_path / "made", "kernel", f"1+{cell.compute}.torch2.9") for cell in CELLS]
    Index(storage).add([offer(path, cell) for path, cell in zip(made, CELLS, strict=True)], upload_time=NOW)
    kept = [replace(cell, settings=HIDDEN) if cell in hidden else cell for cell in CELLS]
    Index(storage).add([offer(path, cell) for path, cell in zip(made, kept, strict=True)], upload_time=NOW)
    for root in ("cpu", "cu130"):
        there = any(cell.compute == root for cell in set(CELLS) - set(hidden))
        for key in (f"{root}/kernel/index.html", f"{root}/kernel/index.json", f"{root}/index.html"):
            assert (tmp_path / "index" / key).exists() is there
    named = [p for p in (tmp_path / "index").rglob("*") if p.suffix in {".html", ".json"} and "1+cpu" in p.read_text()]
    assert [path.name for path in named] == ["kernel.json"]
    assert (tmp_path / "index" / "projects" / "kernel").exists() is (len(hidden) == 1)
    assert (tmp_path / "index" / "simple" / "kernel").exists() is (len(hidden) == 1)
    assert verify(storage) == ()


def test_a_state_that_is_removed_takes_its_pages_with_it(index, run):
    (index / "_state" / "relu.json").unlink()
    assert run("index", "repair", index).code == 0
    assert not [path for path in content(index) if "relu" in path and not path.startswith("files/")]
    assert b"relu" not in (index / "simple" / "index.html").read_bytes()


BROKEN = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "another project's": lambda path: path.write_bytes((path.parent / "relu.json").read_bytes()),
    "a newer wheelsmith's": lambda path: path.write_text('{"schema_version": 99}'),
}


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "no-lists"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_state_stops_nothing_but_its_project(how, lists, index, tmp_path, run):
    before, state = content(index), (index / "_state" / "kernel.json").read_bytes()
    BROKEN[how](index / "_state" / "kernel.json")
    shutil.rmtree(index / "cpu" / "relu")
    min((index / "files").rglob("relu*.metadata")).unlink()
    if not lists:
        (index / "_state" / ".listing.json").unlink()
    named = run("index", "verify", index)
    assert named.code == 1
    assert "_state/kernel.json" in named.out
    assert {"cpu/relu/index.html is missing", "cpu/relu/index.json is missing"} < set(named.out.splitlines())
    repaired = run("index", "repair", index)
    assert repaired.code == 1
    assert "cpu/relu/index.html" in repaired.out.splitlines()
    left = run("index", "verify", index)
    assert [line for line in left.out.splitlines() if "_state/kernel.json" not in line] == []
    assert set(left.out.splitlines()) <= set(repaired.err.splitlines())
    now = content(index)
    kept = {key for key in before if key != "_state/kernel.json" and (lists or "kernel" in key or "relu/" in key)}
    assert {key: now.get(key) for key in kept} == {key: before[key] for key in kept}
    Index(Folder(index)).add([wheel(tmp_path / "more", "gelu", CELLS[0])], upload_time=NOW)
    (index / "_state" / "kernel.json").unlink()
    (index / "_state" / "kernel.json").write_bytes(state)
    assert run("index", "repair", index).code == 0
    assert verify(Folder(index)) == ()
    assert b"kernel" in (index / "index.html").read_bytes()


def test_a_wheel_that_nobody_has_is_removed_by_the_command_that_is_named(index, tmp_path, run):
    lost = min((index / "files").rglob("kernel-1+cpu*.whl"))
    lost.unlink()
    repaired = run("index", "repair", index)
    assert repaired.code == 1
    command = next(line for line in repaired.err.splitlines() if "index remove" in line).rpartition("wheelsmith ")[2]
    assert run(*command.split()).code == 0
    assert run("index", "verify", index).code == 0
    told = [path for path in index.rglob("*") if path.suffix in {".html", ".json"} and lost.name in path.read_text()]
    assert [path.name for path in told] == ["kernel.json"]
    # Its name is still its own: it may come back, and nothing else in its place.
    other = make_wheel(tmp_path / "other", "kernel", "1+cpu.torch2.9", files={"x.py": b""}, requires=("torch==2.9.*",))
    refused = run("index", "add", index, other)
    assert (refused.code, f"{lost.name} was in the index with other bytes" in refused.err) == (4, True)
    assert run("publish", tmp_path / "copy", "--from", index).code == 0
    Index(Folder(index)).add([wheel(tmp_path / "made", "kernel", CELLS[0])], upload_time=NOW)
    assert verify(Folder(index)) == ()
    assert Index(Folder(index)).known("kernel").removed == ()


def test_the_last_wheel_takes_its_project_from_every_page(index, run):
    assert run("index", "remove", index, "relu", "1").code == 0
    assert run("index", "verify", index).code == 0
    assert not (index / "simple" / "relu").exists()
    assert "relu" not in (index / "index.html").read_text()
    for path in (left := list((index / "files").rglob("relu*"))):
        os.utime(path, (1, 1))
    assert len(left) == 4
    assert run("index", "gc", index, "--grace", "1s").code == 0
    assert list((index / "files").rglob("relu*")) == []
    assert run("index", "remove", index, "relu", "1").code == 4


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_where_nothing_lies_there_is_no_index(run, tmp_path, command):
    answer = run("index", command, tmp_path / "nothing")
    assert answer.code == 4
    assert f"there is no index: {tmp_path / 'nothing'} is empty" in answer.err
    assert not list(tmp_path.rglob("*.html"))
