"""The commands ``wheelsmith lock`` and ``wheelsmith vendor``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from wheelsmith.base.errors import ExitCode, MatrixError
from wheelsmith.base.offline import VENDORED
from wheelsmith.base.units import counted, show_size
from wheelsmith.cli.options import (
    engine_option,
    kernel_option,
    make_request,
    matrix_option,
    quiet_option,
    selection_options,
)
from wheelsmith.plan.lock import Lock, differences, lock_path, read_lock, vendor_path, write_lock
from wheelsmith.run.lock import reject_dropped_cells, with_addresses, with_waiting, without_packages
from wheelsmith.run.prepared_set import new_lock, plan_set, prepare_set
from wheelsmith.toolchain import Toolchains


@click.command("lock")
@matrix_option
@engine_option
@click.option("--upgrade", is_flag=True, help="Update everything: the commit and all packages.")
@click.option(
    "--upgrade-package",
    "packages",
    multiple=True,
    metavar="NAME",
    help="Update the environments that contain this package. Repeatable.",
)
@quiet_option
@click.pass_context
def command(
    ctx: click.Context, *, matrix: Path, engine: str | None, upgrade: bool, packages: tuple[str, ...], quiet: bool
) -> None:
    """Record the exact build inputs in wheelsmith.lock.

    These are the commit, packages, compilers, toolkits and images. Existing entries stay unless you upgrade them.
    """
    from wheelsmith.report import reporter

    path = lock_path(matrix)
    existing = _read_existing(path, readable=not upgrade)
    kept = without_packages(existing, packages) if existing and not upgrade else None
    request, listen = make_request(matrix, engine), reporter("quiet" if quiet else "plain", matrix.parent)
    prepared, inputs = plan_set(request, kept, listen, refresh=upgrade or bool(packages))
    for name, reason in prepared.failures.items():
        raise MatrixError(f"{name} cannot be locked: {reason}")
    reject_dropped_cells(existing, prepared.excluded)
    updated = with_addresses(new_lock(prepared, inputs), kept, Toolchains(request.cache, listen))
    updated = with_waiting(updated, existing, prepared.excluded) if existing else updated
    for difference in differences(existing, updated) if existing else ():
        click.echo(f"changed: {difference}", err=True)
    write_lock(path, updated)
    wheels = {wheel.sha256 for environment in updated.environments for wheel in environment.wheels}
    click.echo(
        f"{path}: {counted(len(updated.cells), 'combination')}, {counted(len(updated.pins), 'pinned file')}, "
        f"{counted(len(wheels), 'package')}"
    )
    ctx.exit(ExitCode.OK if prepared.plans else ExitCode.NOTHING_SELECTED)


def _read_existing(path: Path, *, readable: bool) -> Lock | None:
    """Read the existing lock file.

    :param readable: raise if the file is damaged; otherwise return None, since the caller replaces the file.
    """
    try:
        return read_lock(path)
    except MatrixError:
        if readable:
            raise
        return None


@click.command("vendor")
@matrix_option
@kernel_option
@selection_options
@engine_option
@quiet_option
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.pass_context
def vendor_command(
    ctx: click.Context,
    /,
    *,
    matrix: Path,
    engine: str | None,
    quiet: bool,
    folder: Path | None,
    **selection: Any,
) -> None:
    """Download all build inputs to a folder, for builds without a network.

    The matrix must be locked. The default folder is wheelsmith.vendor next to the matrix.
    """
    from wheelsmith.report import reporter
    from wheelsmith.run.vendor import vendor

    listen = reporter("quiet" if quiet else "plain", matrix.parent)
    target = (folder or vendor_path(matrix)).absolute()
    prepared = prepare_set(make_request(matrix, engine, locked=True, **selection), listen)
    if prepared.failures:
        name, reason = next(iter(prepared.failures.items()))
        raise MatrixError(
            f"{name} cannot be vendored: {reason}", remedy="fix it, or select other kernels with --kernel"
        )
    os.environ[VENDORED] = str(target)
    files, size = vendor(prepared, target, listen)
    click.echo(f"{folder or vendor_path(matrix)}: {counted(files, 'file')}, {show_size(size)}")
    ctx.exit(ExitCode.OK if prepared.plans else ExitCode.NOTHING_SELECTED)
