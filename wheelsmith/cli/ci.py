"""``wheelsmith ci``."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wheelsmith import __version__
from wheelsmith.base.errors import ExitCode
from wheelsmith.cli.app import Verbs

if TYPE_CHECKING:
    from wheelsmith.report.pipelines import Pipeline

_F = TypeVar("_F", bound=Callable[..., Any])
_GITHUB, _GITLAB, _BUILDKITE = ".github/workflows/wheels.yml", ".gitlab-ci.yml", ".buildkite/wheels.yml"


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
    """Add what every system's pipeline is made from, and where it goes.

    :param file: where it goes by default.
    :param shards: the jobs that build by default.
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
        return click.pass_context(command)  # type: ignore[return-value]  # what click.option decorates is called alike

    return add


@click.group("ci", cls=Verbs)
def command() -> None:
    """Write a pipeline: plan, build in several jobs, join, sign, publish, test, promote."""


@command.command("github")
@_pipeline_options(_GITHUB)
def github(ctx: click.Context, *, output: Path, check: bool, **words: Any) -> None:
    """Write a workflow for GitHub Actions, and show what changed of the one that is there."""
    from wheelsmith.report.pipelines import Pipeline, github_workflow

    _show(ctx, github_workflow(Pipeline(**words)), output, check=check)


@command.command("gitlab")
@_pipeline_options(_GITLAB, shards="4")
def gitlab(ctx: click.Context, *, output: Path, check: bool, **words: Any) -> None:
    """Write a pipeline for GitLab, and show what changed of the one that is there.

    It has to say how many jobs build: --shards auto is refused.
    """
    from wheelsmith.report.pipelines import Pipeline, gitlab_pipeline

    _show(ctx, gitlab_pipeline(Pipeline(**words)), output, check=check)


@command.command("buildkite")
@_pipeline_options(_BUILDKITE)
@click.option(
    "--steps",
    type=click.Path(path_type=Path),
    metavar="PLAN",
    help="Print the steps of what plan --shards split; the written pipeline does.",
)
def buildkite(ctx: click.Context, *, output: Path, check: bool, steps: Path | None, **words: Any) -> None:
    """Write a pipeline for Buildkite, and show what changed of the one that is there."""
    from wheelsmith.report.pipelines import Pipeline, buildkite_pipeline

    pipeline = Pipeline(**words)
    text = _steps(pipeline, steps) if steps else buildkite_pipeline(pipeline)
    _show(ctx, text, Path("-") if steps else output, check=check)


def _steps(pipeline: Pipeline, path: Path) -> str:
    from wheelsmith.report.pipelines import buildkite_shards
    from wheelsmith.run.shards import read_shards

    return buildkite_shards(pipeline, read_shards(path).shards)


def _show(ctx: click.Context, text: str, output: Path, *, check: bool) -> None:
    if output == Path("-"):
        click.echo(text, nl=False)
    else:
        ctx.exit(_write(output, text, check=check))


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
