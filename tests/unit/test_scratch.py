"""The folder that a run works in goes away, however the run ends."""

from __future__ import annotations

import pytest

from wheelsmith.base.beneath import remove_tree
from wheelsmith.run import scratch as module
from wheelsmith.run.scratch import scratch


def test_it_goes_away_at_the_end(tmp_path):
    with scratch(tmp_path) as folder:
        (folder / "x").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_who_is_killed_while_it_removes_leaves_it_to_the_next(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def half(folder):
        (folder / "lock").unlink()
        raise Killed

    monkeypatch.setattr(module, "remove_tree", half)
    with pytest.raises(Killed), scratch(tmp_path) as folder:
        (folder / "x").write_text("x")
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(module, "remove_tree", remove_tree)
    with scratch(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]


def test_one_that_is_in_use_stays(tmp_path):
    with scratch(tmp_path) as one, scratch(tmp_path) as other:
        assert sorted(tmp_path.iterdir()) == sorted([one, other])
