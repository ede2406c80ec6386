"""Run planned builds and write results and reports to the output folder."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from wheelsmith.base.errors import ExitCode, system_error
from wheelsmith.base.files import atomic_write
from wheelsmith.base.units import show_moment
from wheelsmith.cli.options import chosen_mode, quiet_option, verbose_option
from wheelsmith.model import Event, Listener, Notice, RunFinished
from wheelsmith.model.run_record import RESULTS, RunRecord
from wheelsmith.plan.planned_run import PlannedRun
from wheelsmith.report.timeline import TimelineRecorder
from wheelsmith.run.build import build, make_output_folder
from wheelsmith.run.prepare import Prepared
from wheelsmith.run.prepared_set import PreparedSet

if TYPE_CHECKING:
    from wheelsmith.report.reporters import LineReporter

_F = TypeVar("_F", bound=Callable[..., Any])


def progress_options(command: _F) -> _F:
    """Add ``--progress``, ``-q`` and ``-v``. The command gets the mode as ``progress``."""

    @wraps(command)
    def run(*arguments: Any, progress: str | None, quiet: bool, verbose: bool, **options: Any) -> Any:
        if progress and (quiet or verbose):
            raise click.UsageError("--progress cannot be used with --quiet or --verbose")
        return command(*arguments, progress=progress or chosen_mode("auto", quiet=quiet, verbose=verbose), **options)

    for option in (
        verbose_option,
        quiet_option,
        click.option(
            "--progress",
            type=click.Choice(["auto", "live", "plain", "json", "quiet", "verbose"]),
            help="Progress output. json writes to stdout, the others to stderr.  [default: auto]",
        ),
    ):
        run = option(run)
    return cast("_F", run)


def preparing_reporter(progress: str, out: Path) -> LineReporter:
    """Return the reporter for the preparation of a run, before its progress is shown.

    :param progress: the mode of the run.
    """
    from wheelsmith.report import reporter

    return reporter("quiet" if progress == "quiet" else "plain", out)


def run_prepared(
    prepared: Prepared | PreparedSet,
    *,
    progress: str,
    as_json: bool,
    complete: Callable[[RunRecord], RunRecord] = lambda record: record,
    filter_event: Callable[[Event], Event | None] = lambda event: event,
) -> RunRecord:
    """Run the prepared builds with reports; see ``run_with_reports`` for the arguments."""
    run = partial(build, prepared)
    return run_with_reports(
        prepared, prepared.out, run, progress=progress, as_json=as_json, complete=complete, filter_event=filter_event
    )


def run_with_reports(
    planned: PlannedRun,
    out: Path,
    run: Callable[[Listener, threading.Event], RunRecord],
    *,
    progress: str,
    as_json: bool,
    complete: Callable[[RunRecord], RunRecord] = lambda record: record,
    filter_event: Callable[[Event], Event | None] = lambda event: event,
) -> RunRecord:
    """Call ``run`` and write results.json and the reports to the output folder.

    :param run: takes a listener and the event that cancels it.
    :param progress: the value of ``--progress``.
    :param as_json: print results.json on stdout too.
    :param complete: adds facts to the record that only the command has.
    :param filter_event: filters the events for reporters; None hides an event.
    :raises WheelsmithError: the output folder, the cache or the machine cannot be used, or a report cannot be written.
    """
    from wheelsmith.report import reporter

    make_output_folder(out)
    start, timeline, errors = _now(), TimelineRecorder(), list[OSError]()
    with reporter(progress, out) as report:

        def listen(event: Event) -> None:
            timeline(event)
            if isinstance(event, RunFinished):
                record = planned.record(event.results, interrupted=event.interrupted, older=event.older_wheels or ())
                record = complete(replace(record, started_on=start, finished_on=_now()))
                if as_json:
                    click.echo(json.dumps(record.to_json(), indent=1))
                for error in _write_reports(record, event, timeline, out):
                    errors.append(error)
                    report(Notice(level="warning", text=f"cannot write a report: {system_error(error)}"))
            if (visible := filter_event(event)) is not None:
                report(visible)

        with cancelled_by_signals() as cancel:
            record = run(listen, cancel)
    if errors:
        raise system_error(errors[-1])
    return record


@contextmanager
def cancelled_by_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set. A second signal ends the process immediately."""
    cancel = threading.Event()

    def handle(number: int, _: FrameType | None) -> None:
        signal.signal(number, handlers[signal.Signals(number)])
        cancel.set()

    handlers = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cancel
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _write_reports(
    record: RunRecord, finished: RunFinished, timeline: TimelineRecorder, out: Path
) -> Iterator[OSError]:
    """Write results.json and the reports. Yield the error of each file that cannot be written, and continue."""
    from wheelsmith.report.junit import junit_report
    from wheelsmith.report.markdown import markdown_summary
    from wheelsmith.report.page import report_page

    summary = markdown_summary(record, finished.seconds).encode(errors="replace")
    written = {
        RESULTS: (json.dumps(record.to_json(), indent=1) + "\n").encode(),
        "summary.md": summary,
        "junit.xml": junit_report(record, finished.seconds),
        "report.html": report_page(record, timeline.engine, finished, timeline.timeline()),
    }
    writes = (partial(atomic_write, out / name, data) for name, data in written.items())
    for write in (*writes, partial(_append_summary, summary)):
        try:
            write()
        except OSError as error:
            yield error


def _now() -> str:
    """Return the current time in the format of provenance."""
    return show_moment(time.time())


def _append_summary(summary: bytes) -> None:
    """Append to GitHub's step summary, if the environment names one."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("ab") as file:
            file.write(summary)


def exit_code(record: RunRecord) -> ExitCode:
    """Return the exit code for the record of a run."""
    if record.interrupted:
        return ExitCode.INTERRUPTED
    if not record.planned:
        return ExitCode.NOTHING_SELECTED
    return ExitCode.OK if record.is_complete else ExitCode.CELLS_FAILED
