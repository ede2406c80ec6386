"""Change a project of an index, and tell how to undo the change."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

import click

from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import counted
from wheelsmith.cli.storage import OpenedIndex, open_index, show_writes
from wheelsmith.index.entries.entry import IndexEntry, ProjectState
from wheelsmith.index.publish.writer import Index

PUBLISH_AGAIN = "publish the same files again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChange:
    """A change of a project, which a dry run only plans.

    :param wheels: the wheels that changed or were removed, as they were before.
    """

    opened: OpenedIndex
    before: ProjectState
    wheels: tuple[IndexEntry, ...] = field(default=())

    def show(self, done: str, undo: str | None) -> None:
        """Print the result and how to undo it.

        :param done: the result, such as ``yanked`` for the changed wheels.
        """
        count = counted(len(self.wheels), "wheel")
        click.echo(visible(f"{count} {self.would_be}{done}: {self.opened.name}"), err=True)
        if self.wheels:
            self.show_undo(undo)

    def show_undo(self, undo: str | None) -> None:
        """Print how to undo the change, unless this is a dry run."""
        if undo and not self.opened.staged:
            click.echo(visible(f"  undo: {undo}"), err=True)

    @property
    def would_be(self) -> str:
        """Return the first words of a plan, or nothing for a change that was made."""
        return "would be " if self.opened.staged else ""

    def command(self, verb: str, *arguments: str) -> str:
        """Return a command for the same project, quoted for a shell."""
        return shlex.join(("wheelsmith", "index", verb, self.opened.name, self.before.project, *arguments))


def change_project(
    target: str, project: str, transition: Callable[[ProjectState], ProjectState], *, dry_run: bool
) -> ProjectChange:
    """Change the state of a project. In a dry run, print the writes.

    :raises PackageIndexError: the project does not exist, or the transition raised this error.
    """
    opened, seen = open_index(target, dry_run=dry_run), list[ProjectState]()

    def work(state: ProjectState) -> ProjectState:
        seen.append(state)
        return transition(state)

    after = {entry.filename: entry for entry in Index(opened.storage).change(project, work).entries}
    show_writes(opened.writes)
    before = seen[-1]
    changed = tuple(entry for entry in before.entries if after.get(entry.filename) != entry)
    return ProjectChange(opened=opened, before=before, wheels=changed)
