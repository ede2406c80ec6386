"""``wheelsmith sign``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from wheelsmith.base.ci import ci_run
from wheelsmith.base.units import counted
from wheelsmith.cli.options import json_option


@click.command("sign")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("dist"))
@click.option(
    "--key",
    metavar="KEY",
    required=True,
    help="A private key: a file in PEM, env:NAME of a variable that holds one, or a URI such as awskms:… or gcpkms:….",
)
@click.option(
    "--public-key", type=click.Path(path_type=Path), help="The public key in PEM of a --key that is in a service."
)
@click.option("--builder", metavar="URI", help="Who built; default: what the CI system says, or that it was a person.")
@json_option("Print what was signed as JSON on stdout.")
def command(*, folder: Path, key: str, public_key: Path | None, builder: str | None, as_json: bool) -> None:
    """Sign every wheel that a run left, each with a statement of how it was made.

    FOLDER is the output folder of build-matrix or join. What is signed goes into its index, and beside the wheels.
    """
    from wheelsmith.run.signing import Signing, sign
    from wheelsmith.wheel.attestation.keys import signing_key

    run, opened = ci_run(), signing_key(key, public_key)
    signed = sign(Signing(folder=folder, key=opened, by=replace(run, builder=builder or run.builder)))
    if as_json:
        told = [each.to_json() for each in signed]
        click.echo(json.dumps({"schema_version": 1, "key": opened.public.hint, "signed": told}, indent=1))
    new = sum(each.new for each in signed)
    click.echo(f"{counted(new, 'wheel')} signed, {counted(len(signed) - new, 'was', 'were')} before", err=True)
