"""The command ``wheelsmith relabel``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import counted, show_size
from wheelsmith.cli.options import SIZE, declare_option, json_option, selection_options
from wheelsmith.run.relabel import PYPI_LIMIT, choose_wheels, relabel


@click.command("relabel")
@click.argument("wheels", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the relabelled wheels.")
@selection_options
@click.option(
    "--name-template",
    "template",
    metavar="TEXT",
    help="File names for a project's setup.py instead of PyPI, such as "
    "'{name}-{version}+cu{cuda_major}torch{torch}-{python}-{python}-linux_{arch}.whl'.",
)
@click.option("--max-size", type=SIZE, default=PYPI_LIMIT, help="Largest file that PyPI accepts.  [default: 100MiB]")
@declare_option
@json_option()
def command(
    *,
    wheels: tuple[Path, ...],
    out: Path,
    arch: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Give checked wheels a version without the local part, for PyPI.

    WHEELS are files, or folders with wheels or an index. Only the version in names, METADATA and RECORD changes.
    """
    chosen, older = choose_wheels(wheels, arch=arch, only=only, skip=skip)
    relabelled = relabel(chosen, out, **options)
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "wheels": [each.to_json() for each in relabelled]}, indent=1))
        return
    for wheel in relabelled:
        torch = "no torch" if wheel.requires_torch is None else f"torch{wheel.requires_torch}"
        for name in wheel.files:
            click.echo(visible(f"+ {name}: {show_size(wheel.size)}, requires {torch}"))
    click.echo(f"{counted(len(relabelled), 'wheel')} relabelled: {out}", err=True)
    if older:
        click.echo(f"{counted(older, 'wheel')} of an older source left out: build again", err=True)
