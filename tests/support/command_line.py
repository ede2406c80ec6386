"""Run the wheelsmith command inside the test's own process."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from wheelsmith.cli.app import main


@dataclass(frozen=True)
class Answer:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *argv: str) -> Answer:
    """Run ``wheelsmith ARGV``."""
    monkeypatch.setattr(sys, "argv", ["wheelsmith", *argv])
    with pytest.raises(SystemExit) as stop:
        main()
    written = capsys.readouterr()
    return Answer(code=int(stop.value.code or 0), out=written.out, err=written.err)
