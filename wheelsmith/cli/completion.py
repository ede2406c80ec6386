"""``wheelsmith completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell; it completes the names of cells too.

    For bash: wheelsmith completion bash > ~/.local/share/bash-completion/completions/wheelsmith
    """
    from wheelsmith.cli.app import cli

    found = get_completion_class(shell)
    if found is None:
        raise click.BadParameter(f"no completion for {shell}")
    click.echo(found(cli, {}, "wheelsmith", "_WHEELSMITH_COMPLETE").source())
