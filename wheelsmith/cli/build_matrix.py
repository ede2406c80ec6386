"""``wheelsmith build-matrix``."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import click

from wheelsmith.base.errors import ExitCode, system_error
from wheelsmith.cli.options import SIZE, engine_option, json_option, make_request, matrix_option, selection_options
from wheelsmith.cli.plan import plan_json, show_plan
from wheelsmith.model import BuildResult, Event, Listener, Notice, RunFinished
from wheelsmith.report.keep import ResultsFile, results_file
from wheelsmith.run.build import build, make_output_folder
from wheelsmith.run.prepare import Prepared, prepare


@click.command("build-matrix")
@matrix_option
@selection_options
@engine_option
@click.option("-j", "--jobs", type=click.IntRange(1, 1024), help="Cores to keep busy; default: all that are granted.")
@click.option("--cores-per-cell", type=click.IntRange(1, 1024), help="Cores for a cell with a build system of its own.")
@click.option("--memory", type=SIZE, help="Memory for the whole run, such as 8GiB; default: four fifths of the free.")
@click.option("--out", type=click.Path(path_type=Path), help="Where wheels, index and logs go; default: dist.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("--force", is_flag=True, help="Build also what was built before.")
@click.option(
    "--no-reuse", "reuse", flag_value=False, default=True, help="Compile everything; keep no compiled piece either."
)
@click.option("--test", is_flag=True, help="Run the matrix's test on every wheel, with a whole torch (gigabytes).")
@click.option("--fail-fast", is_flag=True, help="Stop at the first failure; default: the other cells go on.")
@click.option(
    "--progress",
    type=click.Choice(["auto", "live", "plain", "json", "quiet"]),
    default="auto",
    show_default=True,
    help="json writes events to stdout; the others write to stderr.",
)
@json_option("Print results.json on stdout at the end.")
@click.pass_context
def command(  # noqa: PLR0913  # one parameter an option
    ctx: click.Context,
    *,
    matrix: Path,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    engine: str | None,
    jobs: int | None,
    cores_per_cell: int | None,
    memory: int | None,
    out: Path | None,
    dry_run: bool,
    force: bool,
    reuse: bool,
    test: bool,
    fail_fast: bool,
    progress: str,
    as_json: bool,
) -> None:
    """Build every cell, check each wheel, publish them to an index."""
    from wheelsmith.report import reporter
    from wheelsmith.report.page import BuildReport

    request = make_request(
        matrix,
        engine,
        only=only,
        skip=skip,
        jobs=jobs,
        cores_per_cell=cores_per_cell,
        memory=memory,
        out=out,
        force=force,
        reuse=reuse,
        test=test,
        fail_fast=fail_fast,
    )
    prepared = prepare(request, reporter("plain", matrix.parent))
    if dry_run:
        if as_json:
            click.echo(json.dumps(plan_json(prepared), indent=1))
        else:
            show_plan(prepared, request)
        ctx.exit(ExitCode.OK if prepared.plans else ExitCode.NOTHING_SELECTED)
    make_output_folder(prepared.out)
    cells = len(prepared.plans) + len(prepared.excluded)
    with results_file(prepared.out, cells) as file, reporter(progress, prepared.out) as report:
        kept = _Kept(prepared, file, BuildReport(prepared.out), report, as_json=as_json)
        with _cancelled_by_signals() as cancel:
            outcome = build(prepared, kept, cancel)
    kept.check()
    ctx.exit(_exit_code(prepared, outcome.results, interrupted=outcome.interrupted))


@contextmanager
def _cancelled_by_signals() -> Iterator[threading.Event]:
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
        self, prepared: Prepared, file: ResultsFile, page: Listener, report: Listener, *, as_json: bool
    ) -> None:
        self._prepared = prepared
        self._file = file
        self._page = page
        self._report = report
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
        return json.dumps(data, indent=1) + "\n"


def _without_tail(result: BuildResult) -> BuildResult:
    return replace(result, failure=replace(result.failure, tail=())) if result.failure else result


def _tell_github(prepared: Prepared, finished: RunFinished) -> None:
    from wheelsmith.report.github import github_summary

    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(github_summary(prepared.kernel, prepared.plans, finished))


def _exit_code(prepared: Prepared, results: tuple[BuildResult, ...], *, interrupted: bool) -> ExitCode:
    if interrupted:
        return ExitCode.INTERRUPTED
    if not prepared.plans:
        return ExitCode.NOTHING_SELECTED
    answered = {result.cell.id for result in results if result.wheel}
    return ExitCode.OK if all(plan.cell.id in answered for plan in prepared.plans) else ExitCode.CELLS_FAILED
