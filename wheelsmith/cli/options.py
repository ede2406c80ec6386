"""Options that several commands share, declared once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wheelsmith.base.offline import go_offline, vendored_folder
from wheelsmith.base.units import parse_seconds, parse_size
from wheelsmith.model.build_host import AUTO, ENGINES

if TYPE_CHECKING:
    from wheelsmith.run.prepare import Request

_F = TypeVar("_F", bound=Callable[..., Any])


def _cells(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of cells from the matrix beside the command line."""
    del parameter
    from wheelsmith.base.errors import WheelsmithError
    from wheelsmith.matrix import cell_of, expand, load_matrix

    try:
        answers = expand(load_matrix(Path(ctx.params.get("matrix") or "matrix.yaml")))
    except WheelsmithError:
        return []
    return [name for answer in answers if (name := cell_of(answer).id).startswith(incomplete)]


class _Quantity(click.ParamType[float]):
    """A number with a unit."""

    def __init__(self, name: str, parse: Callable[[str], float]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return it in bytes or seconds."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


SIZE = _Quantity("size", parse_size)
DURATION = _Quantity("duration", parse_seconds)


def matrix_option(command: _F) -> _F:
    """Add ``--matrix``."""
    return click.option(
        "--matrix",
        type=click.Path(path_type=Path),
        default=Path("matrix.yaml"),
        show_default=True,
        help="The matrix file.",
    )(command)


def engine_option(command: _F) -> _F:
    """Add ``--engine``."""
    return click.option(
        "--engine",
        type=click.Choice([AUTO, *ENGINES]),
        help="Where builds run; default: the matrix's choice.",
    )(command)


def selection_options(command: _F) -> _F:
    """Add ``--only`` and ``--skip``."""
    for name, text in (("--skip", "Leave these cells out"), ("--only", "Take only these cells")):
        command = click.option(
            name,
            multiple=True,
            metavar="GLOB",
            shell_complete=_cells,
            help=f"{text}: a glob with braces, such as 'torch2{{11,13}}-*-cu130-*'. Repeatable.",
        )(command)
    return command


def locked_option(command: _F) -> _F:
    """Add ``--locked``."""
    return click.option(
        "--locked", is_flag=True, help="Refuse what is not as wheelsmith.lock has it, or is not to be had any more."
    )(command)


def offline_option(command: _F) -> _F:
    """Add ``--offline``."""
    return click.option(
        "--offline",
        is_flag=True,
        help="Ask nobody for anything: take what is not in the cache from the folder that wheelsmith vendor wrote.",
    )(command)


def cell_argument(command: _F) -> _F:
    """Add the name of one cell."""
    return click.argument("cell", shell_complete=_cells)(command)


def json_option(text: str) -> Callable[[_F], _F]:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def keep_offline(matrix: Path) -> None:
    """Use the network no more; what was vendored lies beside the matrix, or where WHEELSMITH_VENDORED says."""
    from wheelsmith.plan.lock import vendor_path

    go_offline(vendored_folder() or vendor_path(matrix))


def make_request(matrix: Path, engine: str | None, **asked: Any) -> Request:
    """Return the request that the options make."""
    from wheelsmith.run.prepare import Request, cache_limit, default_cache

    return Request(matrix=matrix, cache=default_cache(), cache_limit=cache_limit(), engine=engine, **asked)
