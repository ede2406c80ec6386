"""The command ``wheelsmith bump``."""

from __future__ import annotations

from pathlib import Path

import click

from wheelsmith.base.files import atomic_write
from wheelsmith.cli.options import engine_option, make_request, matrix_option, quiet_option
from wheelsmith.cli.plan import plan_exit_code
from wheelsmith.plan.lock import lock_path, write_lock
from wheelsmith.run.build import stored_wheels
from wheelsmith.run.bump import Bumped, EditedMatrix, plan_before, plan_bump
from wheelsmith.run.prepare import Request


@click.command("bump")
@click.argument("what", metavar="AXIS|KERNEL", required=False)
@click.argument("release", required=False)
@matrix_option
@click.option("--all", "everything", is_flag=True, help="Take everything that `wheelsmith outdated` lists.")
@click.option("--replace", "instead_of", metavar="RELEASE", help="Remove this release from the axis.")
@click.option(
    "--pull-request",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write title.txt and body.md of a pull request to FOLDER.",
)
@click.option("--dry-run", is_flag=True, help="Show the change of the matrix and write nothing.")
@engine_option
@quiet_option
@click.pass_context
def command(  # noqa: PLR0913  # one parameter for each option
    ctx: click.Context,
    *,
    what: str | None,
    release: str | None,
    matrix: Path,
    everything: bool,
    instead_of: str | None,
    pull_request: Path | None,
    dry_run: bool,
    engine: str | None,
    quiet: bool,
) -> None:
    """Take a newer release into matrix.yaml: of a framework or a GPU toolkit, or of the kernel.

    KERNEL is a name in kernels, or the word kernel. The default is the newest release. The rest of the file stays as it
    is. If there is a lock, what is new is locked.
    """
    from wheelsmith.report import reporter

    if bool(what) == everything:
        raise click.UsageError("name an axis such as torch, or a kernel, or pass --all")
    listen = reporter("quiet" if quiet else "plain", matrix.parent)
    edited = EditedMatrix.read(matrix)
    is_kernel = what in edited.kernels
    if instead_of and (is_kernel or not what):
        raise click.UsageError("--replace requires an axis")
    if not what:
        edited = edited.with_newest(listen)
    elif is_kernel:
        edited = edited.with_kernel(what, release)
    else:
        edited = edited.with_release(what, release, instead_of=instead_of)
    if not edited.steps:
        click.echo(f"{matrix} is up to date" if everything or not release else f"{matrix} has {what} {release} already")
        return
    if dry_run:
        click.echo(edited.diff(), nl=False)
        return
    request = make_request(matrix, engine)
    bumped = plan_bump(edited, request, listen)
    if pull_request:
        _write_pull_request(pull_request, edited, bumped, request)
    if bumped.lock:
        write_lock(lock_path(matrix), bumped.lock)
    edited.write()
    click.echo(f"{matrix}: {', '.join(edited.steps)}" + (f"; {lock_path(matrix)} has it" if bumped.lock else ""))
    _show_new(bumped)
    ctx.exit(plan_exit_code(bumped.prepared))


def _write_pull_request(folder: Path, edited: EditedMatrix, bumped: Bumped, request: Request) -> None:
    from wheelsmith.report.pull_request import pull_request_body, pull_request_title

    body = pull_request_body(edited, bumped, plan_before(edited, request))
    atomic_write(folder / "title.txt", f"{pull_request_title(edited.steps)}\n".encode())
    atomic_write(folder / "body.md", body.encode())


def _show_new(bumped: Bumped) -> None:
    """Print a table of the cells that are new."""
    from wheelsmith.report import left_out, make_console, plan_table, totals

    prepared, plans, excluded, folded = bumped.prepared, bumped.plans, bumped.excluded, bumped.folded
    cached = frozenset(stored_wheels(plans, prepared.request.cache, prepared.engine))
    if bumped.new:
        console = make_console(stderr=False)
        reasons = {"not_folded": prepared.not_folded, "not_upstream": prepared.not_upstream}
        console.print(plan_table(plans, excluded, folded, cached=cached, **reasons))
    reused = sum(plan.cell.id not in folded and plan.build_digest in cached for plan in plans)
    click.echo(f"new: {totals(plans, folded)} ({reused} cached), {left_out(excluded)}")
