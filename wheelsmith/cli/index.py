"""The command ``wheelsmith index``."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from wheelsmith.base.errors import ExitCode, WheelTestError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import counted, show_moment
from wheelsmith.cli.app import Verbs
from wheelsmith.cli.index_doctor import doctor
from wheelsmith.cli.options import DURATION
from wheelsmith.cli.storage import dry_run_option, open_index, show_writes, target_argument
from wheelsmith.index.entries.entry import ProjectState, ProjectStatus, WheelOutcome, WheelTest
from wheelsmith.index.entries.state import outdated, record_test, remove, retain, set_status, unyank, yank
from wheelsmith.index.publish.input_folders import foreign_wheels
from wheelsmith.index.publish.publishing import publish
from wheelsmith.index.publish.record_tests import LONGEST, load_tests, record_tests
from wheelsmith.index.publish.release import IndexRelease
from wheelsmith.index.publish.verify import IndexProblem, advise, repair, verify
from wheelsmith.index.publish.writer import GRACE, Index
from wheelsmith.index.storage.location import open_storage

_OUTCOMES = [each.value for each in WheelOutcome if each is not WheelOutcome.UNTESTED]


@click.group("index", cls=Verbs)
def command() -> None:
    """Change and examine an index: a folder, s3://…, gs://…, az://… or hf://…."""


