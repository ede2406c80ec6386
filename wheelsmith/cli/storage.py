"""What the commands that change an index have in common: where it is, and seeing first what would be written."""

from __future__ import annotations

from dataclasses import dataclass

import click

from wheelsmith.index.publish.publishing import Published
from wheelsmith.index.storage.location import open_storage
from wheelsmith.index.storage.protocol import Staged, Storage, Write

target_argument = click.argument("target", metavar="INDEX")
channel_option = click.option(
    "--channel", metavar="NAME", help="Of an index with channels: nightly is the index at INDEX/nightly."
)
address_option = click.option(
    "--address",
    "found_at",
    metavar="URL",
    help="Where INDEX is found, for what its pages must name by a whole address: PEP 740's provenance.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="List every write, and write nothing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An index's storage: ``used`` is what to work on, and keeps its changes to itself in a dry run."""

    name: str
    used: Storage
    staged: Staged | None

    @property
    def writes(self) -> tuple[Write, ...]:
        """Return the writes of a dry run."""
        return self.staged.writes if self.staged else ()


def open_index(target: str, *, dry_run: bool) -> Opened:
    """Open an index, or what looks like it and keeps every change to itself."""
    real = open_storage(target)
    staged = Staged(real) if dry_run else None
    return Opened(name=real.name, used=staged or real, staged=staged)


def published_json(opened: Opened, published: Published) -> dict[str, object]:
    """Return what was published, or would be, as commands print it."""
    return {
        "schema_version": 1,
        "target": opened.name,
        "new": [entry.filename for entry in published.new],
        "known": [entry.filename for entry in published.known],
        "writes": [{"key": write.key, "size": write.size} for write in opened.writes],
    }


def show_writes(writes: tuple[Write, ...]) -> None:
    """List writes on stdout, one a line: what, how many bytes, where."""
    from wheelsmith.base.units import show_size

    for write in writes:
        verb = "remove" if write.content is None else "write"
        click.echo(f"{verb:<6} {show_size(write.size):>9}  {write.key}")
