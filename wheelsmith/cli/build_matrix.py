"""The command ``wheelsmith build-matrix``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.cli.options import (
    Number,
    disable_network,
    engine_option,
    jobs_option,
    json_option,
    kernel_option,
    locked_option,
    make_request,
    matrix_option,
    memory_option,
    offline_option,
    prune_option,
    remote_cache_options,
    selection_options,
    shard_plan_option,
    shard_plan_path,
)
from wheelsmith.cli.plan import plan_exit_code, plan_json, show_plan
from wheelsmith.cli.run_with_reports import exit_code, preparing_reporter, progress_options, run_prepared
from wheelsmith.model.run_record import RunRecord
from wheelsmith.run.prepared_set import prepare_set
from wheelsmith.run.shards import chosen_shard


@click.command("build-matrix")
@matrix_option
@kernel_option
@selection_options
@engine_option
@locked_option
@offline_option
@click.option("--shard", metavar="K/N", help="Build one shard of `plan --shards`.")
@shard_plan_option
@click.option(
    "--executor",
    default="local",
    show_default=True,
    metavar="EXECUTOR",
    help="Where to build: dask://HOST:PORT uses the workers of a Dask cluster.",
)
@jobs_option
@click.option(
    "--cores-per-cell",
    type=Number(1, 1024),
    help="CPU cores for each project build with engine local.",
)
@memory_option
@click.option("--out", type=click.Path(path_type=Path), help="Output folder.  [default: dist]")
@click.option("--dry-run", is_flag=True, help="Show the plan and exit.")
@click.option("--force", is_flag=True, help="Rebuild wheels that are in the cache.")
@click.option(
    "--no-reuse", "reuse", flag_value=False, default=True, help="Neither use nor store compiled files in the cache."
)
@remote_cache_options
@prune_option
@click.option("--test", is_flag=True, help="Run the test of the matrix on every wheel. Installs torch (gigabytes).")
@click.option("--fail-fast", is_flag=True, help="Stop after the first failure.")
@progress_options
@json_option("Print results.json at the end.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    matrix: Path,
    offline: bool,
    shard: str | None,
    shard_plan: Path | None,
    dry_run: bool,
    progress: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Build all combinations, check the wheels and write an index."""
    if offline:
        disable_network(matrix)
    request = make_request(matrix, **options)
    chosen = chosen_shard(shard, shard_plan_path(shard_plan, matrix)) if shard is not None else None
    if chosen and (request.arch or request.only or request.skip or request.kernels):
        raise click.UsageError("--arch, --kernel, --only and --skip cannot be used with --shard")
    if chosen and not chosen.cells:
        click.echo(f"shard {shard} is empty: nothing to build", err=True)
        ctx.exit(ExitCode.OK)
    listen = preparing_reporter(progress, matrix.parent)
    prepared = chosen.prepare(request, listen) if chosen else prepare_set(request, listen)
    if dry_run:
        if as_json:
            click.echo(json.dumps(plan_json(prepared), indent=1))
        else:
            show_plan(prepared, request, listen)
        ctx.exit(plan_exit_code(prepared))

    def complete(record: RunRecord) -> RunRecord:
        return replace(record, shard=chosen.name(request.cache)) if chosen else record

    record = run_prepared(prepared, progress=progress, as_json=as_json, complete=complete)
    ctx.exit(exit_code(record))
