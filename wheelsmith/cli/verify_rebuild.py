"""The command ``wheelsmith verify-rebuild``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.base.files import atomic_write
from wheelsmith.cli.options import (
    chosen_mode,
    disable_network,
    engine_option,
    jobs_option,
    json_option,
    locked_option,
    make_request,
    matrix_option,
    memory_option,
    offline_option,
    quiet_option,
    verbose_option,
)
from wheelsmith.cli.run_with_reports import cancelled_by_signals
from wheelsmith.engine import visible
from wheelsmith.model import Verdict

_SIGNS = {Verdict.EQUAL: "✓", Verdict.DIFFERENT: "✗", Verdict.NOT_REBUILT: "-"}


@click.command("verify-rebuild")
@click.argument("wheels", nargs=-1, required=True)
@matrix_option
@click.option(
    "--source",
    metavar="SOURCE",
    help="Source of the kernel instead of a matrix: a folder, an archive, git+https://…@revision, or "
    "hub:org/name@revision.",
)
@engine_option
@locked_option
@offline_option
@jobs_option
@memory_option
@click.option("--page", type=click.Path(path_type=Path), help="Write an HTML report, such as rebuilt.html.")
@quiet_option
@verbose_option
@json_option()
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    wheels: tuple[str, ...],
    matrix: Path,
    source: str | None,
    offline: bool,
    page: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Rebuild wheels from their recorded plans and compare every byte.

    WHEELS are files, folders with wheels or an index, or addresses of indexes.
    """
    from wheelsmith.report import reporter
    from wheelsmith.report.page import rebuilt_page
    from wheelsmith.run.rebuild import rebuild

    if offline:
        disable_network(matrix)
    request = make_request(matrix, **options)
    mode = chosen_mode("plain", quiet=quiet, verbose=verbose)
    with reporter(mode, matrix.parent) as listen, cancelled_by_signals() as cancel:
        results = rebuild(wheels, request, source, listen, cancel)
    if page:
        atomic_write(page, rebuilt_page(results))
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "wheels": [result.to_json() for result in results]}, indent=1))
    for result in () if as_json else results:
        click.echo(visible(f"{_SIGNS[result.verdict]} {result.wheel}: {result.verdict}"))
        for text in result.differences:
            click.echo(visible(f"    {text}"))
    if cancel.is_set():
        ctx.exit(ExitCode.INTERRUPTED)
    ctx.exit(ExitCode.OK if all(result.verdict == Verdict.EQUAL for result in results) else ExitCode.CELLS_FAILED)
