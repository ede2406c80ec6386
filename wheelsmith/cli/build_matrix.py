"""``wheelsmith build-matrix``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.cli.options import (
    SIZE,
    engine_option,
    json_option,
    keep_offline,
    locked_option,
    make_request,
    matrix_option,
    offline_option,
    selection_options,
)
from wheelsmith.cli.plan import plan_json, show_plan
from wheelsmith.cli.run_with_reports import exit_code, progress_option, run_prepared
from wheelsmith.cli.sharding import shard_plan_option, shard_plan_path
from wheelsmith.run.prepare import prepare
from wheelsmith.run.shards import chosen_shard


@click.command("build-matrix")
@matrix_option
@selection_options
@engine_option
@locked_option
@offline_option
@click.option("--shard", metavar="K/N", help="Build one shard of what plan --shards split.")
@shard_plan_option
@click.option("-j", "--jobs", type=click.IntRange(1, 1024), help="Cores to keep busy; default: all that are granted.")
@click.option(
    "--cores-per-cell",
    type=click.IntRange(1, 1024),
    help="Cores for a project, on engine local.",
)
@click.option("--memory", type=SIZE, help="Memory for the whole run, such as 8GiB; default: four fifths of the free.")
@click.option("--out", type=click.Path(path_type=Path), help="Where wheels, index and logs go; default: dist.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("--force", is_flag=True, help="Build also what was built before.")
@click.option(
    "--no-reuse", "reuse", flag_value=False, default=True, help="Compile everything; keep no compiled piece either."
)
@click.option("--test", is_flag=True, help="Run the matrix's test on every wheel, with a whole torch (gigabytes).")
@click.option("--fail-fast", is_flag=True, help="Stop at the first failure; default: the other cells go on.")
@progress_option
@json_option("Print results.json on stdout at the end.")
@click.pass_context
def command(  # noqa: PLR0913  # one parameter an option
    ctx: click.Context,
    *,
    matrix: Path,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    engine: str | None,
    locked: bool,
    offline: bool,
    shard: str | None,
    shard_plan: Path | None,
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

    if offline:
        keep_offline(matrix)
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
        locked=locked,
    )
    part = chosen_shard(shard, shard_plan_path(shard_plan, matrix)) if shard is not None else None
    if part and (only or skip):
        raise click.UsageError("a shard has its cells: --only and --skip choose others")
    if part and not part.cells:
        click.echo(f"shard {shard} has nothing to build", err=True)
        ctx.exit(ExitCode.OK)
    listen = reporter("plain", matrix.parent)
    prepared = part.prepare(request, listen) if part else prepare(request, listen)
    if dry_run:
        if as_json:
            click.echo(json.dumps(plan_json(prepared), indent=1))
        else:
            show_plan(prepared, request)
        ctx.exit(ExitCode.OK if prepared.plans else ExitCode.NOTHING_SELECTED)
    name = part.name if part else None
    record = run_prepared(
        prepared, progress=progress, as_json=as_json, complete=lambda record: replace(record, shard=name)
    )
    ctx.exit(exit_code(record))
