"""The command ``wheelsmith outdated``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.cli.options import json_option, matrix_option
from wheelsmith.matrix.load import load_matrices
from wheelsmith.run.outdated import find_newer


@click.command("outdated")
@matrix_option
@click.option("--exit-code", is_flag=True, help="Exit with 1 if something is newer.")
@json_option()
@click.pass_context
def command(ctx: click.Context, *, matrix: Path, exit_code: bool, as_json: bool) -> None:
    """Show what is newer than the matrix: releases of frameworks and GPU toolkits, the kernel, and wheelsmith.

    wheelsmith knows the first ones. It asks repositories and package indexes for the others.
    """
    from wheelsmith.report import make_console, newer_table

    rows = find_newer(load_matrices(matrix), matrix)
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "components": [row.to_json() for row in rows]}, indent=1))
    else:
        make_console(stderr=False).print(newer_table(rows))
    ctx.exit(ExitCode.CELLS_FAILED if exit_code and any(row.command for row in rows) else ExitCode.OK)
