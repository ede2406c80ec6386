"""Run what was prepared, as the command line shows and keeps it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar

import click

from wheelsmith.base.errors import ExitCode, system_error
from wheelsmith.base.files import atomic_write
from wheelsmith.base.units import show_moment
from wheelsmith.model import BuildPlan, BuildResult, Event, Excluded, Folded, Listener, Notice, RunFinished
from wheelsmith.report.results_file import ResultsFile, results_file
from wheelsmith.run.build import Outcome, build, make_output_folder
from wheelsmith.run.prepare import Prepared

_F = TypeVar("_F", bound=Callable[..., Any])
# What results.json tells beside the cells, of the results.
More = Callable[[tuple[BuildResult, ...]], Mapping[str, Any]]


def progress_option(command: _F) -> _F:
    """Add ``--progress``."""
    return click.option(
        "--progress",
        type=click.Choice(["auto", "live", "plain", "json", "quiet"]),
        default="auto",
        show_default=True,
        help="json writes events to stdout; the others write to stderr.",
    )(command)


class Answerable(Protocol):
    """What a run answers for: the plans of a matrix, or of all the shards that are joined."""

    @property
    def kernel(self) -> str:
        """What people call it."""

    @property
    def plans(self) -> tuple[BuildPlan, ...]:
        """What has an answer in the end."""

    @property
    def excluded(self) -> tuple[Excluded, ...]:
        """What has none, and why."""

    @property
    def folded(self) -> Mapping[str, Folded]:
        """Cell id → whose wheel it shares."""

    @property
    def not_folded(self) -> Mapping[str, str]:
        """Cell id → why no older minor of its CUDA answers for it."""

    @property
    def distribution(self) -> str | None:
        """The project's name; None where nobody says it."""

    @property
    def version(self) -> str | None:
        """Without a local part; None where nobody says it."""

    @property
    def matrix_sha256(self) -> str | None:
        """Of the matrix file; None where nobody wrote one."""

    @property
    def out(self) -> Path:
        """The output folder."""


def run_prepared(
    prepared: Prepared,
    *,
    progress: str,
    as_json: bool,
    more: More = lambda _: {},
    shown: Callable[[Event], Event | None] = lambda event: event,
) -> Outcome:
    """Build what was prepared, and leave results.json and the report in its output folder; see ``run_kept``."""
    return run_kept(prepared, partial(build, prepared), progress=progress, as_json=as_json, more=more, shown=shown)


def run_kept(
    planned: Answerable,
    run: Callable[[Listener, threading.Event], Outcome],
    *,
    progress: str,
    as_json: bool,
    more: More = lambda _: {},
    shown: Callable[[Event], Event | None] = lambda event: event,
) -> Outcome:
    """Run, and leave results.json and the report in the output folder.

    :param run: is told who listens, and what cancels it.
    :param progress: a mode of the reporters.
    :param as_json: write results.json on stdout too.
    :param more: gives what results.json has beside the cells.
    :param shown: gives what whoever watches hears of an event; None for nothing.
    :raises WheelsmithError: the output folder, the cache or the machine is not fit for it.
    """
    from wheelsmith.report import reporter
    from wheelsmith.report.page import BuildReport

    make_output_folder(planned.out)
    cells = len(planned.plans) + len(planned.excluded)
    with results_file(planned.out, cells) as file, reporter(progress, planned.out) as report:

        def watched(event: Event) -> None:
            if (told := shown(event)) is not None:
                report(told)

        kept = _Kept(planned, file, BuildReport(planned.out), watched, more, as_json=as_json)
        with cancelled_by_signals() as cancel:
            outcome = run(kept, cancel)
    kept.check()
    return outcome


@contextmanager
def cancelled_by_signals() -> Iterator[threading.Event]:
    """Yield a flag that Ctrl-C and SIGTERM set; asked a second time, the process ends at once."""
    cancel = threading.Event()

    def ask(number: int, _: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        cancel.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Kept:
    """Passes events on; when a run ends, writes what it leaves before its summary, for who reads that may look for it.

    What cannot be written keeps nothing else from being so.
    """

    def __init__(
        self,
        planned: Answerable,
        file: ResultsFile,
        page: Listener,
        report: Listener,
        more: More,
        *,
        as_json: bool,
    ) -> None:
        self._planned = planned
        self._file = file
        self._page = page
        self._report = report
        self._more = more
        self._as_json = as_json
        self._started_on = _now()
        self._lost: OSError | None = None

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        if isinstance(event, RunFinished):
            self._try(lambda: self._keep_results(event))
            summary = _summary(self._planned, event)
            self._try(lambda: atomic_write(self._planned.out / "summary.md", summary))
            self._try(lambda: _leave_junit(self._planned, event))
            self._try(lambda: _tell_github(summary))
        self._try(lambda: self._page(event))
        self._report(event)

    def check(self) -> None:
        """See that all was written.

        :raises MachineError: something was not, for instance on a full disk.
        """
        if self._lost:
            raise system_error(self._lost)

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._lost = error
            self._report(Notice(level="warning", text=f"not written: {system_error(error)}"))

    def _keep_results(self, finished: RunFinished) -> None:
        data = self._results(finished)
        if self._as_json:
            click.echo(data, nl=False)
        try:
            self._file.write(data.encode())
        except OSError:
            # The end of each failure's log is in the log too.
            results = tuple(_without_tail(result) for result in finished.results)
            self._file.write(self._results(replace(finished, results=results)).encode())

    def _results(self, finished: RunFinished) -> str:
        from wheelsmith.report import results_json

        planned = self._planned
        data = results_json(
            planned.kernel,
            planned.plans,
            finished.results,
            planned.excluded,
            planned.folded,
            planned.not_folded,
            interrupted=finished.interrupted,
        )
        made = {"distribution": planned.distribution, "kernel_version": planned.version}
        run = {"matrix_sha256": planned.matrix_sha256, "started_on": self._started_on, "finished_on": _now()}
        return json.dumps({**data, **made, **run, **self._more(finished.results)}, indent=1) + "\n"


def _now() -> str:
    """Return the time as provenance has it."""
    return show_moment(time.time())


def _without_tail(result: BuildResult) -> BuildResult:
    return replace(result, failure=replace(result.failure, tail=())) if result.failure else result


def _summary(planned: Answerable, finished: RunFinished) -> bytes:
    from wheelsmith.report.markdown import markdown_summary

    return markdown_summary(planned.kernel, planned.plans, finished).encode(errors="replace")


def _tell_github(summary: bytes) -> None:
    if shown := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(shown).open("ab") as file:
            file.write(summary)


def _leave_junit(planned: Answerable, finished: RunFinished) -> None:
    from wheelsmith.report.junit import junit_report

    atomic_write(planned.out / "junit.xml", junit_report(planned.kernel, planned.plans, finished))


def exit_code(planned: Answerable, outcome: Outcome) -> ExitCode:
    """Return what a run ends with."""
    if outcome.interrupted:
        return ExitCode.INTERRUPTED
    if not planned.plans:
        return ExitCode.NOTHING_SELECTED
    answered = {result.cell.id for result in outcome.results if result.wheel}
    return ExitCode.OK if all(plan.cell.id in answered for plan in planned.plans) else ExitCode.CELLS_FAILED
