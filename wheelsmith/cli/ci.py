"""The command ``wheelsmith ci``."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wheelsmith import __version__
from wheelsmith.base.errors import ExitCode
from wheelsmith.cli.app import Verbs

if TYPE_CHECKING:
    from wheelsmith.report.pipelines import Pipeline

_F = TypeVar("_F", bound=Callable[..., Any])

_TESTING = (
    click.option("--channel", metavar="NAME", help="Publish to this channel of INDEX."),
    click.option("--url", help="Where INDEX is served, for who installs."),
    click.option("--project", metavar="NAME", help="What the wheels are of."),
    click.option("--test", metavar="COMMAND", help="Test what is published by this command line, beside the wheel."),
    click.option(
        "--test-on",
        multiple=True,
        metavar="RUNNER",
        help="A runner that tests: a label of GitHub's, a tag of GitLab's, a queue of Buildkite's. Repeatable.",
    ),
    click.option("--promote", metavar="CHANNEL", help="Promote what was tested to this channel."),
    click.option(
        "--require",
        type=click.Choice(("not-failed", "tested", "passed")),
        default="not-failed",
        show_default=True,
        help="What the tests of each wheel must have come to.",
    ),
)


def _pipeline_options(file: str, *, shards: str = "auto") -> Callable[[_F], _F]:
    """Add the options that all CI systems share.

    :param file: default of ``--output``.
    :param shards: default of ``--shards``.
    """
    options = (
        click.option("--matrix", default="matrix.yaml", show_default=True, help="The matrix file, in the repository."),
        click.option(
            "--shards",
            default=shards,
            show_default=True,
            metavar="NUMBER|auto" if shards == "auto" else "NUMBER",
            help="How many jobs build.",
        ),
        click.option("--locked", is_flag=True, help="Refuse what is not as wheelsmith.lock has it."),
        click.option(
            "--wheelsmith",
            default=f"wheelsmith=={__version__}",
            show_default=True,
            metavar="REQUIREMENT",
            help="What pip installs.",
        ),
        click.option("--python", default="3.12", show_default=True, help="The Python that runs it."),
        click.option("--sign", is_flag=True, help="Sign, by the private key in the secret WHEELSMITH_KEY."),
        click.option("--keyless", is_flag=True, help="Sign without a key, by the job's token; not on Buildkite."),
        click.option("--publish", metavar="INDEX", help="Publish at tags: s3://…, gs://…, az://… or hf://…."),
        *_TESTING,
        click.option(
            "--output",
            type=click.Path(path_type=Path),
            default=Path(file),
            show_default=True,
            help="The file. A dash is stdout.",
        ),
        click.option("--check", is_flag=True, help="Write nothing; exit with 1 where the file would be another."),
    )

    def add(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return click.pass_context(command)  # type: ignore[return-value]  # click.option returns the same type

    return add


@click.group("ci", cls=Verbs)
def command() -> None:
    """Write a pipeline: plan, build in several jobs, join, sign, publish, test, promote."""


@command.command("github")
@_pipeline_options(".github/workflows/wheels.yml")
def github(ctx: click.Context, **given: Any) -> None:
    """Write a workflow for GitHub Actions, and show what changed of the one that is there."""
    from wheelsmith.report.pipelines import github_workflow

    _write(ctx, github_workflow, **given)


@command.command("gitlab")
@_pipeline_options(".gitlab-ci.yml", shards="4")
def gitlab(ctx: click.Context, **given: Any) -> None:
    """Write a pipeline for GitLab, and show what changed of the one that is there.

    It has to say how many jobs build: --shards auto is refused.
    """
    from wheelsmith.report.pipelines import gitlab_pipeline

    _write(ctx, gitlab_pipeline, **given)


@command.command("buildkite")
@_pipeline_options(".buildkite/wheels.yml")
@click.option(
    "--steps",
    type=click.Path(path_type=Path),
    metavar="PLAN",
    help="Print the steps of what plan --shards split; the written pipeline does.",
)
def buildkite(ctx: click.Context, *, output: Path, steps: Path | None, **given: Any) -> None:
    """Write a pipeline for Buildkite, and show what changed of the one that is there."""
    from wheelsmith.report.pipelines import buildkite_pipeline, buildkite_shards
    from wheelsmith.run.shards import read_shards

    if steps:
        _write(ctx, partial(buildkite_shards, shards=read_shards(steps).shards), output=Path("-"), **given)
    else:
        _write(ctx, buildkite_pipeline, output=output, **given)


def _write(ctx: click.Context, render: Callable[[Pipeline], str], *, output: Path, check: bool, **words: Any) -> None:
    """Print the difference to the existing file, and write the file unless ``check`` is set."""
    from wheelsmith.base.errors import OutputError
    from wheelsmith.base.files import atomic_write
    from wheelsmith.report.pipelines import WRITTEN, Pipeline

    text = render(Pipeline(**words))
    if output == Path("-"):
        click.echo(text, nl=False)
        return
    before = output.read_text(encoding="utf-8") if output.exists() else ""
    if before and not before.startswith(WRITTEN):
        raise OutputError(f"{output} is not one that wheelsmith wrote", remedy="name another: --output FILE")
    named = difflib.unified_diff(before.splitlines(), text.splitlines(), str(output), str(output), lineterm="")
    for line in named if before else ():
        click.echo(line)
    if before == text:
        click.echo(f"{output} is as it should be", err=True)
    elif check:
        click.echo(f"{output} would be {'another' if before else 'new'}", err=True)
        ctx.exit(ExitCode.CELLS_FAILED)
    else:
        atomic_write(output, text.encode())
        click.echo(f"wrote {output}", err=True)
