"""Indexes that somebody forged or damaged: nothing of theirs is published, nothing is written elsewhere."""

import json
import os
import shutil

import pytest
from wheels import make_wheel, offer

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = pytest.mark.usefixtures("in_process_worker")

NOW = "2026-01-02T03:04:05Z"
CELL = Cell(release="2.9", toolkit="13.0", arch="x86_64")


@pytest.fixture
def built(tmp_path):
    """An index of one wheel, in ``built``."""
    path = make_wheel(tmp_path / "made", "kernel", "1+cu130.torch2.9", requires=("torch==2.9.*",))
    Index(Folder(tmp_path / "built")).add([offer(path, CELL)], upload_time=NOW)
    return tmp_path / "built"


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def forge(built, change):
    """Change the state of the kernel."""
    state = built / "_state" / "kernel.json"
    data = json.loads(state.read_bytes())
    change(data)
    state.write_text(json.dumps(data))


def of_entry(**fields):
    return lambda data: data["entries"][0].update(fields)


def of_cell(**fields):
    return lambda data: data["entries"][0]["cells"][0].update(fields)


def failed(**fields):
    cell = {"torch": "2.9", "cuda": None, "arch": "x86_64", **fields.pop("cell", {})}
    answer = {"cell": cell, "version": "1", "status": "failed", "reason": "x", **fields}
    return lambda data: data.update(answers=[answer])


def removed(**fields):
    item = {"filename": "kernel-9-py3-none-any.whl", "sha256": "ab" * 32, **fields}
    return lambda data: data.update(removed=[item])


FORGED = {
    "a hash that leads out": of_entry(sha256="../../../../../outside"),
    "a file beside it of no known kind": of_entry(side_files={"/../../x": "ab" * 32}),
    "a file name that leads out": of_entry(filename="../../../../kernel-1-py3-none-any.whl"),
    "another project's wheel": of_entry(filename="torch-2.9-py3-none-any.whl"),
    "a size beyond all": of_entry(size=10**400),
    "a torch that leads out": of_cell(torch="../../x"),
    "a platform of nobody": of_cell(platform="os"),
    "a variant that is none": of_entry(variant={"label": "../x", "properties": {}}),
    "a plain wheel that leads out": of_entry(variant_of="../x"),
    "a requirement that is none": of_entry(requires=["torch >>1"]),
    "half a surrogate pair": of_entry(yanked="\ud800"),
    "another project's state": lambda data: data.update(project="torch"),
    "an answer for no cell": failed(cell={"cuda": "/"}),
    "a removed wheel that leads out": removed(filename="../kernel-9-py3-none-any.whl"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_state_is_refused_and_writes_nothing(name, built, tmp_path, run):
    forge(built, FORGED[name])
    # What a hash or a name of a forged state would read.
    make_wheel(tmp_path / "outside", "kernel", "1")
    before = content(tmp_path)
    for code, argv in (
        (4, ("publish", tmp_path / "target", "--from", built)),
        (1, ("index", "repair", built)),
        (1, ("index", "verify", built)),
        (4, ("index", "gc", built, "--grace", "1s")),
        (4, ("index", "yank", built, "kernel", "1")),
    ):
        answer = run(*argv)
        assert answer.code == code, argv
        assert "_state/kernel.json is broken" in answer.err + answer.out
        assert answer.err.count("\n") <= 3
        assert len(answer.err) < 2000
    after = content(tmp_path)
    assert {path: after.get(path) for path in before} == before
    assert set(after) - set(before) <= {"built/_state/.lock"}


def flipped(path):
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)


def linked(path):
    private = path.parents[4] / "private"
    shutil.copy(path, private)
    path.unlink()
    path.symlink_to(private)


def piped(path):
    path.unlink()
    os.mkfifo(path)


def another(path):
    other = make_wheel(path.parents[4] / "other", "kernel", "1+cu130.torch2.9", files={"kernel/evil.py": b""})
    shutil.copy(other, path)


DAMAGES = {
    "a flipped bit": flipped,
    "a link": linked,
    "a pipe": piped,
    "another wheel of this name": another,
    "nothing": lambda path: path.unlink(),
    "no side-car": lambda path: path.with_name(f"{path.name}.metadata").unlink(),
    "another side-car": lambda path: path.with_name(f"{path.name}.metadata").write_text("Name: kernel\n"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_not_what_the_state_says_is_not_published(name, built, tmp_path, run):
    DAMAGES[name](next((built / "files").rglob("*.whl")))
    answer = run("publish", tmp_path / "target", "--from", built)
    assert answer.code == 4
    assert answer.err.startswith("error: ")
    assert not (tmp_path / "target").exists()


def test_a_file_that_changes_after_it_was_read_is_not_published(tmp_path):
    path = make_wheel(tmp_path / "made", "kernel", "1+cu130.torch2.9")
    given = offer(path, CELL)
    flipped(path)
    with pytest.raises(PackageIndexError, match="has changed: its sha256 is"):
        Index(Folder(tmp_path / "target")).add([given], upload_time=NOW)
    assert not any((tmp_path / "target").rglob("*.whl"))
    assert Index(Folder(tmp_path / "target")).states() == {}


def test_what_lies_under_a_hash_unlisted_is_not_believed(built, tmp_path, run):
    """Somebody who may write to the target puts other bytes there before the wheel comes."""
    for path in (built / "files").rglob("*.whl*"):
        place = tmp_path / "target" / path.relative_to(built)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x" * path.stat().st_size)
    assert run("publish", tmp_path / "target", "--from", built).code == 0
    assert verify(Folder(tmp_path / "target")) == ()


@pytest.mark.parametrize("place", ["simple", "files", "_state", "cu130", "projects/kernel", "simple/kernel"])
def test_nothing_is_written_through_a_link_in_the_target(place, built, tmp_path, run):
    target, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (target / place).parent.mkdir(parents=True)
    (target / place).symlink_to(elsewhere)
    answer = run("publish", target, "--from", built)
    assert (answer.code, list(elsewhere.iterdir())) == (4, [])
    assert "is a link" in answer.err


def test_a_forged_list_of_projects_is_made_anew(built, run):
    listing = built / "_state" / ".listing.json"
    good = listing.read_bytes()
    for bad in (
        b"{",
        b"[]",
        b'{"kernel": 5}',
        b'{"../../evil": {}}',
        good.replace(b'"cu130"', b'"../../../cu130"'),
        good.replace(b'"2.9"', b'"x"'),
        good.replace(b'"kernel"', b'"ker/nel"'),
        b"[" * 100_000,
    ):
        listing.write_bytes(bad)
        assert run("index", "verify", built).code == 1
        # They are made from the states, so whoever publishes makes them anew.
        assert run("index", "status", built, "kernel", "active").code == 0
        assert listing.read_bytes() == good
        listing.write_bytes(bad)
        assert run("index", "repair", built).code == 0
        assert listing.read_bytes() == good
        assert run("index", "verify", built).code == 0
