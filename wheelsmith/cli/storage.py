"""Options and functions for commands that change an index."""

from __future__ import annotations

from dataclasses import dataclass

import click

from wheelsmith.base.units import counted, show_size
from wheelsmith.index.publish.publishing import Published
from wheelsmith.index.storage.location import open_storage
from wheelsmith.index.storage.protocol import Staged, Storage, Write

target_argument = click.argument("target", metavar="INDEX")
channel_option = click.option("--channel", metavar="NAME", help="Channel of INDEX: nightly is INDEX/nightly.")
address_option = click.option(
    "--address",
    "public_address",
    metavar="URL",
    help="Public address of INDEX, for absolute links (provenance, PEP 740).",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="List all writes, but write nothing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedIndex:
    """The opened storage of an index.

    :param storage: the storage to work on; in a dry run, it records the writes and performs none.
    :param staged: the same storage in a dry run, otherwise None.
    """

    name: str
    storage: Storage
    staged: Staged | None

    @property
    def writes(self) -> tuple[Write, ...]:
        """Return the writes that a dry run recorded."""
        return self.staged.writes if self.staged else ()


def open_index(target: str, *, dry_run: bool) -> OpenedIndex:
    """Open an index. In a dry run, the storage records writes and performs none."""
    storage = open_storage(target)
    staged = Staged(storage) if dry_run else None
    return OpenedIndex(name=storage.name, storage=staged or storage, staged=staged)


def published_json(opened: OpenedIndex, published: Published) -> dict[str, object]:
    """Return published wheels and recorded writes in the JSON format of the commands."""
    return {
        "schema_version": 1,
        "target": opened.name,
        "new": [entry.filename for entry in published.new],
        "known": [entry.filename for entry in published.known],
        "older_wheels": [entry.filename for entry in published.left_out],
        "writes": [{"key": write.key, "size": write.size} for write in opened.writes],
    }


def published_text(published: Published, done: str, *, dry_run: bool) -> str:
    """Describe published wheels, as in ``2 wheels published, 0 already there, 2 new signatures``.

    :param done: the word for what happened to new wheels.
    """
    would_be = "would be " if dry_run else ""
    signed = f", {counted(len(published.signed), 'new signature')}" if published.signed else ""
    text = f"{counted(len(published.new), 'wheel')} {would_be}{done}, {len(published.known)} already there{signed}"
    older = f"{counted(len(published.left_out), 'wheel')} of an older source left out (build again, or use index add)"
    return f"{text}, {older}" if published.left_out else text


def show_writes(writes: tuple[Write, ...]) -> None:
    """Print each write on a line of stdout: action, size and key."""
    for write in writes:
        verb = "remove" if write.content is None else "write"
        click.echo(f"{verb:<6} {show_size(write.size):>9}  {write.key}")
