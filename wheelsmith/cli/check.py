"""The command ``wheelsmith check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wheelsmith.base.errors import ExitCode, WheelError
from wheelsmith.base.redact import file_name
from wheelsmith.base.sanitize import visible
from wheelsmith.cli.options import declare_option, json_option
from wheelsmith.wheel.reader import WheelReader
from wheelsmith.wheel.report import CheckReport, Finding

if TYPE_CHECKING:
    from rich.console import Console


@click.command("check")
@click.argument("wheels", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Show passed rules too.")
@declare_option
@json_option()
@click.pass_context
def command(
    ctx: click.Context, *, wheels: tuple[Path, ...], verbose: bool, declared: tuple[str, ...], as_json: bool
) -> None:
    """Check the metadata, symbols and GPU code of wheels.

    WHEELS are files, or folders with wheels or an index.
    """
    from wheelsmith.index.publish.input_folders import wheels_of_folder
    from wheelsmith.report import make_console

    paths = dict.fromkeys(path for place in wheels for path in (wheels_of_folder(place) if place.is_dir() else [place]))
    with WheelReader() as reader:
        reports = [_check(reader, path, declared) for path in paths]
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "wheels": [r.to_json() for r in reports]}, indent=1))
    else:
        console = make_console(stderr=False)
        for report in reports:
            _show(report, console, verbose=verbose)
    ctx.exit(ExitCode.OK if all(report.ok for report in reports) else ExitCode.CELLS_FAILED)


def _check(reader: WheelReader, path: Path, declared: tuple[str, ...]) -> CheckReport:
    """Check a wheel. An unreadable wheel becomes a finding, so that the other wheels are still checked."""
    try:
        return reader.check(path, declared=declared)
    except WheelError as error:
        message = f"{error.message}; {error.remedy}" if error.remedy else error.message
        return CheckReport(wheel=file_name(path), findings=(Finding(rule="readable", ok=False, message=message),))


def _show(report: CheckReport, console: Console, *, verbose: bool) -> None:
    mark, style = ("✓", "green") if report.ok else ("✗", "red")
    console.print(visible(f"{mark} {report.wheel}"), style=style, soft_wrap=True)
    for finding in report.findings:
        if verbose or finding.note or not finding.ok:
            word = "note " if finding.note else "ok   " if finding.ok else "wrong"
            console.print(visible(f"  {word} {finding.rule}: {finding.message}"), soft_wrap=True)
