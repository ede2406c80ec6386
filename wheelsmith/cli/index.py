"""The command ``wheelsmith index``."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import click

from wheelsmith.base.errors import ExitCode, WheelTestError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import counted, show_moment
from wheelsmith.cli.app import SuggestingGroup
from wheelsmith.cli.index_change import PUBLISH_AGAIN, change_project
from wheelsmith.cli.index_doctor import doctor
from wheelsmith.cli.options import DURATION, Number
from wheelsmith.cli.storage import dry_run_option, open_index, published_text, show_writes, target_argument
from wheelsmith.index.entries.entry import ProjectStatus, WheelOutcome, WheelTest
from wheelsmith.index.entries.state import (
    outdated_versions,
    record_test,
    remove,
    remove_outdated,
    set_status,
    unyank,
    yank,
)
from wheelsmith.index.publish.input_folders import external_wheels
from wheelsmith.index.publish.publishing import publish, requirement_notes
from wheelsmith.index.publish.record_tests import MAX_SIZE, load_tests, record_tests
from wheelsmith.index.publish.release import IndexRelease
from wheelsmith.index.publish.verify import IndexProblem, advise, repair, verify
from wheelsmith.index.publish.writer import GRACE_SECONDS, Index
from wheelsmith.index.storage.location import open_storage

_OUTCOMES = [each.value for each in WheelOutcome if each is not WheelOutcome.UNTESTED]


@click.group("index", cls=SuggestingGroup)
def command() -> None:
    """Change and examine an index: a folder, s3://…, gs://…, az://…, hf://… or github://…."""


@command.command("add")
@target_argument
@click.argument("wheels", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@dry_run_option
def add(*, target: str, wheels: tuple[Path, ...], dry_run: bool) -> None:
    """Add any wheels, including those of other build tools.

    The version selects the combinations of a wheel: +cu130.torch2.11 names one, and +cu130 counts for every torch
    that METADATA allows.
    """
    release = IndexRelease(uploads=external_wheels(wheels))
    opened = open_index(target, dry_run=dry_run)
    published = publish(opened.storage, release)
    show_writes(opened.writes)
    for entry in published.new:
        click.echo(f"+ {entry.filename}: {', '.join(entry.roots) or 'not on any page'}", err=True)
    for text in requirement_notes(opened.storage, (*published.new, *published.known)):
        click.echo(visible(f"note: {text}"), err=True)
    click.echo(f"{published_text(published, 'added', dry_run=dry_run)}: {opened.name}", err=True)


@command.command("yank")
@target_argument
@click.argument("project")
@click.argument("chosen", metavar="VERSION|FILE")
@click.option("--reason", default="", metavar="TEXT", help="Reason that installers show.")
@dry_run_option
def yank_(*, target: str, project: str, chosen: str, reason: str, dry_run: bool) -> None:
    """Yank wheels, so that only an exact pin still installs them."""
    change = change_project(target, project, partial(yank, chosen=chosen, reason=reason), dry_run=dry_run)
    was_yanked = any(wheel.yanked is not None for wheel in change.wheels)
    change.show("yanked", None if was_yanked else change.command("unyank", chosen))


@command.command("unyank")
@target_argument
@click.argument("project")
@click.argument("chosen", metavar="VERSION|FILE")
@dry_run_option
def unyank_(*, target: str, project: str, chosen: str, dry_run: bool) -> None:
    """Undo a yank."""
    change = change_project(target, project, partial(unyank, chosen=chosen), dry_run=dry_run)
    reason, *others = {wheel.yanked or "" for wheel in change.wheels} or {""}
    again = change.command("yank", chosen, *(("--reason", reason) if reason else ()))
    change.show("unyanked", None if others else again)


@command.command("remove")
@target_argument
@click.argument("project")
@click.argument("chosen", metavar="VERSION|FILE")
@dry_run_option
def remove_(*, target: str, project: str, chosen: str, dry_run: bool) -> None:
    """Remove wheels from the index, even for exact pins.

    Prefer yank unless a file is lost. gc deletes the files later.
    """
    change_project(target, project, partial(remove, chosen=chosen), dry_run=dry_run).show("removed", PUBLISH_AGAIN)


@command.command("test")
@target_argument
@click.argument("project")
@click.argument("chosen", metavar="VERSION|FILE")
@click.argument("outcome", type=click.Choice(_OUTCOMES))
@click.option("--on", "where", required=True, help="Description of the machine, such as 'H200, driver 580'.")
@click.option("--cell", metavar="COMBINATION", help="Combination that was tested.")
@click.option("--details", metavar="URL", help="Address with more information.")
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
    """Record the outcome of a test of wheels.

    It replaces the previous outcome for the same machine and combination.
    """
    try:
        recorded = WheelTest(outcome=WheelOutcome(outcome), where=where, cell=cell, details=details)
    except ValueError as error:
        remedy = "describe the machine in one short line, and name a combination as wheelsmith plan does"
        raise WheelTestError(f"the test cannot be recorded: {in_one_line(error)}", remedy=remedy) from None
    change = change_project(target, project, partial(record_test, chosen=chosen, test=recorded), dry_run=dry_run)
    undo = "record another outcome with the same --on and --cell, which replaces this one"
    change.show(f"recorded as {outcome} on {recorded.where}", undo)


@command.command("record-tests")
@target_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--of", "out", type=click.Path(path_type=Path), help="Record only wheels in this output folder.")
@dry_run_option
def record_tests_(*, target: str, files: tuple[Path, ...], out: Path | None, dry_run: bool) -> None:
    """Record the files that wheelsmith test wrote: all of them or none.

    Of several outcomes for the same machine and combination, the worst counts.
    """
    from wheelsmith.run.release import read_built_versions

    results = {str(file): load_tests(_read_untrusted(file), str(file)) for file in files}
    opened = open_index(target, dry_run=dry_run)
    entries = [entry for each in read_built_versions(out) for entry in each.entries] if out else None
    recorded = record_tests(opened.storage, results, entries)
    show_writes(opened.writes)
    for each in recorded:
        click.echo(visible(f"{each.wheel}: {each.outcome} on {each.where}"), err=True)
    tests = counted(len(recorded), "test")
    click.echo(f"{tests} {'would be ' if dry_run else ''}recorded: {opened.name}", err=True)


def _read_untrusted(file: Path) -> bytes:
    """Read a file of test results with a size limit: a job wrote it, so it is untrusted.

    :raises WheelTestError: the file is too large or cannot be read.
    """
    try:
        return read_bounded(file, MAX_SIZE)
    except ValueError as error:
        raise WheelTestError(f"{file} cannot be read: {error}") from None
    except OSError as error:
        remedy = "run its job again; wheelsmith test and test-matrix write the file even if a test fails"
        raise WheelTestError(f"{file} cannot be read: {error.strerror or error}", remedy=remedy) from None


@command.command("retain")
@target_argument
@click.argument("project")
@click.option("--keep", type=Number(1), default=1, show_default=True, help="Number of newest versions to keep.")
@click.option("--older-than", "age", type=DURATION, help="Keep younger versions too, such as 30d.")
@dry_run_option
def retain_(*, target: str, project: str, keep: int, age: float | None, dry_run: bool) -> None:
    """Remove old versions, such as nightly builds, from the index.

    gc deletes the files later.
    """
    before = show_moment(max(0.0, time.time() - age)) if age is not None else None
    storage = open_storage(target)
    state = Index(storage).known(project)
    removed = outdated_versions(state, keep=keep, before=before)
    change = None
    if removed:
        change = change_project(target, project, partial(remove_outdated, keep=keep, before=before), dry_run=dry_run)
    for version in removed:
        click.echo(version)
    click.echo(f"{counted(len(removed), 'version')} {'would be ' if dry_run else ''}removed: {storage.name}", err=True)
    if change:
        change.show_undo(PUBLISH_AGAIN)


@command.command("status")
@target_argument
@click.argument("project")
@click.argument("status", required=False, type=click.Choice([status.value for status in ProjectStatus]))
@click.option("--reason", metavar="TEXT", help="Reason to show to users.")
@dry_run_option
def status_(*, target: str, project: str, status: str | None, reason: str | None, dry_run: bool) -> None:
    """Show or set the status of a project.

    Archived and quarantined projects accept no wheels. Quarantined projects offer none.
    """
    if status:
        new = partial(set_status, status=ProjectStatus(status), reason=reason)
        change = change_project(target, project, new, dry_run=dry_run)
        before = change.before
        click.echo(f"{before.project} {change.would_be or 'is '}{status}: {change.opened.name}", err=True)
        earlier = ("--reason", before.status_reason) if before.status_reason else ()
        change.show_undo(change.command("status", before.status, *earlier))
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
    help="Folder with copies of missing or damaged files. Repeatable.",
)
@dry_run_option
@click.pass_context
def repair_(ctx: click.Context, *, target: str, copies: tuple[Path, ...], dry_run: bool) -> None:
    """Repair the problems that verify finds.

    The command reads every wheel. It exits with 1 if problems remain.
    """
    opened = open_index(target, dry_run=dry_run)
    repaired = repair(opened.storage, copies)
    for key in repaired.fixed:
        click.echo(key)
    _show_problems(repaired.left, err=True)
    fixed = counted(len(repaired.fixed), "file")
    click.echo(f"{fixed} {'would be ' if dry_run else ''}fixed: {opened.name}", err=True)
    ctx.exit(ExitCode.CELLS_FAILED if repaired.left else ExitCode.OK)


