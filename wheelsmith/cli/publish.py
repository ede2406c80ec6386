"""The commands ``wheelsmith publish`` and ``wheelsmith promote``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import counted
from wheelsmith.cli.options import json_option
from wheelsmith.cli.storage import (
    address_option,
    channel_option,
    dry_run_option,
    open_index,
    published_json,
    published_text,
    show_writes,
    target_argument,
)
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.entries.state import check_project, normalize_address
from wheelsmith.index.publish.input_folders import read_releases
from wheelsmith.index.publish.kernels_layout import hub_builds
from wheelsmith.index.publish.promote import Promotion, RequiredOutcome, channel_address, promote_all, public_version
from wheelsmith.index.publish.publishing import (
    Published,
    publish,
    requirement_notes,
    set_index_address,
    signature_warnings,
)
from wheelsmith.index.publish.publishing import replace_signatures as update_signatures
from wheelsmith.index.storage.location import open_storage


@click.command("publish")
@target_argument
@click.option(
    "--from",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    default=(Path("dist/index"),),
    help="Index of build-matrix, or folder of wheels. Repeatable.  [default: dist/index]",
)
@click.option(
    "--replace-signatures",
    is_flag=True,
    help="Replace different signatures of published wheels.",
)
@address_option
@channel_option
@dry_run_option
@json_option()
def command(
    *,
    target: str,
    folders: tuple[Path, ...],
    replace_signatures: bool,
    public_address: str | None,
    channel: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Publish wheels to a folder, a bucket, a Hub repo or GitHub.

    INDEX is a folder, s3://…, gs://…, az://…, hf://… or github://…. A published file name with other content is
    refused.
    """
    if channel is not None:
        target, public_address = (
            channel_address(target, channel),
            public_address and channel_address(public_address, channel),
        )
    address = normalize_address(public_address) if public_address else None
    release = read_releases(folders)
    opened = open_index(target, dry_run=dry_run)
    with hub_builds(release.uploads, target) as hub:
        published = publish(opened.storage, release, hub.builds)
        replaced = update_signatures(opened.storage, release) if replace_signatures else ()
        if address:
            set_index_address(opened.storage, release, address)
        for text in requirement_notes(opened.storage, (*published.new, *published.known)):
            click.echo(visible(f"note: {text}"), err=True)
        for text in signature_warnings(opened.storage, published):
            click.echo(visible(f"warning: {text}"), err=True)
        # The files for the Hub exist only within this block.
        if as_json:
            signed = {
                "signed_otherwise": [entry.filename for entry in published.signed_otherwise if not replaced],
                "replaced_signatures": [entry.filename for entry in replaced],
            }
            data = {**published_json(opened, published), **signed, "without_hub_build": hub.left_out}
            click.echo(json.dumps(data, indent=1))
            return
        show_writes(opened.writes)
    for entry in published.new:
        click.echo(f"+ {entry.filename}: {', '.join(entry.roots) or 'not on any page'}", err=True)
    for filename, reason in hub.left_out.items():
        click.echo(f"no build for the kernels library: {filename}: {reason}", err=True)
    _show_signatures(published, replaced, dry_run=dry_run)
    missing_count = sum(map(len, release.answers.values()))
    missing = f", {counted(missing_count, 'combination')} without a wheel" if missing_count else ""
    click.echo(f"{published_text(published, 'published', dry_run=dry_run)}{missing}: {opened.name}", err=True)


def _show_signatures(published: Published, replaced: tuple[IndexEntry, ...], *, dry_run: bool) -> None:
    if replaced:
        signed = counted(len(replaced), "signature")
        click.echo(f"{signed} {'would be replaced' if dry_run else 'replaced'}", err=True)
    elif published.signed_otherwise:
        kept = counted(len(published.signed_otherwise), "wheel")
        click.echo(f"{kept} already signed differently; replace the signatures with --replace-signatures", err=True)


@click.command("promote")
@target_argument
@click.argument("project", required=False)
@click.argument("version", required=False)
@click.option(
    "--of",
    "out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Output folder of a run or join, instead of PROJECT VERSION.",
)
@click.option("--from", "source", required=True, metavar="CHANNEL", help="Source channel: nightly is INDEX/nightly.")
@click.option("--to", "into", required=True, metavar="CHANNEL", help="Target channel: stable is INDEX/stable.")
@click.option(
    "--require",
    type=click.Choice([each.value for each in RequiredOutcome]),
    default=RequiredOutcome.NOT_FAILED.value,
    show_default=True,
    help="Required outcome of the tests of each wheel. tested: at least one test, none failed.",
)
@click.option("--incomplete", is_flag=True, help="Promote even if planned wheels are missing or unknown.")
@address_option
@dry_run_option
@json_option()
def promote_command(  # noqa: PLR0913  # one parameter for each option
    *,
    target: str,
    project: str | None,
    version: str | None,
    out: Path | None,
    source: str,
    into: str,
    require: str,
    incomplete: bool,
    public_address: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Promote a version from one channel of an index to another.

    Either all of its wheels are promoted or none. They are neither rebuilt nor renamed. With --of, each kernel of a set
    is promoted, if all of them can be.
    """
    versions = _find_versions(project, version, out)
    address = channel_address(target, into)
    if address == channel_address(target, source):
        raise click.UsageError(f"--from and --to are the same channel: {into}")
    opened, storage = open_index(address, dry_run=dry_run), open_storage(channel_address(target, source))
    promotions = [
        Promotion(
            project=check_project(project),
            version=public_version(version),
            tests=RequiredOutcome(require),
            channel=into,
            address=normalize_address(channel_address(public_address, into)) if public_address else None,
            incomplete=incomplete,
        )
        for project, version in versions
    ]
    promoted = promote_all(storage, opened.storage, promotions, address)
    if as_json:
        click.echo(json.dumps(published_json(opened, promoted), indent=1))
        return
    show_writes(opened.writes)
    for entry in promoted.new:
        click.echo(f"+ {entry.filename}", err=True)
    click.echo(f"{published_text(promoted, 'promoted', dry_run=dry_run)}: {opened.name}", err=True)


def _find_versions(project: str | None, version: str | None, out: Path | None) -> list[tuple[str, str]]:
    """Return the projects and versions that the arguments or ``--of`` name.

    :raises click.UsageError: neither or both are given.
    """
    if out:
        from wheelsmith.run.release import read_built_versions

        if project:
            raise click.UsageError("--of cannot be used with PROJECT VERSION")
        return [(found.state.project, found.version) for found in read_built_versions(out)]
    if project is None or version is None:
        raise click.UsageError("name the version to promote: PROJECT VERSION or --of FOLDER")
    return [(project, version)]
