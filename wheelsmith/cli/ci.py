"""The command ``wheelsmith ci``."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from wheelsmith.base.errors import ExitCode
from wheelsmith.cli.app import SuggestingGroup
from wheelsmith.cli.options import shard_plan_option, shard_plan_path

if TYPE_CHECKING:
    from wheelsmith.report.pipelines import Pipeline

_F = TypeVar("_F", bound=Callable[..., Any])
_Option = Callable[[Any], Any]  # what click.option returns

_WATCH = ".github/workflows/wheels-watch.yml"
_TEST_OPTIONS = (
    click.option("--channel", metavar="NAME", help="Channel of INDEX to publish to."),
    click.option("--url", metavar="URL", help="Public address of INDEX."),
    click.option("--project", metavar="NAME", help="Name of the project."),
    click.option("--test", metavar="COMMAND", help="Command that tests the published wheel."),
    click.option(
        "--test-on",
        multiple=True,
        metavar="RUNNER",
        help="Runner for tests: a GitHub label, a GitLab tag or a Buildkite queue. Repeatable.",
    ),
    click.option("--promote", metavar="CHANNEL", help="Channel to promote tested versions to."),
    click.option(
        "--require",
        type=click.Choice(("not-failed", "tested", "passed")),
        default="not-failed",
        show_default=True,
        help="Test outcome that promotion requires.",
    ),
)


_RELEASE_OPTIONS = (
    click.option(
        "--aarch64-on",
        metavar="RUNNER",
        help="Runner that builds projects for aarch64: a GitHub label, a GitLab tag or a Buildkite queue.",
    ),
    click.option("--sign", is_flag=True, help="Sign with the private key in the secret WHEELSMITH_KEY."),
    click.option("--keyless", is_flag=True, help="Sign with the token of the job. Not available on Buildkite."),
    click.option(
        "--publish", metavar="INDEX", help="Publish tagged commits to s3://…, gs://…, az://…, hf://… or github://…."
    ),
    *_TEST_OPTIONS,
)


_MATRIX_OPTION = click.option(
    "--matrix", default="matrix.yaml", show_default=True, metavar="PATH", help="The matrix file."
)
_LOCKED_OPTION = click.option("--locked", is_flag=True, help="Fail if anything differs from wheelsmith.lock.")


def _build_options(shards: str) -> tuple[_Option, ...]:
    """Return the options of building.

    :param shards: default of ``--shards``.
    """
    return (
        _MATRIX_OPTION,
        click.option(
            "--shards",
            default=shards,
            show_default=True,
            metavar="N|auto" if shards == "auto" else "N",
            help="Number of build jobs.",
        ),
        _LOCKED_OPTION,
        click.option(
            "--wheelsmith",
            show_default="the running version",
            metavar="REQUIREMENT",
            help="Requirement of wheelsmith for pip.",
        ),
        click.option("--python", default="3.12", show_default=True, metavar="VERSION", help="Python for wheelsmith."),
    )


def _options(file: str, *options: _Option) -> Callable[[_F], _F]:
    """Add options, and those for the file.

    :param file: default of ``--output``.
    """
    of_file = (
        click.option(
            "--output",
            type=click.Path(path_type=Path),
            default=Path(file),
            show_default=True,
            help="File to write, or - for stdout.",
        ),
        click.option("--check", is_flag=True, help="Write nothing. Exit with 1 if the file is out of date."),
    )

    def add(command: _F) -> _F:
        for option in reversed((*options, *of_file)):
            command = option(command)
        return click.pass_context(command)  # type: ignore[return-value]  # it returns the same type

    return add


@click.group("ci", cls=SuggestingGroup)
def command() -> None:
    """Generate a pipeline that plans, builds, joins, signs, publishes, tests and promotes."""


@command.command("github")
@_options(".github/workflows/wheels.yml", *_build_options("auto"), *_RELEASE_OPTIONS)
@click.option(
    "--watch", is_flag=True, help=f"Generate {_WATCH} instead: every week, a pull request with newer releases."
)
def github(ctx: click.Context, *, watch: bool, **options: Any) -> None:
    """Generate a workflow for GitHub Actions."""
    from wheelsmith.report.pipelines import github_watch_workflow, github_workflow

    if watch and ctx.get_parameter_source("output") is ParameterSource.DEFAULT:
        options["output"] = Path(_WATCH)
    _write(ctx, github_watch_workflow if watch else github_workflow, watch=watch, **options)


@command.command("gitlab")
@_options(".gitlab-ci.yml", *_build_options("4"), *_RELEASE_OPTIONS)
def gitlab(ctx: click.Context, **options: Any) -> None:
    """Generate a pipeline for GitLab."""
    from wheelsmith.report.pipelines import gitlab_pipeline

    _write(ctx, gitlab_pipeline, **options)


@command.command("buildkite")
@_options(".buildkite/wheels.yml", *_build_options("auto"), *_RELEASE_OPTIONS)
@click.option(
    "--steps",
    type=click.Path(path_type=Path),
    metavar="PLAN",
    help="Print the steps for a plan of `plan --shards`. The pipeline runs this.",
)
def buildkite(ctx: click.Context, *, output: Path, steps: Path | None, **options: Any) -> None:
    """Generate a pipeline for Buildkite."""
    from wheelsmith.report.pipelines import buildkite_pipeline, buildkite_shards
    from wheelsmith.run.shards import read_shards

    if steps:
        _write(ctx, partial(buildkite_shards, shards=read_shards(steps).shards), output=Path("-"), **options)
    else:
        _write(ctx, buildkite_pipeline, output=output, **options)


@command.command("slurm")
@_options("wheels.slurm.sh", *_build_options("auto"))
def slurm(ctx: click.Context, **options: Any) -> None:
    """Generate a script that submits the builds to a Slurm cluster."""
    from wheelsmith.report.pipelines import slurm_script

    _write(ctx, slurm_script, **options)


@command.command("kubernetes")
@_options(
    "wheels.kubernetes.yaml",
    _MATRIX_OPTION,
    shard_plan_option,
    _LOCKED_OPTION,
    click.option(
        "--image", required=True, metavar="NAME@DIGEST", help="Image with wheelsmith and bubblewrap, by its digest."
    ),
    click.option(
        "--claim", default="wheels", show_default=True, metavar="NAME", help="Claim for the volume that pods share."
    ),
)
def kubernetes(
    ctx: click.Context, *, matrix: str, shard_plan: Path | None, output: Path, check: bool, **options: Any
) -> None:
    """Generate the Jobs that build the shards of `plan --shards` on a Kubernetes cluster."""
    import platform

    from wheelsmith.report.pipelines import KubernetesJobs, kubernetes_jobs
    from wheelsmith.run.shards import read_shards, require_current

    path = shard_plan_path(shard_plan, Path(matrix))
    plan = read_shards(path)
    require_current(plan, Path(matrix), path)
    jobs = KubernetesJobs(
        matrix=matrix,
        shard_plan=str(path),
        plan_digest=plan.digest,
        shards=plan.shards,
        arch=platform.machine(),
        **options,
    )
    _write_file(ctx, kubernetes_jobs(jobs), matrix=matrix, output=output, check=check)


def _write(ctx: click.Context, render: Callable[[Pipeline], str], *, output: Path, check: bool, **options: Any) -> None:
    """Write a pipeline to a file."""
    from wheelsmith.report.pipelines import Pipeline, running_requirement

    options["wheelsmith"] = options["wheelsmith"] or running_requirement(
        lambda text: click.echo(f"warning: {text}", err=True)
    )
    pipeline = Pipeline(**options)
    _write_file(ctx, render(pipeline), matrix=pipeline.matrix, output=output, check=check)


def _write_file(ctx: click.Context, text: str, *, matrix: str, output: Path, check: bool) -> None:
    """Print the difference to the existing file, and write the file unless ``check`` is set.

    :param matrix: the matrix that the text builds.
    """
    from wheelsmith.base.errors import OutputError
    from wheelsmith.base.files import atomic_write
    from wheelsmith.report.pipelines import WRITTEN, Pipeline

    if output == Path("-"):
        click.echo(text, nl=False)
        return
    before = output.read_text(encoding="utf-8") if output.exists() else ""
    if before and not before.startswith(WRITTEN):
        raise OutputError(f"{output} was not generated by wheelsmith", remedy="choose another file with --output")
    if before and (built := Pipeline.read_matrix(before)) != matrix:
        raise OutputError(
            f"{output} builds {built}, not {matrix}",
            remedy="choose another file with --output, or list the kernels of both in one matrix: kernels",
        )
    difference = difflib.unified_diff(before.splitlines(), text.splitlines(), str(output), str(output), lineterm="")
    for line in difference if before else ():
        click.echo(line)
    if before == text:
        click.echo(f"{output} is up to date", err=True)
    elif check:
        click.echo(f"{output} {'is out of date' if before else 'does not exist'}", err=True)
        ctx.exit(ExitCode.CELLS_FAILED)
    else:
        atomic_write(output, text.encode())
        click.echo(f"wrote {output}", err=True)
