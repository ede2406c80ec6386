"""The command ``wheelsmith repack``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.base.sanitize import visible
from wheelsmith.cli.options import json_option, make_request, prune_option
from wheelsmith.cli.run_with_reports import exit_code, preparing_reporter, progress_options, run_prepared
from wheelsmith.model import CellFinished, Event, RunFinished, RunStarted
from wheelsmith.model.build_host import AUTO, ENGINES
from wheelsmith.model.run_record import RunRecord
from wheelsmith.plan.repack.plans import VariantResult
from wheelsmith.run.repack import RepackRequest, prepare_repack


@click.command("repack")
@click.argument("repo")
@click.option("--only", multiple=True, metavar="GLOB", help="Use only these variants. Repeatable.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Skip these variants. Repeatable.")
@click.option("--distribution", metavar="NAME", help="Project name in the index.  [default: from the kernel]")
@click.option("--module", metavar="NAME", help="Import name.  [default: from the kernel]")
@click.option("--version", "version", metavar="VERSION", help="Version of the wheels.  [default: from the builds]")
@click.option(
    "--engine",
    type=click.Choice([AUTO, *ENGINES]),
    default=AUTO,
    show_default=True,
    help="Engine that reads and checks the builds.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Output folder.  [default: dist]")
@click.option("--force", is_flag=True, help="Convert builds again that are in the cache.")
@prune_option
@progress_options
@json_option("Print results.json at the end.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    repo: str,
    distribution: str | None,
    module: str | None,
    version: str | None,
    progress: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Convert the builds of a Hub repo to checked wheels.

    REPO is hub:org/name or hub:org/name@revision, or a folder that contains build/<variant>/.
    """
    run_request = make_request(Path(), **options)
    request = RepackRequest(repo=repo, run=run_request, distribution=distribution, module=module, version=version)
    prepared, variants = prepare_repack(request, preparing_reporter(progress, Path()))
    record = run_prepared(
        prepared,
        progress=progress,
        as_json=as_json,
        complete=lambda record: replace(
            record, variants={answer.variant: _variant_json(answer, record) for answer in variants}
        ),
        filter_event=partial(_only_builds, frozenset(build.plan.cell.id for build in prepared.builds)),
    )
    for answer in variants:
        if answer.reason is not None:
            mark = "refused" if answer.refused else "excluded"
            click.echo(f"{mark}: {visible(answer.variant)}: {visible(answer.reason)}", err=True)
    code = exit_code(record)
    refused = any(answer.refused for answer in variants)
    ctx.exit(ExitCode.CELLS_FAILED if refused and code in {ExitCode.OK, ExitCode.NOTHING_SELECTED} else code)


def _only_builds(cells: frozenset[str], event: Event) -> Event | None:
    """Remove cells that share a wheel from an event, since a wheel without compiled code serves dozens of cells.

    :param cells: the ids of the cells that have a build.
    """
    match event:
        case RunStarted():
            return replace(event, plans=tuple(plan for plan in event.plans if plan.cell.id in cells), folded={})
        case RunFinished():
            return replace(event, results=tuple(result for result in event.results if result.cell.id in cells))
        case CellFinished() if event.result.cell.id not in cells:
            return None
    return event


def _variant_json(answer: VariantResult, record: RunRecord) -> dict[str, str | None]:
    if answer.reason is not None:
        return {"status": "refused" if answer.refused else "excluded", "reason": answer.reason}
    cell = record.cells.get(answer.cell or "")
    result = cell.result if cell else None
    failure = result.failure if result else None
    return {
        "status": "repacked" if result and result.wheel else result.status.value if result else "cancelled",
        "wheel": result.wheel.filename if result and result.wheel else None,
        "reason": failure.message if failure else None,
    }
