"""The command ``wheelsmith plan``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.base.units import counted
from wheelsmith.cli.options import (
    Number,
    disable_network,
    engine_option,
    json_option,
    kernel_option,
    locked_option,
    make_request,
    matrix_option,
    offline_option,
    quiet_option,
    selection_options,
    shard_plan_option,
    shard_plan_path,
)
from wheelsmith.model import Listener, Notice
from wheelsmith.plan.planned_run import PlannedRun
from wheelsmith.plan.shards import Shard, shard_label
from wheelsmith.run.build import stored_wheels
from wheelsmith.run.prepare import Request
from wheelsmith.run.prepared_set import PreparedSet, prepare_set
from wheelsmith.run.project_source import kernel_name_notices

_F = TypeVar("_F", bound=Callable[..., Any])
_AUTO = 0
_MAX_SHARDS = 256  # jobs: GitHub's limit for a matrix
_HOUR = 3600.0
_MOST_ROWS = 300  # of a set; above that, its plan has a row for each kernel


class _Shards(click.ParamType[int]):
    """A parameter type for a number of shards or ``auto``."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; 0 means ``auto``."""
        return _AUTO if value == "auto" else int(click.IntRange(1, _MAX_SHARDS).convert(value, param, ctx))


def shards_options(command: _F) -> _F:
    """Add ``--shards`` and its limits."""
    for option in (
        click.option("--cores", type=Number(1, 1024), default=4, show_default=True, help="CPU cores of one job."),
        click.option(
            "--max-hours",
            type=Number(1, 1000),
            default=5,
            show_default=True,
            help="Estimated hours that one job may take.",
        ),
        click.option(
            "--max-shards",
            type=Number(1, _MAX_SHARDS),
            default=_MAX_SHARDS,
            show_default=True,
            help="Upper limit for --shards auto.",
        ),
        click.option(
            "--shards",
            type=_Shards(),
            metavar="N|auto",
            help="Split the matrix into N jobs; auto uses as few as --max-hours allows.",
        ),
    ):
        command = option(command)
    return command


def build_matrix_options(
    *, matrix: Path, engine: str | None, shard_plan: Path | None, locked: bool, offline: bool
) -> tuple[str, ...]:
    """Return the options of ``build-matrix`` with which each job makes the same plan as this command."""
    given = {
        "--matrix": None if matrix == Path("matrix.yaml") else matrix,
        "--engine": engine,
        "--shard-plan": shard_plan,
    }
    flags = {"--locked": locked, "--offline": offline}
    return (
        *(str(word) for option, value in given.items() if value is not None for word in (option, value)),
        *(option for option, is_set in flags.items() if is_set),
    )


@click.command("plan")
@matrix_option
@kernel_option
@selection_options
@engine_option
@locked_option
@offline_option
@json_option()
@quiet_option
@shards_options
@shard_plan_option
@click.option(
    "--add-plan",
    "added_plans",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Add the combinations that wait from the shard plan of a machine that can build them. Repeatable.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "github-matrix", "gitlab", "buildkite"]),
    default="table",
    show_default=True,
    help="Output format. gitlab and buildkite require --shards.",
)
@click.pass_context
def command(  # noqa: PLR0913  # one parameter for each option
    ctx: click.Context,
    /,
    *,
    matrix: Path,
    engine: str | None,
    locked: bool,
    offline: bool,
    as_json: bool,
    quiet: bool,
    shards: int | None,
    max_shards: int,
    max_hours: int,
    cores: int,
    shard_plan: Path | None,
    added_plans: tuple[Path, ...],
    output_format: str,
    **selection: Any,
) -> None:
    """Show what would be built and why the rest is excluded."""
    from wheelsmith.report import reporter

    if offline:
        disable_network(matrix)
    request = make_request(matrix, engine, locked=locked, **selection)
    if shards is None and output_format in {"gitlab", "buildkite"}:
        raise click.UsageError(f"--format {output_format} requires --shards")
    listen = reporter("quiet" if quiet else "plain", matrix.parent)
    prepared = prepare_set(request, listen)
    planned: PlannedRun = prepared
    if shards is not None:
        from wheelsmith.run.shards import add_plan, read_shards, sharded_plan, write_shards

        max_seconds = max_hours * _HOUR * cores
        planned = plan = sharded_plan(prepared, shards, max_seconds=max_seconds, max_shards=max_shards)
        for path in added_plans:
            planned = plan = add_plan(plan, read_shards(path))
        write_shards(plan, shard_plan_path(shard_plan, matrix))
        if long_shards := _labels_of_long_shards(plan.shards, max_seconds):
            limit = f"{max_hours} hours on {counted(cores, 'core')}"
            text = f"shards that may take longer than {limit}: {', '.join(long_shards)}"
            listen(Notice(level="warning", text=text))
        repeat_options = build_matrix_options(
            matrix=matrix, engine=engine, shard_plan=shard_plan, locked=locked, offline=offline
        )
        _show_shards(plan.shards, output_format, cores, repeat_options, as_json=as_json)
    elif as_json:
        click.echo(json.dumps(plan_json(prepared), indent=1))
    elif output_format == "github-matrix":
        click.echo(json.dumps({"include": [{"cell": plan.cell.id} for plan in prepared.plans]}))
    else:
        show_plan(prepared, request, listen)
    ctx.exit(plan_exit_code(planned))


