"""The command ``wheelsmith test``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wheelsmith.base.errors import ExitCode, NoMatchingWheelError
from wheelsmith.cli.options import DURATION, POLICY_OPTIONS, Number, make_optional_policy, policy_options
from wheelsmith.cli.pick import (
    CUDA,
    TORCH,
    describe_machine,
    describe_wheel,
    index_option,
    print_lines,
    suggest_nearest,
)

if TYPE_CHECKING:
    from wheelsmith.index.entries.entry import IndexEntry
    from wheelsmith.index.pick.decide import Decision, Overrides
    from wheelsmith.index.pick.machine import Machine
    from wheelsmith.index.pick.source import FoundCatalogue
    from wheelsmith.wheel.attestation.policy import SignaturePolicy

_OUTPUT = click.Path(path_type=Path, dir_okay=False)
# For test-matrix, too.
attempts_option = click.option(
    "--attempts", type=Number(1, 100), default=1, show_default=True, help="Run COMMAND up to N times."
)
timeout_option = click.option(
    "--timeout", type=DURATION, default=3600.0, help="Time limit for each attempt.  [default: 1h]"
)
details_option = click.option("--details", metavar="URL", help="Address with more information.  [default: the CI run]")


@click.command("test")
@click.argument("project")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@index_option
@click.option("--of", "out", type=click.Path(path_type=Path), help="Test only wheels in this output folder.")
@click.option("--python", metavar="PATH", help="Python for the environment.  [default: python]")
@click.option("--torch", type=TORCH, help="torch release, such as 2.11.  [default: the newest with a wheel]")
@click.option("--cuda", type=CUDA, help="Compute platform: cpu, or a CUDA release such as 13.0.")
@click.option("--on", "where", metavar="TEXT", help="Description of the machine.  [default: detected]")
@details_option
@click.option("--output", type=_OUTPUT, help="Write the outcome for index record-tests.")
@attempts_option
@timeout_option
@policy_options
@click.pass_context
def command(  # noqa: PLR0913  # one parameter for each option
    ctx: click.Context,
    /,
    *,
    project: str,
    argv: tuple[str, ...],
    index: str,
    out: Path | None,
    python: str | None,
    torch: str | None,
    cuda: str | None,
    where: str | None,
    details: str | None,
    output: Path | None,
    attempts: int,
    timeout: float,
    **signers: Any,
) -> None:
    """Install the wheel for this machine in a fresh environment and run a command.

    The command chooses the wheel as `pick` does, and installs torch too. COMMAND does not import files of the
    current folder. stdout shows the outcome: passed, failed, or flaky (passed after a failure).
    """
    from wheelsmith.base.files import atomic_write
    from wheelsmith.cli.run_with_reports import cancelled_by_signals
    from wheelsmith.index.entries.entry import WheelOutcome
    from wheelsmith.index.pick.decide import Overrides
    from wheelsmith.index.pick.machine import probe_machine, use_environment
    from wheelsmith.index.publish.record_tests import dump_tests
    from wheelsmith.index.resolve.install_commands import Installer, quote_address
    from wheelsmith.run.testing import command as testing
    from wheelsmith.run.testing import install_check

    if output and output.is_file() and not output.is_symlink():
        # A result of an earlier run must not be mistaken for the result of this one.
        output.unlink()
    policy = make_optional_policy(**{option: signers[option] for option in POLICY_OPTIONS})
    details = details or ci_address()
    testing.check_description(where or "here", details)
    found = find_wheels(project, index, out)
    with cancelled_by_signals() as cancel, install_check.fresh_environment(probe_machine(python).python) as environment:
        machine = probe_machine(str(environment), testing.activated_variables(environment))
        decision, wheel = _choose_wheel(found, machine, Overrides(torch=torch, compute=cuda), policy)
        install = use_environment(decision.commands(Installer.PIP, quote_address(found.base)), Installer.PIP, machine)
        click.echo(install.text(), err=True)
        tester = install_check.WheelTester(
            environment=environment,
            base=quote_address(found.base),
            command=testing.RepeatedCommand(argv=argv, attempts=attempts, seconds=timeout, cancel=cancel),
            say=_print_line,
        )
        outcome = tester.test(wheel, install)
        tested_on = where or testing.machine_label(machine)
        recorded = install_check.make_test_record(decision.target, wheel, outcome, tested_on, details)
    if output:
        atomic_write(output, dump_tests([recorded]))
    click.echo(outcome)
    print_lines(iter([f"{recorded.wheel}: {outcome} on {recorded.where}"]))
    ctx.exit(ExitCode.CELLS_FAILED if outcome is WheelOutcome.FAILED else ExitCode.OK)


def _print_line(line: str) -> None:
    click.echo(line, err=True)


def find_wheels(project: str, index: str, out: Path | None) -> FoundCatalogue:
    """Return the catalogue of a project, with only the wheels of an output folder if there is one."""
    from dataclasses import replace

    from wheelsmith.index.pick.source import find_catalogue
    from wheelsmith.run.testing.install_check import only_built_wheels

    found = find_catalogue(project, index)
    return replace(found, catalogue=only_built_wheels(found.catalogue, out)) if out else found


def _choose_wheel(
    found: FoundCatalogue, machine: Machine, wanted: Overrides, policy: SignaturePolicy | None
) -> tuple[Decision, IndexEntry]:
    """Choose a wheel as ``pick`` does, and print the reasons.

    :raises NoMatchingWheelError: no wheel fits.
    """
    from wheelsmith.index.pick.decide import decide
    from wheelsmith.index.pick.source import verify_choice
    from wheelsmith.index.resolve.choose import Chooser
    from wheelsmith.index.resolve.target import Refusal

    chooser = Chooser(found.catalogue)
    decision = decide(chooser, machine, wanted)
    if policy:
        decision, _ = verify_choice(decision, found, policy)
    print_lines([*describe_machine(machine, wanted), *describe_wheel(decision, found, chooser.warning)])
    if isinstance(decision.answer, Refusal):
        raise NoMatchingWheelError(decision.answer.reason, remedy=suggest_nearest(decision.answer.nearest))
    return decision, decision.answer.wheel


def ci_address() -> str | None:
    """Return the address of this run in the CI system, or None if there is no plain address."""
    from wheelsmith.base.ci import detect_ci_run
    from wheelsmith.base.errors import WheelTestError
    from wheelsmith.run.testing.command import check_description

    address = detect_ci_run().invocation
    try:
        check_description("here", address)
    except WheelTestError:
        return None
    return address
