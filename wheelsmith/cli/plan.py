"""``wheelsmith plan``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.cli.options import (
    engine_option,
    json_option,
    keep_offline,
    locked_option,
    make_request,
    matrix_option,
    offline_option,
    selection_options,
)
from wheelsmith.cli.sharding import Splitting, build_options, shard_plan_option, shard_plan_path, shards_options
from wheelsmith.plan.shards import Shard
from wheelsmith.run.build import stored_wheels
from wheelsmith.run.prepare import Prepared, Request, prepare


@click.command("plan")
@matrix_option
@selection_options
@engine_option
@locked_option
@offline_option
@json_option("Print every plan and every exclusion as JSON on stdout.")
@shards_options
@shard_plan_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "github-matrix", "gitlab", "buildkite"]),
    default="table",
    show_default=True,
    help="What is printed; the last two are of --shards.",
)
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
    as_json: bool,
    shards: int | None,
    max_shards: int,
    max_hours: int,
    cores: int,
    shard_plan: Path | None,
    form: str,
) -> None:
    """Show what would be built, cell by cell, and why not the rest; --shards splits it among the jobs of a pipeline."""
    from wheelsmith.report import reporter

    if offline:
        keep_offline(matrix)
    request = make_request(matrix, engine, only=only, skip=skip, locked=locked)
    if shards is None and form in {"gitlab", "buildkite"}:
        raise click.UsageError(f"--format {form} is of --shards")
    listen = reporter("plain", matrix.parent)
    prepared = prepare(request, listen)
    if shards is not None:
        from wheelsmith.run.shards import sharded_plan, write_shards

        how = Splitting(count=shards, most=max_shards, hours=max_hours, cores=cores)
        plan = sharded_plan(prepared, how.divide)
        write_shards(plan, shard_plan_path(shard_plan, matrix))
        how.warn(plan.shards, listen)
        again = build_options(matrix=matrix, engine=engine, shard_plan=shard_plan, locked=locked, offline=offline)
        _show_shards(plan.shards, form, cores, again, as_json=as_json)
    elif as_json:
        click.echo(json.dumps(plan_json(prepared), indent=1))
    elif form == "github-matrix":
        click.echo(json.dumps({"include": [{"cell": plan.cell.id} for plan in prepared.plans]}))
    else:
        show_plan(prepared, request)
    ctx.exit(ExitCode.OK if prepared.plans else ExitCode.NOTHING_SELECTED)


def _show_shards(shards: Sequence[Shard], form: str, cores: int, options: Sequence[str], *, as_json: bool) -> None:
    from wheelsmith.report import make_console
    from wheelsmith.report.shards import show_shards
    from wheelsmith.report.tables import shard_table

    if as_json:
        click.echo(json.dumps({"schema_version": 1, "shards": [shard.to_json() for shard in shards]}, indent=1))
    elif form == "table":
        make_console(stderr=False).print(shard_table(shards, cores))
    else:
        click.echo(show_shards(shards, form, options))


def plan_json(prepared: Prepared) -> dict[str, object]:
    """Return the whole plan as data."""
    folded = prepared.folded
    return {
        "schema_version": 1,
        "kernel": prepared.kernel,
        "engine": prepared.engine.name,
        "plans": [
            {
                **plan.to_json(),
                "digest": plan.build_digest,
                "folded": folded[plan.cell.id].to_json() if plan.cell.id in folded else None,
                "not_folded": prepared.not_folded.get(plan.cell.id),
            }
            for plan in prepared.plans
        ],
        "excluded": [{"id": item.cell.id, **item.to_json()} for item in prepared.excluded],
    }


def show_plan(prepared: Prepared, request: Request) -> None:
    """Print the plan as a table on stdout."""
    from wheelsmith.report import make_console, plan_table, reasons, totals

    cached = frozenset(stored_wheels(prepared.plans, request.cache, prepared.engine))
    console = make_console(stderr=False)
    folded = prepared.folded
    table = plan_table(prepared.plans, prepared.excluded, folded, cached=cached, not_folded=prepared.not_folded)
    console.print(table)
    made = sum(build.plan.build_digest in cached for build in prepared.builds)
    console.print(f"{totals(prepared.plans, folded)}, {made} of them made before")
    for line in reasons(folded):
        console.print(f"  {line}")
