"""``wheelsmith ci``."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from wheelsmith import __version__
from wheelsmith.base.errors import ExitCode
from wheelsmith.cli.verbs import Verbs


@click.group("ci", cls=Verbs)
def command() -> None:
    """Write a pipeline: plan, build in several jobs, join, sign, publish."""


@command.command("github")
@click.option("--matrix", default="matrix.yaml", show_default=True, help="The matrix file, in the repository.")
@click.option("--shards", default="auto", show_default=True, metavar="NUMBER|auto", help="How many jobs build.")
@click.option("--locked", is_flag=True, help="Refuse what is not as wheelsmith.lock has it.")
@click.option(
    "--wheelsmith",
    default=f"wheelsmith=={__version__}",
    show_default=True,
    metavar="REQUIREMENT",
    help="What pip installs.",
)
@click.option("--python", default="3.12", show_default=True, help="The Python that runs it.")
@click.option("--sign", is_flag=True, help="Sign, by the private key in the secret WHEELSMITH_KEY.")
@click.option("--publish", metavar="INDEX", help="Publish at tags: s3://…, gs://…, az://… or hf://….")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="The file; default: .github/workflows/wheels.yml. A dash is stdout.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where the file would be another.")
@click.pass_context
def github(  # noqa: PLR0913  # one parameter an option
    ctx: click.Context,
    *,
    matrix: str,
    shards: str,
    locked: bool,
    wheelsmith: str,
    python: str,
    sign: bool,
    publish: str | None,
    output: Path | None,
    check: bool,
) -> None:
    """Write a workflow for GitHub Actions, and show what changed of the one that is there."""
    from wheelsmith.report.pipelines import GITHUB_FILE, Pipeline, github_workflow

    pipeline = Pipeline(
        matrix=matrix,
        shards=shards,
        locked=locked,
        wheelsmith=wheelsmith,
        python=python,
        sign=sign,
        publish=publish,
    )
    text = github_workflow(pipeline)
    if output == Path("-"):
        click.echo(text, nl=False)
        return
    ctx.exit(_write(output or Path(GITHUB_FILE), text, check=check))


def _write(path: Path, text: str, *, check: bool) -> ExitCode:
    """Show what changes, and let it be so unless it is only looked at."""
    from wheelsmith.base.errors import OutputError
    from wheelsmith.base.files import atomic_write
    from wheelsmith.report.pipelines import WRITTEN

    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if before and not before.startswith(WRITTEN):
        raise OutputError(f"{path} is not one that wheelsmith wrote", remedy="name another: --output FILE")
    named = difflib.unified_diff(before.splitlines(), text.splitlines(), str(path), str(path), lineterm="")
    for line in named if before else ():
        click.echo(line)
    if before == text:
        click.echo(f"{path} is as it should be", err=True)
        return ExitCode.OK
    if check:
        click.echo(f"{path} would be {'another' if before else 'new'}", err=True)
        return ExitCode.CELLS_FAILED
    atomic_write(path, text.encode())
    click.echo(f"wrote {path}", err=True)
    return ExitCode.OK
