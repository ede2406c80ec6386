"""A wheel whose test says nothing on this machine is not told of as one that was tested."""

import containers
import pytest
from factory import Factory
from kernels import matrix, pure_kernel

from wheelsmith.engine import Exit, ExitReason
from wheelsmith.pipeline import cell


@pytest.mark.parametrize("reason", ["this machine does not run aarch64", None])
def test_what_was_not_tested_says_why(reason, tmp_path, monkeypatch):
    containers.wanted("bwrap")
    factory = Factory.at(tmp_path)
    pure_kernel(tmp_path / "k")
    place = matrix(tmp_path, "k")
    place.write_text(place.read_text().replace("path: k", "path: k, test: 'true'"))
    monkeypatch.setattr(cell, "why_untested", lambda *_: reason)
    monkeypatch.setattr(cell, "smoke_test", lambda *_, **__: Exit(reason=ExitReason.EXITED, code=0, seconds=0.0))
    answer = factory.run_in_process("build-matrix", "--engine", "bwrap", "--test", "--progress", "plain")
    assert answer.returncode == 0, answer.stderr
    assert (f"is not tested: {reason}" in answer.stderr) is (reason is not None)
    assert {told["untested"] for told in factory.results().values()} == {reason}
