"""The two tiers of the suite, and what a run says at its end.

A test marked ``release("why")`` runs with ``--all`` only. Everything else is the quick tier.
"""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
COSTS = ROOT / "bench" / "suite.json"
# Fixtures and parameters of tests that need a container engine, whose storage all of them share.
ENGINES = {"podman", "docker", "podman_image", "docker_image", "cuda12"}

# What costs more than most tests that use it: the default matrix.
SHARED = "built"


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of a release out, unless they were asked for by ``--all`` or by name."""
    for item in items:
        for mark in item.iter_markers("release"):
            if not (mark.args and isinstance(mark.args[0], str)):
                raise pytest.UsageError(f"{item.nodeid}: release() says why the test can wait for a release")
    if config.getoption("all") or any("::" in argument for argument in config.args):
        return
    left = [item for item in items if item.get_closest_marker("release")]
    if left:
        items[:] = [item for item in items if not item.get_closest_marker("release")]
        config.hook.pytest_deselected(items=left)


def group(items: list[pytest.Item]) -> None:
    """Keep together, on one worker, what shares an engine's storage; modules with dear fixtures mark themselves."""
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        used = {*getattr(item, "fixturenames", ()), *(value for value in parameters if isinstance(value, str))}
        if used & ENGINES:
            item.add_marker(pytest.mark.xdist_group("containers"))


def dearest_first(items: list[pytest.Item]) -> None:
    """Order groups by what they cost when the suite was last measured, so that no worker is left with a long one."""
    if not COSTS.is_file():
        return
    cost: Counter[str] = Counter()
    measured = json.loads(COSTS.read_text())["tests"]
    for item in items:
        cost[_group_of(item)] += measured.get(item.nodeid, 0)
    order = sorted(cost, key=lambda name: -cost[name])
    sharing = {_group_of(item) for item in items if SHARED in getattr(item, "fixturenames", ())}
    place = {name: number for number, name in enumerate(_apart(order, sharing, cost))}
    items.sort(key=lambda item: place[_group_of(item)])


def _apart(order: list[str], sharing: set[str], cost: Counter[str]) -> list[str]:
    """Start what shares a fixture one after the other: a second worker would wait for the first one to make it."""
    first, *others = [name for name in order if name in sharing] or [""]
    left = [name for name in order if name not in others]
    meanwhile = 0.0
    for number, name in enumerate(left):
        if meanwhile > cost[first]:
            return [*left[:number], *others, *left[number:]]
        meanwhile += cost[name] * (name != first)
    return left + others


def _group_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark else item.nodeid


def summarize(reporter: pytest.TerminalReporter) -> None:
    """Say what was proved, file by file in the files' own words, and what was skipped for want of what."""
    proved: Counter[str] = Counter(
        report.nodeid.partition("::")[0] for report in reporter.stats.get("passed", ()) if report.when == "call"
    )
    wanting: dict[str, Counter[str]] = defaultdict(Counter)
    for report in reporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        wanting[reason.removeprefix("Skipped: ")][report.nodeid.partition("::")[0]] += 1
    said = {file: words for file in sorted(proved) if (words := _first_line(ROOT / file))}
    if said:
        reporter.section("proved")
        for file, words in said.items():
            reporter.write_line(f"{proved[file]:5} {words}")
        if rest := proved.total() - sum(proved[file] for file in said):
            reporter.write_line(f"{rest:5} tests of parts")
    if wanting:
        reporter.section("skipped")
        for reason, files in sorted(wanting.items()):
            reporter.write_line(f"{files.total():5} {reason}: {', '.join(sorted(files))}")
    left = len(reporter.stats.get("deselected", ()))
    if left and not reporter.config.getoption("all"):
        reporter.write_line(f"{left} tests are left to a release: scripts/test --all")


def _first_line(file: Path) -> str:
    try:
        text = ast.get_docstring(ast.parse(file.read_text()))
    except (OSError, SyntaxError):
        return ""
    return text.splitlines()[0] if text else ""
