"""Run what was planned, and leave its results and reports in the output folder."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import click

from wheelsmith.base.errors import ExitCode, system_error
from wheelsmith.base.files import atomic_write
from wheelsmith.base.units import show_moment
from wheelsmith.model import Event, Listener, Notice, RunFinished, RunStarted
from wheelsmith.model.run_record import RESULTS, RunRecord
from wheelsmith.plan.planned_run import PlannedRun
from wheelsmith.report.timeline import Stopwatch
from wheelsmith.run.build import build, make_output_folder
from wheelsmith.run.prepare import Prepared

progress_option = click.option(
    "--progress",
    type=click.Choice(["auto", "live", "plain", "json", "quiet"]),
    default="auto",
    show_default=True,
    help="json writes events to stdout; the others write to stderr.",
)


def run_prepared(
    prepared: Prepared,
    *,
    progress: str,
    as_json: bool,
    complete: Callable[[RunRecord], RunRecord] = lambda record: record,
    shown: Callable[[Event], Event | None] = lambda event: event,
) -> RunRecord:
    """Build what was prepared, with reports; see ``run_with_reports``."""
    run = partial(build, prepared)
    return run_with_reports(
        prepared, prepared.out, run, progress=progress, as_json=as_json, complete=complete, shown=shown
    )


def run_with_reports(
    planned: PlannedRun,
    out: Path,
    run: Callable[[Listener, threading.Event], RunRecord],
    *,
    progress: str,
    as_json: bool,
    complete: Callable[[RunRecord], RunRecord] = lambda record: record,
    shown: Callable[[Event], Event | None] = lambda event: event,
) -> RunRecord:
    """Run, and leave results.json and the reports in the output folder.

    :param run: takes a listener, and the flag that cancels it.
    :param progress: a mode of the reporters.
    :param as_json: write results.json on stdout too.
    :param complete: adds to the record what only the command knows.
    :param shown: returns the event as reporters get it; None to leave it out.
    :raises WheelsmithError: the output folder, the cache or the machine is not fit for it.
    """
    from wheelsmith.report import reporter

    make_output_folder(out)
    with reporter(progress, out) as report:

        def watch(event: Event) -> None:
            if (told := shown(event)) is not None:
                report(told)

        recorder = _ResultsRecorder(planned, out, watch, complete, as_json=as_json)
        with cancelled_by_signals() as cancel:
            record = run(recorder, cancel)
    recorder.check()
    return record


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


class _ResultsRecorder:
    """Passes events on; when a run ends, writes results.json and the reports before the summary is shown.

    A file that cannot be written is no reason to leave out the others.
    """

    def __init__(
        self,
        planned: PlannedRun,
        out: Path,
        report: Listener,
        complete: Callable[[RunRecord], RunRecord],
        *,
        as_json: bool,
    ) -> None:
        self._planned = planned
        self._out = out
        self._report = report
        self._complete = complete
        self._as_json = as_json
        self._started_on = _now()
        self._engine = ""
        self._watch = Stopwatch()
        self._lost: OSError | None = None

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        self._watch(event)
        if isinstance(event, RunStarted):
            self._engine = event.engine
        elif isinstance(event, RunFinished):
            self._keep(event)
        self._report(event)

    def check(self) -> None:
        """Require that everything was written.

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

    def _keep(self, finished: RunFinished) -> None:
        from wheelsmith.report.junit import junit_report
        from wheelsmith.report.markdown import markdown_summary
        from wheelsmith.report.page import report_page

        record = self._planned.record(finished.results, interrupted=finished.interrupted)
        record = self._complete(replace(record, started_on=self._started_on, finished_on=_now()))
        results = json.dumps(record.to_json(), indent=1) + "\n"
        if self._as_json:
            click.echo(results, nl=False)
        summary = markdown_summary(record, finished.seconds).encode(errors="replace")
        written = {
            RESULTS: results.encode(),
            "summary.md": summary,
            "junit.xml": junit_report(record, finished.seconds),
            "report.html": report_page(record, self._engine, finished, self._watch.timeline()),
        }
        for name, data in written.items():
            self._try(partial(atomic_write, self._out / name, data))
        self._try(lambda: _append_github_summary(summary))


def _now() -> str:
    """Return the time as provenance has it."""
    return show_moment(time.time())


def _append_github_summary(summary: bytes) -> None:
    if shown := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(shown).open("ab") as file:
            file.write(summary)


def exit_code(record: RunRecord) -> ExitCode:
    """Return the exit code of a run."""
    if record.interrupted:
        return ExitCode.INTERRUPTED
    if not record.planned:
        return ExitCode.NOTHING_SELECTED
    return ExitCode.OK if record.is_complete else ExitCode.CELLS_FAILED
