"""``wheelsmith build-matrix``."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from wheelsmith.cli.options import SIZE, engine_option, json_option, make_request, matrix_option, selection_options
from wheelsmith.cli.plan import plan_json, show_plan
from wheelsmith.errors import ExitCode
from wheelsmith.events import Event, RunFinished
from wheelsmith.files import atomic_write
from wheelsmith.model import BuildResult
from wheelsmith.prepare import Prepared, prepare
from wheelsmith.run import build


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
        return
    with reporter(progress, prepared.out) as report:
        page = BuildReport(prepared.out)

        def listen(event: Event) -> None:
            page(event)
            if isinstance(event, RunFinished):
                # Before the summary: who reads the summary may look for the file.
                _keep_results(prepared, event, as_json=as_json)
            report(event)

        with _cancelled_by_signals() as cancel:
            outcome = build(prepared, request, listen, cancel)
    ctx.exit(_exit_code(prepared, outcome.results, interrupted=outcome.interrupted))


@contextmanager
def _cancelled_by_signals() -> Iterator[threading.Event]:
    """Give a flag that Ctrl-C and SIGTERM set; asked a second time, the process ends at once."""
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


def _keep_results(prepared: Prepared, finished: RunFinished, *, as_json: bool) -> None:
    from wheelsmith.report import results_json
    from wheelsmith.report.results import github_summary

    data = results_json(
        prepared.kernel,
        prepared.plans,
        finished.results,
        prepared.excluded,
        prepared.apart,
        interrupted=finished.interrupted,
    )
    text = json.dumps(data, indent=1) + "\n"
    atomic_write(prepared.out / "results.json", text.encode())
    if as_json:
        click.echo(text, nl=False)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(github_summary(finished.results, prepared.excluded))


def _exit_code(prepared: Prepared, results: tuple[BuildResult, ...], *, interrupted: bool) -> ExitCode:
    if interrupted:
        return ExitCode.INTERRUPTED
    if not prepared.plans:
        return ExitCode.NOTHING_SELECTED
    answered = {result.cell.id for result in results if result.wheel}
    return ExitCode.OK if all(plan.cell.id in answered for plan in prepared.plans) else ExitCode.CELLS_FAILED
