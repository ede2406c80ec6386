"""Run what was prepared, as the command line shows and keeps it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click

from wheelsmith.base.errors import ExitCode, system_error
from wheelsmith.model import BuildResult, Event, Listener, Notice, RunFinished
from wheelsmith.report.keep import ResultsFile, results_file
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


def run_prepared(
    prepared: Prepared,
    *,
    progress: str,
    as_json: bool,
    more: More = lambda _: {},
    shown: Callable[[Event], Event | None] = lambda event: event,
) -> Outcome:
    """Build what was prepared, and leave results.json and the report in its output folder.

    :param progress: a mode of the reporters.
    :param as_json: write results.json on stdout too.
    :param more: gives what results.json has beside the cells.
    :param shown: gives what whoever watches hears of an event; None for nothing.
    :raises WheelsmithError: the output folder, the cache or the machine is not fit for it.
    """
    from wheelsmith.report import reporter
    from wheelsmith.report.page import BuildReport

    make_output_folder(prepared.out)
    cells = len(prepared.plans) + len(prepared.excluded)
    with results_file(prepared.out, cells) as file, reporter(progress, prepared.out) as report:

        def watched(event: Event) -> None:
            if (told := shown(event)) is not None:
                report(told)

        kept = _Kept(prepared, file, BuildReport(prepared.out), watched, more, as_json=as_json)
        with cancelled_by_signals() as cancel:
            outcome = build(prepared, kept, cancel)
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
        prepared: Prepared,
        file: ResultsFile,
        page: Listener,
        report: Listener,
        more: More,
        *,
        as_json: bool,
    ) -> None:
        self._prepared = prepared
        self._file = file
        self._page = page
        self._report = report
        self._more = more
        self._as_json = as_json
        self._lost: OSError | None = None

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        if isinstance(event, RunFinished):
            self._try(lambda: self._keep_results(event))
            self._try(lambda: _tell_github(self._prepared, event))
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

        prepared = self._prepared
        data = results_json(
            prepared.kernel,
            prepared.plans,
            finished.results,
            prepared.excluded,
            prepared.folded,
            prepared.not_folded,
            interrupted=finished.interrupted,
        )
        return json.dumps({**data, **self._more(finished.results)}, indent=1) + "\n"


def _without_tail(result: BuildResult) -> BuildResult:
    return replace(result, failure=replace(result.failure, tail=())) if result.failure else result


def _tell_github(prepared: Prepared, finished: RunFinished) -> None:
    from wheelsmith.report.github import github_summary

    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(github_summary(prepared.kernel, prepared.plans, finished))


def exit_code(prepared: Prepared, outcome: Outcome) -> ExitCode:
    """Return what a run ends with."""
    if outcome.interrupted:
        return ExitCode.INTERRUPTED
    if not prepared.plans:
        return ExitCode.NOTHING_SELECTED
    answered = {result.cell.id for result in outcome.results if result.wheel}
    return ExitCode.OK if all(plan.cell.id in answered for plan in prepared.plans) else ExitCode.CELLS_FAILED
