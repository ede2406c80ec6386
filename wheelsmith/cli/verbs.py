"""Groups of commands that say which one was meant."""

from __future__ import annotations

import click


class Verbs(click.Group):
    """A group that knows what a word that it does not have is close to."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say which is meant."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], known, n=1, cutoff=0.5)
            hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)