def _labels_of_long_shards(shards: Sequence[Shard], max_seconds: float) -> list[str]:
    return [shard_label(number, shards) for number, shard in enumerate(shards, 1) if shard.seconds > max_seconds]


def _show_shards(
    shards: Sequence[Shard], output_format: str, cores: int, options: Sequence[str], *, as_json: bool
) -> None:
    from wheelsmith.report import make_console
    from wheelsmith.report.shards import format_shards
    from wheelsmith.report.tables import shard_table

    if as_json:
        click.echo(json.dumps({"schema_version": 1, "shards": [shard.to_json() for shard in shards]}, indent=1))
    elif output_format == "table":
        make_console(stderr=False).print(shard_table(shards, cores))
    else:
        click.echo(format_shards(shards, output_format, options))


def plan_exit_code(planned: PlannedRun) -> ExitCode:
    """Return the exit code of a command that only plans."""
    if planned.failures:
        return ExitCode.CELLS_FAILED
    return ExitCode.OK if planned.plans else ExitCode.NOTHING_SELECTED


def plan_json(prepared: PreparedSet) -> dict[str, object]:
    """Return the plan as ``plan --json`` prints it."""
    folded = prepared.folded
    return {
        "schema_version": 1,
        "kernel": prepared.kernel,
        "engine": prepared.engine.name,
        "plans": [
            {
                **plan.to_json(),
                "digest": plan.build_digest,
                "folded": folded[plan.cell.id].to_json() if plan.cell.id in folded else None,
                "not_folded": prepared.not_folded.get(plan.cell.id),
                "not_upstream": prepared.not_upstream.get(plan.cell.id),
            }
            for plan in prepared.plans
        ],
        "excluded": [{"id": item.cell.id, **item.to_json()} for item in prepared.excluded],
    }


def show_plan(prepared: PreparedSet, request: Request, listen: Listener) -> None:
    """Print the plan as a table on stdout.

    :param listen: receives a notice if another project may have the kernel's name.
    """
    from wheelsmith.report import exclusion_reasons, kernel_table, make_console, plan_table, sharing_reasons, totals

    cached = frozenset(stored_wheels(prepared.plans, request.cache, prepared.engine))
    console = make_console(stderr=False)
    builds, folded = prepared.builds, prepared.folded
    rows = len(prepared.plans) + len(prepared.excluded)
    by_kernel = bool(prepared.kernels) and rows > _MOST_ROWS
    if by_kernel:
        console.print(kernel_table(prepared.plans, prepared.excluded, folded, cached=cached))
    else:
        reasons = {"not_folded": prepared.not_folded, "not_upstream": prepared.not_upstream}
        console.print(plan_table(prepared.plans, prepared.excluded, folded, cached=cached, **reasons))
    upstream = sum(build.plan.repacked for build in builds)
    cached_builds = sum(build.plan.build_digest in cached for build in builds)
    from_upstream = f"{upstream} from upstream, " if upstream else ""
    lost = f", {counted(len(prepared.failures), 'kernel')} not planned" if prepared.failures else ""
    console.print(f"{totals(prepared.plans, folded)} ({from_upstream}{cached_builds - upstream} cached){lost}")
    # Beside wheels, the rows of excluded combinations suffice.
    why = exclusion_reasons(prepared.excluded) if by_kernel or not prepared.plans else ()
    for line in (*sharing_reasons(folded), *why):
        console.print(f"  {line}")
    if by_kernel:
        console.print("each combination: wheelsmith plan --kernel NAME")
    if cached_builds < len(builds):  # without anything new, wheelsmith needs no network
        for each in prepared.prepared.values():
            for notice in kernel_name_notices(each.spec, each.matrix.kernel):
                listen(notice)
