"""The commands ``wheelsmith shell`` and ``wheelsmith completion``."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from wheelsmith.cli.options import cell_argument, engine_option, make_request, matrix_option
from wheelsmith.pipeline import build_command, lay_out
from wheelsmith.run.build import make_build_request
from wheelsmith.run.executors.local import make_context
from wheelsmith.run.prepared_set import prepare_set
from wheelsmith.run.scratch import scratch
from wheelsmith.store import in_use


@click.command("shell")
@cell_argument
@matrix_option
@engine_option
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, *, cell: str, matrix: Path, engine: str | None, argv: tuple[str, ...]) -> None:
    """Open a shell in the sandbox of a combination.

    The sandbox contains the state before the build. To run a command instead of a shell, add it after --.
    """
    from wheelsmith.report import reporter

    listen = reporter("plain", matrix.parent)
    request = make_request(matrix, engine, only=(cell,))
    prepared = prepare_set(request, listen)
    if not prepared.plans:
        raise click.UsageError(f"{cell} is excluded: {prepared.excluded[0].reason}")
    if len(prepared.kernels) > 1:
        names = ", ".join(each.cell.id for each in prepared.plans)
        raise click.UsageError(f"{cell} is a combination of several kernels: choose one of {names}")
    with in_use(request.cache), scratch(request.cache / "work") as folder:
        plan = prepared.plans[0]
        context = make_context(make_build_request(prepared, folder), listen)
        work = folder / "shell"
        lay_out(plan, context.source(plan), work)
        build = build_command(plan, context, work)
        if not argv:
            click.echo(f"build command: {shlex.join(build.argv)}", err=True)
        ctx.exit(prepared.engine.enter(replace(build, argv=argv or ("bash", "--norc"))))


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell completion script.

    For bash: wheelsmith completion bash > ~/.local/share/bash-completion/completions/wheelsmith
    """
    from wheelsmith.cli.app import cli

    found = get_completion_class(shell)
    if found is None:
        raise click.BadParameter(f"there is no completion for {shell}")
    click.echo(found(cli, {}, "wheelsmith", "_WHEELSMITH_COMPLETE").source())