@command.command("gc")
@target_argument
@click.option(
    "--grace",
    type=DURATION,
    default=GRACE_SECONDS,
    help="Keep younger files, which may be part of an unfinished publish.  [default: 7d]",
)
@dry_run_option
def gc(*, target: str, grace: float, dry_run: bool) -> None:
    """Remove unreferenced files, such as those of killed publishers."""
    opened = open_index(target, dry_run=dry_run)
    removed = Index(opened.storage).remove_unused(older_than=time.time() - grace)
    for key in removed:
        click.echo(key)
    click.echo(f"{counted(len(removed), 'file')} {'would be ' if dry_run else ''}removed: {opened.name}", err=True)


@command.command("verify")
@target_argument
@click.pass_context
def verify_(ctx: click.Context, *, target: str) -> None:
    """Compare all files and pages with the state of the index.

    The command reads every wheel. Notes do not change the exit code.
    """
    from wheelsmith.engine import visible

    storage = open_storage(target)
    problems = verify(storage)
    _show_problems(problems, err=False)
    for advice in advise(storage):
        click.echo(f"note: {visible(advice.message)}\n  help: {visible(advice.remedy)}", err=True)
    click.echo(f"{storage.name}: {counted(len(problems), 'problem') if problems else 'no problems found'}", err=True)
    ctx.exit(ExitCode.CELLS_FAILED if problems else ExitCode.OK)


def _show_problems(problems: tuple[IndexProblem, ...], *, err: bool) -> None:
    from wheelsmith.engine import visible

    for problem in problems:
        click.echo(visible(problem.message), err=err)
        # The remedy goes to stderr, so that stdout has one line for each problem.
        click.echo(f"  help: {visible(problem.remedy)}", err=True)


command.add_command(doctor)
