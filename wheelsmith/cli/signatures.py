"""The commands ``wheelsmith sign`` and ``wheelsmith verify``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wheelsmith.base.ci import detect_ci_run
from wheelsmith.base.errors import ExitCode
from wheelsmith.base.offline import go_offline
from wheelsmith.base.units import counted
from wheelsmith.cli.options import json_option, make_policy, policy_options, trust_option
from wheelsmith.model.run_record import RunRecord

if TYPE_CHECKING:
    from wheelsmith.run.signatures import Judgement
    from wheelsmith.wheel.attestation.keys import Signer

_PROVENANCE_RULE = "it requires a workflow on github.com or gitlab.com, and a timestamp in the log"


@click.command("sign")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("dist"))
@click.option(
    "--key",
    metavar="KEY",
    help="Private key: a PEM file, env:NAME for a variable, or a URI such as awskms:… or gcpkms:….",
)
@click.option("--public-key", type=click.Path(path_type=Path), help="Public key in PEM if --key is in a service.")
@click.option(
    "--keyless",
    is_flag=True,
    help="Sign with a certificate for the token of the CI system, and an entry in a public log.",
)
@click.option(
    "--identity-token",
    metavar="env:NAME",
    help="Variable with the token for --keyless.  [default: from the CI system]",
)
@trust_option
@click.option(
    "--builder", metavar="URI", help="Name of the builder.  [default: the CI system, or urn:wheelsmith:builder:local]"
)
@json_option()
def sign_command(*, folder: Path, builder: str | None, as_json: bool, **given: Any) -> None:
    """Sign the wheels of a run with statements of their provenance.

    FOLDER is the output folder of build-matrix or join. The signatures go next to the wheels and into the index.
    """
    from wheelsmith.run.signatures import sign

    if given["keyless"] and builder:
        raise click.UsageError("--builder cannot be used with --keyless: the certificate names the builder")
    run, (signer, hint) = detect_ci_run(), _signer(**given)
    result = sign(folder, signer, replace(run, builder=builder or run.builder))
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "key": hint, **result.to_json()}, indent=1))
    without_provenance = sum(not each.provenance for each in result.signed)
    if given["keyless"] and without_provenance:
        click.echo(
            f"{counted(without_provenance, 'wheel')} without provenance for indexes (PEP 740): {_PROVENANCE_RULE}",
            err=True,
        )
    if older := RunRecord.read(folder).older_wheels:
        click.echo(f"{counted(len(older), 'wheel')} of an older source left out: build again", err=True)
    click.echo(result.summary, err=True)


def _signer(
    *, key: str | None, public_key: Path | None, keyless: bool, identity_token: str | None, trust_config: Path | None
) -> tuple[Signer, str | None]:
    """Return the signer and its key hint, which is None without a key.

    :raises click.UsageError: the options contradict one another.
    """
    if bool(key) == keyless:
        raise click.UsageError("choose how to sign: --key release.key or --keyless")
    if key:
        from wheelsmith.wheel.attestation.keys import key_signer

        if identity_token or trust_config:
            raise click.UsageError("--identity-token and --trust-config require --keyless")
        signer = key_signer(key, public_key)
        return signer, signer.public.hint
    from wheelsmith.wheel.attestation.keyless import KeylessSigner

    if public_key:
        raise click.UsageError("--public-key requires --key")
    return KeylessSigner.from_token(identity_token, trust_config), None


@click.command("verify")
@click.argument("wheels", nargs=-1, required=True)
@policy_options
@click.option(
    "--bundle", type=click.Path(path_type=Path), help="Signature of a single wheel.  [default: the file next to it]"
)
@click.option("--offline", is_flag=True, help="Do not use the network.")
@json_option()
@click.pass_context
def verify_command(
    ctx: click.Context,
    /,
    *,
    wheels: tuple[str, ...],
    bundle: Path | None,
    offline: bool,
    as_json: bool,
    **policy: Any,
) -> None:
    """Verify the signatures and provenance of wheels.

    WHEELS are files, folders with wheels or an index, or addresses of indexes.
    """
    from wheelsmith.model import ignore
    from wheelsmith.run.signatures import verify

    if offline:
        go_offline(Path())
    if bundle and (len(wheels) != 1 or not Path(wheels[0]).is_file()):
        raise click.UsageError("--bundle requires a single wheel file")
    judgements = list(verify(wheels, make_policy(**policy), ignore, bundle))
    if as_json:
        data = {"schema_version": 1, "wheels": [judgement.to_json() for judgement in judgements]}
        click.echo(json.dumps(data, indent=1))
    else:
        _show(judgements)
    ok = judgements and all(judgement.verified for judgement in judgements)
    ctx.exit(ExitCode.OK if ok else ExitCode.CELLS_FAILED)


def _show(judgements: list[Judgement]) -> None:
    from wheelsmith.engine import visible

    for judgement in judgements:
        if verified := judgement.verified:
            commit = verified.commit or verified.revision
            revision = f"@{commit[:12]}" if commit else ""
            click.echo(visible(f"✓ {judgement.wheel}: signed by {verified.signer}"))
            click.echo(visible(f"    built from {verified.source}{revision} by {verified.builder}"))
            if verified.certificate and verified.certificate.repository:
                click.echo(visible(f"    repository in the certificate: {verified.certificate.repository}"))
        else:
            click.echo(visible(f"✗ {judgement.wheel}"))
            click.echo(visible(f"    {judgement.refused}"))
