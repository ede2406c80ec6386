"""The command ``wheelsmith coverage``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from wheelsmith.base.errors import SelectionError
from wheelsmith.base.suggest import did_you_mean
from wheelsmith.base.units import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelsmith.index.site.coverage import CoverageRow

_NO_CELL = ""  # the matrix of the project has no such combination


@click.command("coverage")
@click.argument("target", metavar="[INDEX]", default="dist/index")
@click.option("--project", "projects", multiple=True, metavar="GLOB", help="Only these projects. Repeatable.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "markdown", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)
def command(*, target: str, projects: tuple[str, ...], output_format: str) -> None:
    """Show which project of an index has a wheel for which combination.

    INDEX is a folder, s3://…, gs://…, az://…, hf://… or github://…; the default is the index of the last run.
    """
    from wheelsmith.index.entries.stored_states import load_states
    from wheelsmith.index.site.coverage import common_combinations, coverage
    from wheelsmith.index.storage.location import open_storage
    from wheelsmith.matrix.expand import matches_glob

    states = load_states(open_storage(target))
    if not states:
        raise SelectionError(f"{target} has no projects", remedy="build some, or name another index")
    for pattern in projects:
        if not any(matches_glob(pattern, name) for name in states):
            raise SelectionError(f"{pattern!r} matches no project of {target}", remedy=did_you_mean(pattern, states))
    chosen = [
        state
        for name, state in states.items()
        if not projects or any(matches_glob(pattern, name) for pattern in projects)
    ]
    rows = coverage(chosen)
    common = common_combinations(rows)
    if output_format == "json":
        data = {"schema_version": 1, "rows": [row.to_json() for row in rows], "common": list(common)}
        click.echo(json.dumps(data, indent=1))
    elif output_format == "markdown":
        from wheelsmith.report.markdown import coverage_table

        click.echo("\n".join(coverage_table(rows, rows)))
    else:
        _show(rows, common)


def _show(rows: Sequence[CoverageRow], common: Sequence[str]) -> None:
    """Print a table, a legend, and the combinations that all projects have in common."""
    from rich.table import Table

    from wheelsmith.index.site.coverage import columns
    from wheelsmith.report import make_console

    console, headings = make_console(stderr=False), columns(rows)
    table = Table("project", box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading.replace(", ", "\n"), justify="center")
    for row in rows:
        table.add_row(row.title, *(row.signs.get(heading, _NO_CELL) for heading in headings))
    console.print(table)
    used = dict.fromkeys(each.status.shown for row in rows for each in row.combinations)
    console.print("\n" + "  ".join(f"{status.sign} {status.meaning}" for status in used))
    reasons = dict.fromkeys(
        f"{row.title}, {each.column}: {each.reason}" for row in rows for each in row.combinations if each.reason
    )
    for reason in reasons:
        console.print(f"  {reason}", markup=False)
    if len(rows) > 1:
        console.print(f"all of them have a wheel for: {listed(common) if common else 'no combination'}")
