"""The command ``wheelsmith join``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from wheelsmith.base.files import default_cache
from wheelsmith.cli.options import (
    engine_option,
    jobs_option,
    json_option,
    matrix_option,
    shard_plan_option,
    shard_plan_path,
)
from wheelsmith.cli.run_with_reports import exit_code, progress_options, run_with_reports
from wheelsmith.run.join import join, read_shard_results
from wheelsmith.run.shards import read_shards


@click.command("join")
@matrix_option
@shard_plan_option
@engine_option
@jobs_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), show_default=True, help="Output folder.")
@progress_options
@json_option("Print results.json at the end.")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.pass_context
def command(
    ctx: click.Context,
    *,
    matrix: Path,
    shard_plan: Path | None,
    engine: str | None,
    jobs: int | None,
    out: Path,
    progress: str,
    as_json: bool,
    folders: tuple[Path, ...],
) -> None:
    """Merge the output of several jobs into one index.

    FOLDERS are output folders of build-matrix --shard, or contain such folders. Every wheel is checked again.
    """
    plan = read_shards(shard_plan_path(shard_plan, matrix))
    inside = [folder for folder in folders if out.resolve().is_relative_to(folder.resolve())]
    if overlapping := inside or [folder for folder in folders if folder.resolve().is_relative_to(out.resolve())]:
        raise click.UsageError(f"--out {out} and {overlapping[0]} overlap: choose a separate output folder")
    out = out.absolute()
    reported = read_shard_results(plan, folders)
    run = partial(join, plan, reported, out=out, cache=default_cache(), engine=engine, jobs=jobs)
    # Each job has its own start and end.
    complete = partial(replace, started_on=None, finished_on=None)
    ctx.exit(exit_code(run_with_reports(plan, out, run, progress=progress, as_json=as_json, complete=complete)))
