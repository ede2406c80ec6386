"""Text at the start and the end of a run."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from wheelsmith.base.units import counted, numbers, release_order, show_duration
from wheelsmith.frameworks import framework
from wheelsmith.model import BuildResult, RunFinished, RunStarted, Status
from wheelsmith.report.style import print_words
from wheelsmith.report.tables import left_out, sharing_reasons, totals

if TYPE_CHECKING:
    from rich.console import Console


def show_start(started: RunStarted, console: Console) -> None:
    """Print the number of cells and builds, and the engine."""
    text = totals(started.plans, started.folded)
    print_words(console, f"{started.kernel} · {text} · {left_out(started.excluded)} · {started.engine}")
    for line in sharing_reasons(started.folded):
        print_words(console, f"  {line}")


def show_summary(finished: RunFinished, out: Path, console: Console) -> None:
    """Print excluded cells, failures, totals, and a command that installs a wheel."""
    for excluded in finished.excluded:
        print_words(console, f"  · {excluded.cell.id}  {excluded.reason}", "dim")
    for first, *others in failures(finished.results):
        show_failure(first, out, console)
        for other in others:
            print_words(console, f"✗ {other.cell.id}  shares the wheel of {first.cell.id}", "red")
    counts = Counter(result.status.value for result in finished.results)
    counts.update(item.status for item in finished.excluded)
    text = " · ".join(f"{count} {word}" for word, count in counts.items() if count) or "no combinations"
    ending = "interrupted after" if finished.interrupted else "in"
    print_words(console, f"{text} {ending} {show_duration(finished.seconds)}", "bold")
    if phases := finished.compiled + finished.reused:
        print_words(console, f"{finished.reused} of {counted(phases, 'compiler phase')} reused")
    if finished.older_wheels:
        print_words(console, kept_text(finished.older_wheels))
    usable = [result for result in finished.results if result.wheel and result.cell.settings.advertise]
    if usable and finished.older_wheels is not None:
        _show_install_command(_together(usable), out, console)


def kept_text(older_wheels: Sequence[str]) -> str:
    """Return the sentence about the kept wheels of an older source."""
    them = "it" if len(older_wheels) == 1 else "them"
    return f"kept {counted(len(older_wheels), 'wheel')} of an older source: rebuild {them} or pass --prune"


def failures(results: Sequence[BuildResult]) -> list[list[BuildResult]]:
    """Return the failed results, grouped by build."""
    found: dict[str, list[BuildResult]] = {}
    for result in results:
        if result.status is Status.FAILED:
            found.setdefault(result.plan_digest or result.cell.id, []).append(result)
    return list(found.values())


def _preference(result: BuildResult) -> tuple[bool, bool, Version, tuple[int, ...]]:
    """Return a sort key that prefers wheels for this machine and Python, then newer torch and CUDA releases."""
    cell = result.cell
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return (
        cell.arch == platform.machine(),
        cell.python in {None, here},
        release_order(cell.release),
        numbers(cell.toolkit or "0"),
    )


def _together(usable: Sequence[BuildResult]) -> list[BuildResult]:
    """Return the best result, and the best one of each other kernel that fits the same environment."""
    best = max(usable, key=_preference)
    found = {best.cell.kernel: best}
    for result in sorted(usable, key=_preference, reverse=True):
        if all(getattr(result.cell, axis) == getattr(best.cell, axis) for axis in ("arch", "compute", "release")):
            found.setdefault(result.cell.kernel, result)
    return [*found.values()]


def show_failure(result: BuildResult, out: Path, console: Console) -> None:
    """Print a failure with lines of its log."""
    failure = result.failure
    if failure is None:
        return
    print_words(console, f"✗ {result.cell.id}  {failure.stage}: {failure.message}", "red")
    for line in failure.tail:
        console.print(f"  │ {line}", soft_wrap=True)
    if failure.remedy:
        print_words(console, f"  help: {failure.remedy}")
    if result.log:
        print_words(console, f"  log: {out / 'logs' / result.log}")


def _show_install_command(results: Sequence[BuildResult], out: Path, console: Console) -> None:
    """Print a command that installs the wheels of results, which have the same environment."""
    names = [result.wheel.filename.split("-") for result in results if result.wheel]
    cell = results[0].cell
    print_words(console, f"wheels: {out / 'wheels'}")
    # The exact pin and the single index exclude other projects of the same name and other torch builds.
    print_words(console, f"try it: wheelsmith serve {out / 'index'}")
    required = framework(cell.framework).requirement(cell.release)
    # The root has no other project, so that a wheel without a framework needs the default index for its requirements.
    index = "--index-url" if required else "--extra-index-url"
    pins = " ".join(f"{project.replace('_', '-')}=={version}" for project, version, *_ in names)
    command = f"pip install {pins} " + (f"'{required}' " if required else "")
    command += f"{index} http://127.0.0.1:8000/{cell.compute}/"
    print_words(console, f"        {command}", ending=" \\")
