"""``wheelsmith publish``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from wheelsmith.base.units import counted
from wheelsmith.cli.options import json_option
from wheelsmith.cli.storage import (
    address_option,
    channel_option,
    dry_run_option,
    open_index,
    published_json,
    show_writes,
    target_argument,
)
from wheelsmith.index.entries import IndexEntry, index_address, roots
from wheelsmith.index.publish import (
    Published,
    channel_address,
    hub_builds,
    mark_sources,
    publish,
    release_from,
    tell_address,
)
from wheelsmith.index.publish import replace_signatures as replacing


@click.command("publish")
@target_argument
@click.option(
    "--from",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    default=(Path("dist/index"),),
    show_default="dist/index",
    help="An index as build-matrix made it, or a folder of wheels; repeatable, for what several jobs made.",
)
@click.option(
    "--replace-signatures",
    is_flag=True,
    help="Of wheels that are there with another signature, take the one that is published now.",
)
@address_option
@channel_option
@dry_run_option
@json_option("Print what was published, or would be, as JSON on stdout.")
def command(
    *,
    target: str,
    folders: tuple[Path, ...],
    replace_signatures: bool,
    found_at: str | None,
    channel: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Publish built wheels to an index: a folder, s3://…, gs://…, az://… or hf://….

    Wheels that are there already change nothing; one whose bytes differ from what was published is refused.
    """
    if channel is not None:
        target, found_at = channel_address(target, channel), found_at and channel_address(found_at, channel)
    address = index_address(found_at) if found_at else None
    release = release_from(folders)
    opened = open_index(target, dry_run=dry_run)
    with hub_builds(release.offers, target) as beside:
        published = publish(opened.used, release, beside.builds)
        replaced = replacing(opened.used, release) if replace_signatures else ()
        if address:
            tell_address(opened.used, release, address)
        if not dry_run:
            mark_sources(folders, release)
        # What is laid out for the Hub is there as long as the block runs.
        if as_json:
            signed = {
                "signed_otherwise": [entry.filename for entry in published.signed_otherwise if not replaced],
                "replaced_signatures": [entry.filename for entry in replaced],
            }
            data = {**published_json(opened, published), **signed, "without_hub_build": beside.left_out}
            click.echo(json.dumps(data, indent=1))
            return
        show_writes(opened.writes)
    for entry in published.new:
        click.echo(f"+ {entry.filename}: {', '.join(roots(entry)) or 'on no page'}", err=True)
    for filename, reason in beside.left_out.items():
        click.echo(f"no build for the kernels library: {filename}: {reason}", err=True)
    _say_signed(published, replaced, dry_run=dry_run)
    without = sum(map(len, release.said.answers.values()))
    left = f", {counted(without, 'cell')} without a wheel" if without else ""
    new, known = counted(len(published.new), "wheel"), counted(len(published.known), "was", "were")
    click.echo(f"{new} {'would be new' if dry_run else 'new'}, {known} there{left}: {opened.name}", err=True)


def _say_signed(published: Published, replaced: tuple[IndexEntry, ...], *, dry_run: bool) -> None:
    if replaced:
        signed = counted(len(replaced), "signature")
        click.echo(f"{signed} {'would be replaced' if dry_run else 'replaced'}", err=True)
    elif published.signed_otherwise:
        kept = counted(len(published.signed_otherwise), "wheel")
        click.echo(f"{kept} there with another signature, which stays: to replace it, --replace-signatures", err=True)
