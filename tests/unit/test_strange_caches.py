"""A cache may come from elsewhere: what it says of files and costs is believed only where it could be so."""

import hashlib
import io
import json
import sqlite3
from contextlib import closing

import pytest

from wheelsmith.pipeline.cell_log import CellLog
from wheelsmith.store import Store
from wheelsmith.store.costs import Cost, Costs
from wheelsmith.store.objects import Objects
from wheelsmith.toolchain.resolve import read_lock

KEY = "ab" + "c" * 62
STRANGE = ["5", "null", "[[1]]", "", "[" * 99_999, '{"outputs": 5}', '{"outputs": [1]}', '{"outputs": {"a": 1}}']


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("text", STRANGE, ids=range(len(STRANGE)))
def test_what_is_no_record_is_as_good_as_none(text, tmp_path, monkeypatch):
    write(tmp_path / "actions" / "ab" / f"{KEY}.json", text)
    assert Objects(tmp_path).find(KEY) is None
    write(tmp_path / "plans" / "p.json", text)
    assert Store(tmp_path).find("p") is None
    write(tmp_path / "locks.json", text)
    assert read_lock(tmp_path / "locks.json") is None


def test_a_piece_is_no_path_to_a_file_that_is_none(tmp_path):
    """One whose bytes are not what they were is removed, to be made anew."""
    mine = tmp_path / "mine"
    mine.write_text("mine")
    objects = Objects(tmp_path / "objects")
    (tmp_path / "objects" / "blobs").mkdir(parents=True)
    output = {"sha256": "../../mine", "size": 4}
    write(tmp_path / "objects" / "actions" / "ab" / f"{KEY}.json", json.dumps({"outputs": {"a": output}, "lines": []}))
    action = objects.find(KEY)
    if action is not None:
        objects.copy(action.outputs["a"], io.BytesIO())
    assert mine.read_text() == "mine"
    assert action is None


def test_a_wheel_is_called_by_a_name_and_no_path(tmp_path):
    """Where it is published and installed from, it would be written to that path."""
    (tmp_path / "evil.whl").write_bytes(b"evil")
    digest = hashlib.sha256(b"evil").hexdigest()
    (tmp_path / "wheels" / digest).mkdir(parents=True)
    said = {"sha256": digest, "size": 4, "metadata_sha256": digest, "requires_python": None}
    write(tmp_path / "plans" / "p.json", json.dumps({"filename": "../../evil.whl", **said}))
    assert Store(tmp_path).find("p") is None


def test_costs_are_numbers(tmp_path):
    with closing(sqlite3.connect(tmp_path / "costs")) as base, base:
        base.execute("CREATE TABLE costs (key TEXT PRIMARY KEY, seconds REAL, memory INTEGER)")
        rows = [("a", 1, 5), ("b", "x", 5), ("c", float("inf"), 5), ("d", -1, 5), ("e", 1, "x"), ("f", 1, -1)]
        base.executemany("INSERT INTO costs VALUES (?, ?, ?)", rows)
    found = Costs(tmp_path / "costs")
    assert found.find(["a"]) == Cost(seconds=1, memory=5)
    assert found.find(["b", "c", "d", "e", "f"]) is None


def test_what_was_printed_is_shown_as_words(tmp_path):
    log = CellLog("cell", tmp_path / "cell.log", lambda event: None)
    log.reuse("a", ("\x1b]0;title\x07", "::error::forged"))
    assert (tmp_path / "cell.log").read_text() == "── a: from the cache\n\\x1b]0;title\\x07\n\\x3a:error::forged\n"
