"""The commands ``wheelsmith init`` and ``wheelsmith schema``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.base.units import counted


@click.command("init")
@click.argument("source", default=".", metavar="[SOURCE]")
@click.option(
    "--matrix",
    type=click.Path(path_type=Path),
    default=Path("matrix.yaml"),
    show_default=True,
    help="Where it is written.",
)
@click.option(
    "--submodules",
    metavar="PATH,…",
    help="Of a git repository, those that are fetched; none fetches no submodule.  [default: all]",
)
@click.option("--force", is_flag=True, help="Replace one that is there.")
def command(*, source: str, matrix: Path, submodules: str | None, force: bool) -> None:
    """Write a first matrix.yaml for a kernel or a project, one that can be planned as it is.

    SOURCE is a folder, an archive, a release on a package index (torch-scatter==2.1.2, or the newest: torch-scatter), a
    git repository (git+https://…@revision#subdirectory=…) or a Hub repo (hub:org/name@revision); the folder that it is
    started in where none is named.
    """
    from wheelsmith.base.files import atomic_write
    from wheelsmith.report import reporter
    from wheelsmith.run.init_matrix import first_matrix
    from wheelsmith.run.prepare import default_cache
    from wheelsmith.run.project_source import parse_source, with_submodules

    if matrix.exists() and not force:
        raise MatrixError(
            "it is there already", where=Place(file=str(matrix)), remedy="name another with --matrix, or --force"
        )
    kernel = parse_source(source, matrix.absolute().parent)
    if submodules is not None:
        kernel = with_submodules(kernel, submodules)
    text, label, cells = first_matrix(kernel, matrix, default_cache(), reporter("plain", matrix.parent))
    atomic_write(matrix, text.encode())
    click.echo(f"{matrix}: {label}, {counted(cells, 'cell')}; wheelsmith plan shows it", err=True)


@click.command("schema")
def schema() -> None:
    """Print the JSON Schema of matrix.yaml.

    Editors with a YAML language server use it to complete and check: wheelsmith schema > matrix.schema.json
    """
    from wheelsmith.matrix.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
