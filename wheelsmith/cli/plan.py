"""``wheelsmith plan``."""

from __future__ import annotations

import json
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
from wheelsmith.run.prepare import Prepared, Request, prepare
from wheelsmith.run.stored import stored_wheels


@click.command("plan")
@matrix_option
@selection_options
@engine_option
@locked_option
@offline_option
@json_option("Print every plan and every exclusion as JSON on stdout.")
@click.option("--format", "form", type=click.Choice(["table", "github-matrix"]), default="table", show_default=True)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    matrix: Path,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    engine: str | None,
    locked: bool,
    offline: bool,
    as_json: bool,
    form: str,
) -> None:
    """Show what would be built, cell by cell, and why not the rest."""
    from wheelsmith.report import reporter

    if offline:
        keep_offline(matrix)
    request = make_request(matrix, engine, only=only, skip=skip, locked=locked)
    prepared = prepare(request, reporter("plain", matrix.parent))
    if as_json:
        click.echo(json.dumps(plan_json(prepared), indent=1))
    elif form == "github-matrix":
        click.echo(json.dumps({"include": [{"cell": plan.cell.id} for plan in prepared.plans]}))
    else:
        show_plan(prepared, request)
    ctx.exit(ExitCode.OK if prepared.plans else ExitCode.NOTHING_SELECTED)


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

    cached = frozenset(stored_wheels(prepared.plans, request.cache))
    console = make_console(stderr=False)
    folded = prepared.folded
    table = plan_table(prepared.plans, prepared.excluded, folded, cached=cached, not_folded=prepared.not_folded)
    console.print(table)
    made = sum(build.plan.build_digest in cached for build in prepared.builds)
    console.print(f"{totals(prepared.plans, folded)}, {made} of them made before")
    for line in reasons(folded):
        console.print(f"  {line}")
