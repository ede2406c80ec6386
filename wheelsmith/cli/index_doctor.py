"""The command ``wheelsmith index doctor``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.base.units import counted
from wheelsmith.cli.options import Number, json_option
from wheelsmith.engine import visible

if TYPE_CHECKING:
    from rich.console import Console

    from wheelsmith.index.doctor.finding import Diagnosis, IndexFinding

_SIGNS = {"error": ("✗", "red"), "warning": ("!", "yellow"), "advice": ("-", "cyan")}


@click.command("doctor")
@click.argument("url")
@click.option(
    "--root", "roots", multiple=True, metavar="ROOT", help="Root below URL, such as cu130. Repeatable.  [default: all]"
)
@click.option(
    "--project", "projects", multiple=True, metavar="NAME", help="Project. Repeatable.  [default: the first three]"
)
@click.option(
    "--wheels",
    type=Number(0, 100),
    default=2,
    show_default=True,
    help="Number of wheels to read for each project.",
)
@json_option()
@click.pass_context
def doctor(
    ctx: click.Context, *, url: str, roots: tuple[str, ...], projects: tuple[str, ...], wheels: int, as_json: bool
) -> None:
    """Find problems of pip and uv with a live index, and show remedies."""
    from wheelsmith.index.doctor.crawl import CrawlScope, examine
    from wheelsmith.report import make_console

    diagnosis = examine(url, CrawlScope(roots=roots, projects=projects, max_wheels=wheels))
    if as_json:
        click.echo(json.dumps({"schema_version": 1, **diagnosis.to_json()}, indent=1))
    else:
        _show(diagnosis, make_console(stderr=False))
    ctx.exit(ExitCode.OK if diagnosis.ok else ExitCode.CELLS_FAILED)


def _show(diagnosis: Diagnosis, console: Console) -> None:
    for finding in diagnosis.findings:
        _show_finding(finding, console)
    for what in diagnosis.unexamined:
        console.print(visible(f"? not checked: {what}"), style="yellow", soft_wrap=True)
    counts = ((len(diagnosis.roots), "root"), (diagnosis.pages, "page"), (diagnosis.wheels, "wheel"))
    seen = ", ".join(counted(count, word) for count, word in counts)
    mark, style = ("✓", "green") if diagnosis.ok else ("✗", "red")
    verdict = "no problems found" if not diagnosis.findings else _tally(diagnosis)
    console.print(visible(f"{mark} {diagnosis.url} ({diagnosis.host}): {verdict}"), style=style, soft_wrap=True)
    console.print(f"  {seen}; {counted(diagnosis.requests, 'request')}", soft_wrap=True)


def _show_finding(finding: IndexFinding, console: Console) -> None:
    mark, style = _SIGNS[finding.severity]
    hurts = ", ".join(finding.hurts)
    console.print(visible(f"{mark} {finding.rule}: {finding.message} ({hurts})"), style=style, soft_wrap=True)
    console.print(visible(f"  help: {finding.remedy}"), soft_wrap=True)
    console.print(visible(f"  show: {finding.command}"), soft_wrap=True)
    if others := finding.places[1:]:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        console.print(visible(f"  also: {others[0]}{more}"), soft_wrap=True)


def _tally(diagnosis: Diagnosis) -> str:
    """Return the number of findings of each severity as text."""
    plurals = {"advice": "advice"}
    counts = {severity: sum(f.severity == severity for f in diagnosis.findings) for severity in _SIGNS}
    words = (counted(count, severity, plurals.get(severity)) for severity, count in counts.items() if count)
    return ", ".join(words)
