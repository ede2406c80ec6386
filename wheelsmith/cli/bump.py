"""The command ``wheelsmith bump``."""

from __future__ import annotations

from pathlib import Path

import click

from wheelsmith.cli.options import engine_option, make_request, matrix_option, quiet_option
from wheelsmith.cli.plan import plan_exit_code
from wheelsmith.plan.lock import lock_path, write_lock
from wheelsmith.run.build import stored_wheels
from wheelsmith.run.bump import Bumped, EditedMatrix, plan_bump


@click.command("bump")
@click.argument("what", metavar="AXIS|KERNEL", required=False)
@click.argument("release", required=False)
@matrix_option
@click.option("--all", "everything", is_flag=True, help="Take everything that `wheelsmith outdated` lists.")
@click.option("--replace", "instead_of", metavar="RELEASE", help="Remove this release from the axis.")
@click.option("--dry-run", is_flag=True, help="Show the change of the matrix and write nothing.")
@engine_option
@quiet_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    what: str | None,
    release: str | None,
    matrix: Path,
    everything: bool,
    instead_of: str | None,
    dry_run: bool,
    engine: str | None,
    quiet: bool,
) -> None:
    """Take a newer release into matrix.yaml: of torch, cuda or tvm-ffi, or of the kernel.

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
    bumped = plan_bump(edited, make_request(matrix, engine), listen)
    if bumped.lock:
        write_lock(lock_path(matrix), bumped.lock)
    edited.write()
    click.echo(f"{matrix}: {', '.join(edited.steps)}" + (f"; {lock_path(matrix)} has it" if bumped.lock else ""))
    _show_new(bumped)
    ctx.exit(plan_exit_code(bumped.prepared))


def _show_new(bumped: Bumped) -> None:
    """Print a table of the cells that are new."""
    from wheelsmith.report import make_console, plan_table, totals

    prepared, new = bumped.prepared, bumped.new
    plans = [plan for plan in prepared.plans if plan.cell.id in new]
    excluded = [item for item in prepared.excluded if item.cell.id in new]
    folded = {name: item for name, item in prepared.folded.items() if name in new}
    cached = frozenset(stored_wheels(plans, prepared.request.cache, prepared.engine))
    if new:
        console = make_console(stderr=False)
        reasons = {"not_folded": prepared.not_folded, "not_upstream": prepared.not_upstream}
        console.print(plan_table(plans, excluded, folded, cached=cached, **reasons))
    reused = sum(plan.cell.id not in folded and plan.build_digest in cached for plan in plans)
    click.echo(f"new: {totals(plans, folded)} ({reused} cached), {len(excluded)} excluded")
