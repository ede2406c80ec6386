"""``wheelsmith verify``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.base.offline import go_offline
from wheelsmith.cli.options import json_option
from wheelsmith.cli.signature_options import policy_of, policy_options

if TYPE_CHECKING:
    from wheelsmith.run.signatures import Judgement


@click.command("verify")
@click.argument("wheels", nargs=-1, required=True)
@policy_options
@click.option(
    "--bundle", type=click.Path(path_type=Path), help="What was signed of the one wheel; default: what lies beside it."
)
@click.option("--offline", is_flag=True, help="Ask nobody for anything.")
@json_option("Print every answer as JSON on stdout.")
@click.pass_context
def command(
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
