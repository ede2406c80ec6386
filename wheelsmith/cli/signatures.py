"""The commands ``wheelsmith sign`` and ``wheelsmith verify``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wheelsmith.base.ci import ci_run
from wheelsmith.base.errors import ExitCode
from wheelsmith.base.offline import go_offline
from wheelsmith.base.units import counted
from wheelsmith.cli.options import json_option, policy_of, policy_options, trust_option

if TYPE_CHECKING:
    from wheelsmith.run.signatures import Judgement
    from wheelsmith.wheel.attestation.keys import Signer

_BARE = "that is of workflows of github.com and gitlab.com, with a time in the log"


@click.command("sign")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("dist"))
@click.option(
    "--key",
    metavar="KEY",
    help="A private key: a file in PEM, env:NAME of a variable that holds one, or a URI such as awskms:… or gcpkms:….",
)
@click.option(
    "--public-key", type=click.Path(path_type=Path), help="The public key in PEM of a --key that is in a service."
)
@click.option(
    "--keyless",
    is_flag=True,
    help="Sign without a key: with a certificate that is had for the CI system's token, and an entry in a public log.",
)
@click.option(
    "--identity-token",
    metavar="env:NAME",
    help="A variable that holds the token for --keyless; default: the CI system is asked, where sigstore knows it.",
)
@trust_option
@click.option("--builder", metavar="URI", help="Who built; default: what the CI system says, or that it was a person.")
@json_option("Print what was signed as JSON on stdout.")
def sign_command(*, folder: Path, builder: str | None, as_json: bool, **given: Any) -> None:
    """Sign every wheel that a run left, each with a statement of how it was made.

    FOLDER is the output folder of build-matrix or join. What is signed goes into its index, and beside the wheels.
    """
    from wheelsmith.run.signatures import sign

    if given["keyless"] and builder:
        raise click.UsageError("--builder says who built; of --keyless the certificate does")
    run, (signer, hint) = ci_run(), _signer(**given)
    signed = sign(folder, signer, replace(run, builder=builder or run.builder))
    if as_json:
        told = [each.to_json() for each in signed]
        click.echo(json.dumps({"schema_version": 1, "key": hint, "signed": told}, indent=1))
    bare = sum(not each.provenance for each in signed)
    if given["keyless"] and bare:
        click.echo(f"{counted(bare, 'wheel')} without provenance for indexes (PEP 740): {_BARE}", err=True)
    new = sum(each.new for each in signed)
    click.echo(f"{counted(new, 'wheel')} signed, {counted(len(signed) - new, 'was', 'were')} before", err=True)


def _signer(
    *, key: str | None, public_key: Path | None, keyless: bool, identity_token: str | None, trust_config: Path | None
) -> tuple[Signer, str | None]:
    """Return the signer and its key hint, which is None without a key.

    :raises click.UsageError: the options contradict one another.
    """
    if bool(key) == keyless:
        raise click.UsageError("say how to sign: --key release.key, or --keyless")
    if key:
        from wheelsmith.wheel.attestation.keys import key_signer

        if identity_token or trust_config:
            raise click.UsageError("--identity-token and --trust-config go with --keyless")
        signer = key_signer(key, public_key)
        return signer, signer.public.hint
    from wheelsmith.wheel.attestation.keyless import KeylessSigner

    if public_key:
        raise click.UsageError("--public-key goes with --key")
    return KeylessSigner.with_token(identity_token, trust_config), None


@click.command("verify")
@click.argument("wheels", nargs=-1, required=True)
@policy_options
@click.option(
    "--bundle", type=click.Path(path_type=Path), help="What was signed of the one wheel; default: what lies beside it."
)
@click.option("--offline", is_flag=True, help="Ask nobody for anything.")
@json_option("Print every answer as JSON on stdout.")
@click.pass_context
def verify_command(
    ctx: click.Context,
    /,
    *,
    wheels: tuple[str, ...],
    bundle: Path | None,
    offline: bool,
    as_json: bool,
    **believed: Any,
) -> None:
    """Verify who signed wheels, and what that one says of them.

    WHEELS are files, folders with wheels or an index in them, or addresses of indexes as pip is given them.
    """
    from wheelsmith.model import ignore
    from wheelsmith.run.signatures import verify

    if offline:
        go_offline(Path())
    if bundle and (len(wheels) != 1 or not Path(wheels[0]).is_file()):
        raise click.UsageError("--bundle is of one wheel, which is a file")
    answers = list(verify(wheels, policy_of(**believed), ignore, bundle))
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "wheels": [each.to_json() for each in answers]}, indent=1))
    else:
        _show(answers)
    ctx.exit(ExitCode.OK if answers and all(each.verified for each in answers) else ExitCode.CELLS_FAILED)


def _show(answers: list[Judgement]) -> None:
    from wheelsmith.engine import visible

    for each in answers:
        if known := each.verified:
            revision = f"@{(known.commit or known.revision or '')[:12]}" if known.commit or known.revision else ""
            click.echo(visible(f"✓ {each.wheel}: signed by {known.signer}"))
            click.echo(visible(f"    made from {known.source}{revision}, by {known.builder}"))
            if known.certificate and known.certificate.repository:
                click.echo(visible(f"    in the repository {known.certificate.repository}, as the certificate says"))
        else:
            click.echo(visible(f"✗ {each.wheel}"))
            click.echo(visible(f"    {each.refused}"))
