"""Which reporter suits the place that a run is watched from."""

from __future__ import annotations

import sys
from pathlib import Path

from wheelsmith.report.json_lines import JsonReporter
from wheelsmith.report.live import LiveReporter
from wheelsmith.report.plain import PlainReporter
from wheelsmith.report.quiet import QuietReporter
from wheelsmith.report.style import make_console

MODES = ("auto", "live", "plain", "json", "quiet")


def reporter(mode: str, out: Path) -> LiveReporter | PlainReporter | JsonReporter | QuietReporter:
    """Return the reporter for a mode; ``auto`` is live at a terminal and plain elsewhere."""
    if mode == "json":
        return JsonReporter()
    console = make_console(stderr=True)
    if mode == "quiet":
        return QuietReporter(console, out)
    if mode == "live" or (mode == "auto" and sys.stderr.isatty() and not console.is_dumb_terminal):
        return LiveReporter(console, out)
    return PlainReporter(console, out)
