"""``wheelsmith vendor``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.base.offline import VENDORED
from wheelsmith.base.units import counted, show_size
from wheelsmith.cli.options import engine_option, make_request, matrix_option, selection_options
from wheelsmith.plan.lock import vendor_path
from wheelsmith.run.prepare import prepare


@click.command("vendor")
@matrix_option
@selection_options
@engine_option
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    matrix: Path,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    engine: str | None,
    folder: Path | None,
) -> None:
    """Put all that the locked matrix is built from into FOLDER, for machines without a network.

    FOLDER is wheelsmith.vendor beside the matrix, where nobody says another. What it has already is not fetched again.
    """
    from wheelsmith.report import reporter
    from wheelsmith.run.vendor import vendor

    listen = reporter("plain", matrix.parent)
    target = (folder or vendor_path(matrix)).absolute()
    prepared = prepare(make_request(matrix, engine, only=only, skip=skip, locked=True), listen)
    os.environ[VENDORED] = str(target)
    found = vendor(prepared, target, listen)
    click.echo(f"{folder or vendor_path(matrix)}: {counted(found.files, 'file')}, {show_size(found.size)}")
    ctx.exit(ExitCode.OK if prepared.plans else ExitCode.NOTHING_SELECTED)
