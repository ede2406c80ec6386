"""The command ``wheelsmith test-matrix``."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wheelsmith.base.errors import ExitCode, NoMatchingWheelError
from wheelsmith.base.files import default_cache
from wheelsmith.cli.options import Number
from wheelsmith.cli.pick import CUDA, TORCH, index_option
from wheelsmith.cli.test import attempts_option, ci_address, details_option, find_wheels, timeout_option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from wheelsmith.index.pick.machine import Machine
    from wheelsmith.index.pick.source import FoundCatalogue
    from wheelsmith.model import Listener
    from wheelsmith.run.testing.cases import CaseExpander, WheelCase
    from wheelsmith.run.testing.command import RepeatedCommand
    from wheelsmith.run.testing.matrix import CaseResult, MatrixTester

_FOLDER = click.Path(path_type=Path, file_okay=False)
_TESTS = "tests.json"
_SHOWN_LINES, _SHOWN_CHARACTERS = 20, 200  # of the log of a test that failed
_GPU_PATIENCE = 60.0  # seconds to wait while other programs use all GPUs


@click.command("test-matrix")
@click.argument("project")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@index_option
@click.option("--of", "built", type=_FOLDER, help="Test only wheels in this output folder.")
@click.option("--torch", "releases", type=TORCH, multiple=True, help="Use only this torch release. Repeatable.")
@click.option("--cuda", "computes", type=CUDA, multiple=True, help="Use only this compute platform. Repeatable.")
@click.option("--python", "pythons", metavar="PATH", multiple=True, help="Use only this Python. Repeatable.")
@click.option("--with", "requirements", metavar="REQUIREMENT", multiple=True, help="Install this as well. Repeatable.")
@click.option("--over", metavar="PATH", help="Use torch and other packages of this Python.")
@click.option("--test-files", type=click.Path(path_type=Path, exists=True), multiple=True,
              help="Further files that the command uses. Repeatable.")  # fmt: skip
@click.option("--shard", metavar="K/N", help="Run every N-th test, beginning with number K.")
@click.option("--jobs", type=Number(1, 1000), help="Maximum number of tests at a time.  [default: number of GPUs]")
@attempts_option
@timeout_option
@click.option("--again", is_flag=True, help="Run tests that passed before, too.")
@details_option
@click.option("--out", type=_FOLDER, default="test-results", show_default=True, help="Folder for tests.json and logs.")
@click.pass_context
def command(  # noqa: PLR0913  # one parameter for each option
    ctx: click.Context,
    /,
    *,
    project: str,
    argv: tuple[str, ...],
    index: str,
    built: Path | None,
    releases: tuple[str, ...],
    computes: tuple[str, ...],
    pythons: tuple[str, ...],
    requirements: tuple[str, ...],
    over: str | None,
    test_files: tuple[Path, ...],
    shard: str | None,
    jobs: int | None,
    attempts: int,
    timeout: float,
    again: bool,
    details: str | None,
    out: Path,
) -> None:
    """Test every wheel of the newest version with each torch, Python and GPU that it is for.

    Each test has a fresh environment with the wheel. COMMAND runs there with one GPU, or with none for a CPU wheel.
    Only the oldest and the newest Python that can be used are tested. stdout shows the number of results.
    """
    from wheelsmith.base.units import counted, parse_shard
    from wheelsmith.cli.run_with_reports import cancelled_by_signals, preparing_reporter
    from wheelsmith.run.scratch import scratch
    from wheelsmith.run.testing.command import RepeatedCommand, check_description
    from wheelsmith.run.testing.kept_results import digest_files

    if over and (pythons or requirements):
        raise click.UsageError("--python and --with cannot be used with --over")
    if (part := parse_shard(shard or "1/1")) is None:
        raise click.BadParameter(f"{shard!r} is not K/N with K from 1 to N", param_hint="--shard")
    details = details or ci_address()
    check_description("here", details)
    # A result of an earlier run must not be mistaken for the result of this one.
    (out / _TESTS).unlink(missing_ok=True)
    files = None if again else digest_files([*test_files, *map(Path, argv)])
    with preparing_reporter("auto", out) as listen, cancelled_by_signals() as cancel:
        repeated = RepeatedCommand(argv=argv, attempts=attempts, seconds=timeout, cancel=cancel)
        found = find_wheels(project, index, built)
        expander = _make_expander(pythons, requirements, over, found, listen, cancel)
        everything = _expand(found, expander, releases, computes)
        cases = everything[part[0] - 1 :: part[1]]
        with scratch(default_cache() / "work") as folder:
            tester = _make_tester(repeated, found, expander.machine, files, jobs, out, folder)
            results = tester.run(cases, _show_start, _show_result)
    _write(results, details, out)
    if not cases:
        _show_line(f"shard {shard} has none of the {counted(len(everything), 'test')}")
    ctx.exit(_exit_code(results) if cases else ExitCode.OK)


def _make_expander(
    pythons: Sequence[str],
    requirements: tuple[str, ...],
    over: str | None,
    found: FoundCatalogue,
    listen: Listener,
    cancel: Event,
) -> CaseExpander:
    from wheelsmith.engine import this_machine
    from wheelsmith.index.pick.machine import probe_machine
    from wheelsmith.run.testing.cases import CaseExpander
    from wheelsmith.run.testing.environments import EnvironmentResolver, InstalledChooser

    if over:
        chooser = InstalledChooser.inspect(over)
        machine = chooser.machine
        return CaseExpander(
            machine=machine, pythons={machine.minor: machine.python}, choose=chooser.choose, cancel=cancel
        )
    named = [probe_machine(python) for python in pythons]
    machine = named[0] if named else probe_machine(None)
    programs = {each.minor: each.python for each in named} or dict(this_machine().pythons)
    resolver = EnvironmentResolver(
        pythons=programs,
        requirements=requirements,
        base=found.address,
        cache=default_cache(),
        listen=listen,
        cancel=cancel,
    )
    return CaseExpander(machine=machine, pythons=programs, choose=resolver.choose, cancel=cancel)


def _expand(
    found: FoundCatalogue, expander: CaseExpander, releases: Sequence[str], computes: Sequence[str]
) -> tuple[WheelCase, ...]:
    """Return the cases of the newest version.

    :raises NoMatchingWheelError: there are none.
    """
    from wheelsmith.base.units import release_order
    from wheelsmith.index.pick.decide import read_compute
    from wheelsmith.run.testing.cases import MatrixFilter

    limited = MatrixFilter(releases=releases, computes=[read_compute(text) for text in computes])
    wheels = [wheel for wheel in found.catalogue.wheels if wheel.yanked is None]
    wheels = [wheel for wheel in wheels if wheel.public == wheels[0].public]
    cases = expander.expand(wheels, limited)
    if not cases:
        cells = [cell for wheel in wheels for cell in wheel.cells]
        known = sorted({cell.release for cell in cells}, key=release_order), sorted({cell.compute for cell in cells})
        text = " and ".join(", ".join(names) for names in known)
        raise NoMatchingWheelError(
            f"{found.catalogue.project} has no wheel to test", remedy=f"it has wheels for {text}"
        )
    return cases


def _make_tester(
    repeated: RepeatedCommand,
    found: FoundCatalogue,
    machine: Machine,
    files: str | None,
    jobs: int | None,
    out: Path,
    scratch: Path,
) -> MatrixTester:
    from wheelsmith.platforms import platforms
    from wheelsmith.run.testing.environments import FreshEnvironments
    from wheelsmith.run.testing.gpus import GpuPool
    from wheelsmith.run.testing.kept_results import KeptResults
    from wheelsmith.run.testing.matrix import MatrixTester
    from wheelsmith.toolchain.pip import pip_settings

    cache, cancel = default_cache(), repeated.cancel
    return MatrixTester(
        command=repeated,
        environments=FreshEnvironments(
            base=found.address, settings=pip_settings(), cache=cache / "uv", scratch=scratch, cancel=cancel
        ),
        pool=GpuPool(
            folder=cache / "gpus",
            gpus=machine.gpus,
            memory=lambda: {
                uuid: used for each in platforms().values() for uuid, used in each.devices.memory().items()
            },
            patience=_GPU_PATIENCE,
            warn=_show_line,
            cancel=cancel,
        ),
        results=KeptResults(folder=cache / "tests", machine=machine, command=repeated.argv, files=files),
        jobs=jobs or max(1, len(machine.gpus)),
        logs=out / "logs",
    )


def _show_start(case: WheelCase) -> None:
    _show_line(f"{'testing':10}  {case.title}")


def _show_result(result: CaseResult) -> None:
    from wheelsmith.base.units import show_duration
    from wheelsmith.index.entries.entry import WheelOutcome

    error = result.error
    notes = [error.message, *filter(None, [error.remedy])] if error else []
    notes += ["an earlier run tested the same"] if result.kept else []
    notes += [show_duration(result.seconds)] if result.seconds else []
    _show_line(f"{result.outcome:10}  {result.case.title}" + (f" ({'; '.join(notes)})" if notes else ""))
    if result.log and (error or result.outcome is WheelOutcome.FAILED):
        with result.log.open(encoding="utf-8") as lines:
            for line in deque(lines, _SHOWN_LINES):
                _show_line(f"  {line.rstrip()[:_SHOWN_CHARACTERS]}")
        _show_line(f"  log: {result.log}")


def _show_line(line: str) -> None:
    click.echo(line, err=True)


def _write(results: Sequence[CaseResult], details: str | None, out: Path) -> None:
    from wheelsmith.base.files import atomic_write
    from wheelsmith.index.publish.record_tests import dump_tests
    from wheelsmith.run.testing.matrix import count_outcomes

    atomic_write(out / _TESTS, dump_tests(result.record(details) for result in results if result.where))
    click.echo(count_outcomes(results))


def _exit_code(results: Sequence[CaseResult]) -> ExitCode:
    """Return 1 if a test failed, the code of an error if a test could not run, and 3 if there was no test."""
    from wheelsmith.index.entries.entry import WheelOutcome
    from wheelsmith.run.testing.environments import ObstacleError

    if any(result.outcome is WheelOutcome.FAILED for result in results):
        return ExitCode.CELLS_FAILED
    for each in results:
        if each.error and not isinstance(each.error, ObstacleError):
            return each.error.exit_code
    return ExitCode.OK if any(each.where for each in results) else ExitCode.NOTHING_SELECTED
