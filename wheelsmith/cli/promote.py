"""``wheelsmith promote``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from wheelsmith.base.units import counted
from wheelsmith.cli.options import json_option
from wheelsmith.cli.storage import (
    address_option,
    dry_run_option,
    open_index,
    published_json,
    show_writes,
    target_argument,
)
from wheelsmith.index.entries import check_project, index_address
from wheelsmith.index.publish import Promotion, RequiredOutcome, channel_address, promote, public_version
from wheelsmith.index.storage import open_storage


@click.command("promote")
@target_argument
@click.argument("project", required=False)
@click.argument("version", required=False)
@click.option(
    "--of",
    "out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="What a run or join left there, in the place of PROJECT VERSION.",
)
@click.option("--from", "source", required=True, metavar="CHANNEL", help="Where it is: nightly for INDEX/nightly.")
@click.option("--to", "into", required=True, metavar="CHANNEL", help="Where it is to be: stable for INDEX/stable.")
@click.option(
    "--require",
    type=click.Choice([each.value for each in RequiredOutcome]),
    default=RequiredOutcome.NOT_FAILED.value,
    show_default=True,
    help="What the tests of each wheel came to: all passed; tested and none failed; none failed; or whatever.",
)
@click.option("--incomplete", is_flag=True, help="Promote it though planned cells have no wheel, or nobody planned it.")
@address_option
@dry_run_option
@json_option("Print what was promoted, or would be, as JSON on stdout.")
def command(  # noqa: PLR0913  # one parameter an option
    *,
    target: str,
    project: str | None,
    version: str | None,
    out: Path | None,
    source: str,
    into: str,
    require: str,
    incomplete: bool,
    found_at: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Promote a version from one channel of an index to another: all of its wheels at once, or none.

    Nothing is built again or renamed. A channel is an index of its own under the index's address.
    """
    project, version = _named(project, version, out)
    address = channel_address(target, into)
    if address == channel_address(target, source):
        raise click.UsageError(f"{into} is where it is already")
    opened = open_index(address, dry_run=dry_run)
    promotion = Promotion(
        project=check_project(project),
        version=public_version(version),
        tests=RequiredOutcome(require),
        address=index_address(channel_address(found_at, into)) if found_at else None,
        incomplete=incomplete,
    )
    promoted = promote(open_storage(channel_address(target, source)), opened.used, promotion, address)
    if as_json:
        click.echo(json.dumps(published_json(opened, promoted), indent=1))
        return
    show_writes(opened.writes)
    for entry in promoted.new:
        click.echo(f"+ {entry.filename}", err=True)
    new, known = counted(len(promoted.new), "wheel"), counted(len(promoted.known), "was", "were")
    click.echo(f"{new} {'would be ' if dry_run else ''}promoted, {known} there: {opened.name}", err=True)


def _named(project: str | None, version: str | None, out: Path | None) -> tuple[str, str]:
    """Return which version of which project is meant."""
    if out:
        from wheelsmith.run.release import built

        if project:
            raise click.UsageError("--of FOLDER stands in the place of PROJECT VERSION")
        found = built(out)
        return found.state.project, found.version
    if project is None or version is None:
        raise click.UsageError("say what is to be promoted: PROJECT VERSION, or --of FOLDER")
    return project, version
