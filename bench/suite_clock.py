"""A pytest plugin that measures how each test spends its time: ``pytest -p suite_clock``.

A thread samples the machine five times a second. It classifies each sample as *compilers* (a compiler runs),
*downloads* (the machine receives bytes), *waiting* (all cores are idle) or *working* (the rest). The plugin writes JSON
to the file in SUITE_CLOCK. Use one worker on an otherwise idle machine. Other work at a lower priority (``nice``) is
not counted, except its downloads.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from bench.stopwatch import busy_seconds

COMPILERS = {
    "nvcc",
    "cudafe++",
    "cicc",
    "ptxas",
    "fatbinary",
    "nvlink",
    "cc1",
    "cc1plus",
    "as",
    "ld",
    "ld.bfd",
    "collect2",
}
_LOOK = 0.2  # seconds
_TRICKLE = 20_000  # bytes in a sample that do not count as a download
_IDLE = 0.15  # part of one core


class SuiteClock:
    """Measures the phases of each test, and the activity of the machine during the test."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._tests: dict[str, dict[str, float]] = {}
        self._waits: dict[str, str] = {}
        self._kinds: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def pytest_sessionstart(self) -> None:
        """Start the sampling thread."""
        self._thread.start()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record the reason of each test with the mark ``release``."""
        for item in session.items:
            if mark := item.get_closest_marker("release"):
                self._waits[item.nodeid] = mark.args[0]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item):
        """Record the samples of each test."""
        with self._lock:
            self._kinds.clear()
        try:
            return (yield)
        finally:
            with self._lock:
                self._tests.setdefault(item.nodeid, {}).update(self._kinds)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the duration and outcome of a phase of a test."""
        test = self._tests.setdefault(report.nodeid, {})
        test[report.when or "call"] = report.duration
        if report.outcome != "passed":
            test[report.outcome] = 1

    def pytest_sessionfinish(self) -> None:
        """Write the measurements."""
        self._stop.set()
        self._thread.join()
        self._target.write_text(json.dumps({"tests": self._tests, "waits": self._waits}, indent=1) + "\n")

    def _watch(self) -> None:
        received, busy, then = _received(), busy_seconds(), time.monotonic()
        while not self._stop.wait(_LOOK):
            now_received, now_busy, now = _received(), busy_seconds(), time.monotonic()
            took = now - then
            if _compiling():
                kind = "compilers"
            elif now_received - received > _TRICKLE:
                kind = "downloads"
            elif now_busy - busy < _IDLE * took:
                kind = "waiting"
            else:
                kind = "working"
            with self._lock:
                self._kinds[kind] += took
            received, busy, then = now_received, now_busy, now


def _received() -> int:
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split(":")[1].split()[0]) for line in lines if line.split(":")[0].strip() != "lo")


def _compiling() -> bool:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                name = (process / "comm").read_text().strip()
                if name in COMPILERS and os.getpriority(os.PRIO_PROCESS, int(process.name)) <= 0:
                    return True
            except OSError:  # the process has ended
                continue
    return False


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin if SUITE_CLOCK is set."""
    if target := os.environ.get("SUITE_CLOCK"):
        config.pluginmanager.register(SuiteClock(Path(target).absolute()))