@command.command("add")
@target_argument
@click.argument("wheels", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@dry_run_option
def add(*, target: str, wheels: tuple[Path, ...], dry_run: bool) -> None:
    """Add wheels that wheelsmith need not have made.

    Each is listed for what it serves: a version such as +cu130.torch2.11 names it; +cu130 counts for every torch that
    METADATA takes; a wheel with nothing compiled and no such version counts for all.
    """
    release = IndexRelease(offers=foreign_wheels(wheels))
    opened = open_index(target, dry_run=dry_run)
    published = publish(opened.used, release)
    show_writes(opened.writes)
    for entry in published.new:
        click.echo(f"+ {entry.filename}: {', '.join(entry.roots) or 'on no page'}", err=True)
    new, known = counted(len(published.new), "wheel"), counted(len(published.known), "was", "were")
    click.echo(f"{new} {'would be ' if dry_run else ''}added, {known} there: {opened.name}", err=True)


@command.command("yank")
@target_argument
@click.argument("project")
@click.argument("chosen", metavar="VERSION|FILE")
@click.option("--reason", default="", help="What installers show to those who pin it.")
@dry_run_option
def yank_(*, target: str, project: str, chosen: str, reason: str, dry_run: bool) -> None:
    """Mark wheels as not to be chosen any more; an exact pin still gets them."""
    _change(target, project, partial(yank, chosen=chosen, reason=reason), dry_run=dry_run)


@command.command("unyank")
@target_argument
@click.argument("project")
@click.argument("chosen", metavar="VERSION|FILE")
@dry_run_option
def unyank_(*, target: str, project: str, chosen: str, dry_run: bool) -> None:
    """Take back a yank."""
    _change(target, project, partial(unyank, chosen=chosen), dry_run=dry_run)


@command.command("remove")
@target_argument
@click.argument("project")
@click.argument("chosen", metavar="VERSION|FILE")
@dry_run_option
def remove_(*, target: str, project: str, chosen: str, dry_run: bool) -> None:
    """List wheels no more, not even for an exact pin, as where a file is lost; yank does less.

    gc removes their files later. Their names are never given to other bytes.
    """
    _change(target, project, partial(remove, chosen=chosen), dry_run=dry_run)


@command.command("test")
@target_argument
@click.argument("project")
@click.argument("chosen", metavar="VERSION|FILE")
@click.argument("outcome", type=click.Choice(_OUTCOMES))
@click.option("--on", "where", required=True, help="The machine, in words: 'H200, driver 580'.")
@click.option("--cell", help="Id of the cell whose torch was beside it.")
@click.option("--details", metavar="URL", help="What tells more.")
@dry_run_option
def test(
    *,
    target: str,
    project: str,
    chosen: str,
    outcome: str,
    where: str,
    cell: str | None,
    details: str | None,
    dry_run: bool,
) -> None:
    """Record what a test of wheels came to; it takes the place of the last one of that machine and cell.

    The page shows it, and promote --require looks at it.
    """
    try:
        recorded = WheelTest(outcome=WheelOutcome(outcome), where=where, cell=cell, details=details)
    except ValueError as error:
        remedy = "name the machine in one short line, and a cell by its id"
        raise WheelTestError(f"this cannot be recorded: {in_one_line(error)}", remedy=remedy) from None
    _change(target, project, partial(record_test, chosen=chosen, test=recorded), dry_run=dry_run)


@command.command("record-tests")
@target_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--of", "out", type=click.Path(path_type=Path), help="Take words on wheels alone that a run left there.")
@dry_run_option
def record_tests_(*, target: str, files: tuple[Path, ...], out: Path | None, dry_run: bool) -> None:
    """Record what wheelsmith test wrote, of one machine or of several; all of it, or nothing.

    Each wheel must be listed with the same bytes. Of two words on one machine and cell, the worse counts.
    """
    from wheelsmith.run.release import built

    said = {str(file): load_tests(_bounded(file), str(file)) for file in files}
    opened = open_index(target, dry_run=dry_run)
    recorded = record_tests(opened.used, said, built(out).entries if out else None)
    show_writes(opened.writes)
    for each in recorded:
        click.echo(visible(f"{each.wheel}: {each.outcome} on {each.where}"), err=True)
    tests = counted(len(recorded), "test")
    click.echo(f"{tests} {'would be ' if dry_run else ''}recorded: {opened.name}", err=True)


def _bounded(file: Path) -> bytes:
    """Read a file of test results with a size limit: a job wrote it, so it is untrusted.

    :raises WheelTestError: the file is too large or cannot be read.
    """
    try:
        return read_bounded(file, LONGEST)
    except ValueError as error:
        raise WheelTestError(f"{file} cannot be read: {error}") from None
    except OSError as error:
        remedy = "run its job again: wheelsmith test writes it also where the test failed"
        raise WheelTestError(f"{file} cannot be read: {error.strerror or error}", remedy=remedy) from None


@command.command("retain")
@target_argument
@click.argument("project")
@click.option("--keep", type=click.IntRange(1), default=1, show_default=True, help="How many of the newest stay.")
@click.option("--older-than", "age", type=DURATION, help="What was published less than this ago stays, too.")
@dry_run_option
def retain_(*, target: str, project: str, keep: int, age: float | None, dry_run: bool) -> None:
    """List old versions no more, as of nightly builds: all wheels of a version, or none of them.

    gc removes their files later. Their names are never given to other bytes.
    """
    before = show_moment(max(0.0, time.time() - age)) if age is not None else None
    storage = open_storage(target)
    state = Index(storage).known(project)
    gone = outdated(state, keep=keep, before=before)
    if gone:
        _change(target, project, partial(retain, keep=keep, before=before), dry_run=dry_run)
    for version in gone:
        click.echo(version)
    click.echo(f"{counted(len(gone), 'version')} {'would be ' if dry_run else ''}gone: {storage.name}", err=True)


@command.command("status")
@target_argument
@click.argument("project")
@click.argument("status", required=False, type=click.Choice([status.value for status in ProjectStatus]))
@click.option("--reason", help="Why, for people.")
@dry_run_option
def status_(*, target: str, project: str, status: str | None, reason: str | None, dry_run: bool) -> None:
    """Show a project's status, or set it: archived and quarantined take no wheels, quarantined offers none."""
    if status:
        _change(target, project, partial(set_status, status=ProjectStatus(status), reason=reason), dry_run=dry_run)
        return
    state = Index(open_storage(target)).known(project)
    click.echo(f"{state.status}: {state.status_reason}" if state.status_reason else state.status.value)


@command.command("repair")
@target_argument
@click.option(
    "--from",
    "copies",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder that has the right bytes of files that are missing or damaged; repeatable.",
)
@dry_run_option
@click.pass_context
def repair_(ctx: click.Context, *, target: str, copies: tuple[Path, ...], dry_run: bool) -> None:
    """Fix what verify names: every page is made to say what the state says. Reads every wheel.

    What cannot be made from what is there is named, with what fixes it; the exit code is 1 then.
    """
    opened = open_index(target, dry_run=dry_run)
    repaired = repair(opened.used, copies)
    for key in repaired.fixed:
        click.echo(key)
    _show_troubles(repaired.left, err=True)
    fixed = counted(len(repaired.fixed), "file")
    click.echo(f"{fixed} {'would be ' if dry_run else ''}fixed: {opened.name}", err=True)
    ctx.exit(ExitCode.CELLS_FAILED if repaired.left else ExitCode.OK)


@command.command("gc")
@target_argument
@click.option(
    "--grace",
    type=DURATION,
    default=GRACE,
    show_default="7d",
    help="Keep what is younger than this: it may be about to be published.",
)
@dry_run_option
def gc(*, target: str, grace: float, dry_run: bool) -> None:
    """Remove files that nothing refers to, as killed publishers leave them."""
    opened = open_index(target, dry_run=dry_run)
    gone = Index(opened.used).collect(older_than=time.time() - grace)
    for key in gone:
        click.echo(key)
    click.echo(f"{counted(len(gone), 'file')} {'would be ' if dry_run else ''}removed: {opened.name}", err=True)


@command.command("verify")
@target_argument
@click.pass_context
def verify_(ctx: click.Context, *, target: str) -> None:
    """Compare every file, side-car and page with the state; reads every wheel.

    A note tells what could be better, and changes no exit code.
    """
    from wheelsmith.engine import visible

    storage = open_storage(target)
    wrong = verify(storage)
    _show_troubles(wrong, err=False)
    for advice in advise(storage):
        click.echo(f"note: {visible(advice.message)}\n  help: {visible(advice.remedy)}", err=True)
    click.echo(f"{storage.name}: {f'{len(wrong)} wrong' if wrong else 'all is right'}", err=True)
    ctx.exit(ExitCode.CELLS_FAILED if wrong else ExitCode.OK)


def _show_troubles(troubles: tuple[IndexProblem, ...], *, err: bool) -> None:
    from wheelsmith.engine import visible

    for trouble in troubles:
        click.echo(visible(trouble.message), err=err)
        # The remedy goes to stderr, so that stdout has one line for each problem.
        click.echo(f"  help: {visible(trouble.remedy)}", err=True)


def _change(target: str, project: str, transition: Callable[[ProjectState], ProjectState], *, dry_run: bool) -> None:
    opened = open_index(target, dry_run=dry_run)
    Index(opened.used).change(project, transition)
    show_writes(opened.writes)


command.add_command(doctor)
