"""The commands ``wheelsmith init`` and ``wheelsmith schema``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.base.units import counted
from wheelsmith.cli.options import quiet_option


@click.command("init")
@click.argument("source", default=".", metavar="[SOURCE]")
@click.option(
    "--matrix",
    type=click.Path(path_type=Path),
    default=Path("matrix.yaml"),
    show_default=True,
    help="File to write.",
)
@click.option(
    "--submodules",
    metavar="PATH,…",
    help="Git submodules to fetch, or none.  [default: all]",
)
@click.option(
    "--python",
    "pythons",
    metavar="X.Y,…",
    default="",
    help="Pythons to build a project for.  [default: the one that runs wheelsmith]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@quiet_option
def command(*, source: str, matrix: Path, submodules: str | None, pythons: str, force: bool, quiet: bool) -> None:
    """Write a first matrix.yaml for a kernel or a project.

    SOURCE is a folder, an archive, a project on a package index (torch-scatter or torch-scatter==2.1.2), a git
    repository (git+https://…@revision#subdirectory=…) or a Hub repo (hub:org/name@revision). The default is the current
    folder.
    """
    from wheelsmith.base.files import atomic_write, default_cache
    from wheelsmith.report import reporter
    from wheelsmith.run.init_matrix import first_matrix, missing_ignores
    from wheelsmith.run.project_source import parse_source, with_submodules

    if matrix.exists() and not force:
        raise MatrixError(
            "the file already exists",
            where=Place(file=str(matrix)),
            remedy="choose another file with --matrix, or overwrite it with --force",
        )
    listen = reporter("quiet" if quiet else "plain", matrix.parent)
    kernel = parse_source(source, matrix.absolute().parent, listen)
    if kernel.sdist and "==" not in source and not source.startswith("sdist:"):
        click.echo(f"there is no folder {source} here: using {kernel.sdist} from the package index", err=True)
    if submodules is not None:
        kernel = with_submodules(kernel, submodules)
    names = tuple(dict.fromkeys(filter(None, pythons.split(","))))
    text, label, cells = first_matrix(kernel, matrix, default_cache(), listen, names)
    atomic_write(matrix, text.encode())
    click.echo(f"wrote {matrix}: {label}, {counted(cells, 'combination')}; show them with: wheelsmith plan", err=True)
    if lines := missing_ignores(matrix):
        ignores = matrix.parent / ".gitignore"
        click.echo(f"{'add to' if ignores.exists() else 'wrote'} {ignores}: {' '.join(lines)}", err=True)
        if not ignores.exists():
            atomic_write(ignores, "".join(f"{line}\n" for line in lines).encode())


@click.command("schema")
def schema() -> None:
    """Print the JSON Schema of matrix.yaml.

    For completion and validation in editors: wheelsmith schema > matrix.schema.json
    """
    from wheelsmith.matrix.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
