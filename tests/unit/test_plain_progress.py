"""The lines of a run in a log."""

import io
import time
from pathlib import Path

from rich.console import Console

from wheelsmith.model import CellProgress
from wheelsmith.report.reporters import PlainReporter


def test_a_long_build_shows_its_progress_once_a_minute(monkeypatch):
    now, text = [0.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reporter = PlainReporter(Console(file=text, width=200), Path("dist"))
    for second in (10, 59, 61, 62, 120, 122):
        now[0] = float(second)
        reporter(CellProgress(cell_id="cell", done=second, total=200, step="csrc/add.cu: cicc 90"))
    assert text.getvalue().splitlines() == [
        "  cell  61 of 200: csrc/add.cu: cicc 90",
        "  cell  122 of 200: csrc/add.cu: cicc 90",
    ]
