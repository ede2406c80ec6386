"""The command ``wheelsmith pick``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from wheelsmith.base.errors import NoMatchingWheelError
from wheelsmith.cli.options import POLICY_OPTIONS, json_option, make_optional_policy, policy_options

if TYPE_CHECKING:
    from wheelsmith.index.pick.decide import Decision, Overrides
    from wheelsmith.index.pick.machine import Machine
    from wheelsmith.index.pick.source import FoundCatalogue
    from wheelsmith.index.resolve.install_commands import Template
    from wheelsmith.index.resolve.target import Refusal
    from wheelsmith.wheel.attestation.verification import Verified

_INSTALLERS = ("pip", "uv", "uv-project", "requirements", "dockerfile")
_RUNNABLE = ("pip", "uv")


class _Pattern(click.ParamType[str]):
    """A parameter type for text that must match a pattern."""

    def __init__(self, name: str, shape: str, example: str) -> None:
        self.name = name
        self._shape = re.compile(shape, re.ASCII)
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value unchanged."""
        if not self._shape.fullmatch(value):
            self.fail(f"{value!r} is not {self._example}", param, ctx)
        return str(value)


class _Driver(_Pattern):
    """A parameter type for an NVIDIA driver, or for the newest CUDA release that it supports."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the CUDA release."""
        from wheelsmith.platforms import platforms

        text = super().convert(value, param, ctx)
        if re.match(r"\d{1,2}\.", text):
            return text
        found = next((cuda for each in platforms().values() if (cuda := each.devices.newest_toolkit(text))), None)
        return found or self.fail(f"driver {text} is too old for any known CUDA release", param, ctx)


TORCH = _Pattern("release", r"\d{1,3}\.\d{1,3}(\.[A-Za-z0-9.+]{1,60})?", "a torch release such as 2.11")
CUDA = _Pattern("release", r"cpu|\d{2}\.\d|cu\d{3}", "cpu or a CUDA release such as 13.0")
_ARCH = _Pattern("arch", r"[a-z0-9_]{1,20}", "an architecture such as x86_64")
_PYTHON = _Pattern("version", r"3\.\d{1,2}(\.\d{1,3})?t?", "a Python such as 3.12, or 3.14t for free-threaded")
_RELEASE = _Pattern("release", r"\d{1,3}\.\d{1,3}", "a release such as 2.28 or 13.0")
_GPU = _Pattern("number", r"\d{1,2}\.\d", "a compute capability such as 9.0")
_DRIVER = _Driver(
    "version", r"\d{1,2}\.\d{1,3}|\d{3}(\.\d{1,4}){0,2}", "a driver such as 580, or a CUDA release such as 13.0"
)


@click.command("pick")
@click.argument("name")
@click.option("--index", required=True, metavar="URL", help="Address or folder of the index.")
@click.option(
    "--installer",
    type=click.Choice(_INSTALLERS),
    help="Form of the command.  [default: pip, or uv if the environment has no pip]",
)
@click.option("--python", metavar="PATH", help="Interpreter or virtual environment.  [default: python]")
@click.option("--torch", type=TORCH, help="torch release, such as 2.11.  [default: the installed one]")
@click.option("--cuda", type=CUDA, help="Compute platform: cpu, or a CUDA release such as 13.0.")
@click.option("--arch", type=_ARCH, help="CPU architecture, as in uname -m.")
@click.option("--python-version", type=_PYTHON, help="Python version, such as 3.12, or 3.14t for free-threaded.")
@click.option("--glibc", type=_RELEASE, help="glibc version, such as 2.28.")
@click.option(
    "--capability",
    "capabilities",
    type=_GPU,
    multiple=True,
    help="Compute capability of a GPU, such as 9.0. Repeatable.",
)
@click.option(
    "--driver",
    type=_DRIVER,
    help="NVIDIA driver, such as 580, or the newest CUDA release that it supports, such as 13.0.",
)
@click.option(
    "--keep-torch/--with-torch",
    default=None,
    help="Keep the installed torch, or install torch too.  [default: keep it if installed]",
)
@policy_options
@click.option("--run", is_flag=True, help="Run the command.")
@json_option()
def command(
    *, name: str, index: str, installer: str | None, python: str | None, run: bool, as_json: bool, **options: Any
) -> None:
    """Choose the wheel for this machine and print the install command.

    An installed torch stays unless --torch, --cuda or --with-torch selects another.

    With --key, --identity or --policy, the wheel needs a trusted signature.
    """
    from wheelsmith.index.pick.decide import Overrides, decide
    from wheelsmith.index.pick.machine import probe_machine, run_install
    from wheelsmith.index.pick.source import find_catalogue, verify_choice
    from wheelsmith.index.resolve.choose import Chooser
    from wheelsmith.index.resolve.install_commands import quote_address
    from wheelsmith.index.resolve.target import Refusal

    if run:
        _check_runnable(installer, options)
    policy = make_optional_policy(**{option: options.pop(option) for option in POLICY_OPTIONS})
    if policy and installer == "uv-project":
        raise click.UsageError("--installer uv-project cannot pin the hash of the signed wheel: choose another one")
    overrides = Overrides(compute=options.pop("cuda"), python=options.pop("python_version"), **options)
    found, machine = find_catalogue(name, index), probe_machine(python)
    chooser = Chooser(found.catalogue)
    decision, attestation = decide(chooser, machine, overrides), None
    if policy:
        decision, attestation = verify_choice(decision, found, policy)
    if not as_json:
        print_lines(describe_choice(machine, overrides, decision, found, chooser.warning))
        if attestation:
            signed = f"  signed by {attestation.signer}; built from {attestation.source} by {attestation.builder}"
            print_lines(iter([signed]))
    if isinstance(decision.answer, Refusal):
        if as_json:
            click.echo(json.dumps(_json_data(machine, decision, None, None), indent=1))
        raise NoMatchingWheelError(decision.answer.reason, remedy=suggest_nearest(decision.answer))
    commands = _install_commands(decision, installer, quote_address(found.base), machine, overrides)
    click.echo(
        json.dumps(_json_data(machine, decision, commands, attestation), indent=1) if as_json else commands.text()
    )
    if run:
        run_install(commands)


def _check_runnable(installer: str | None, options: Mapping[str, Any]) -> None:
    """Check that the command can run on this machine.

    :raises click.UsageError: it cannot.
    """
    if installer not in {None, *_RUNNABLE}:
        raise click.UsageError(f"--run supports only {' and '.join(_RUNNABLE)}, not --installer {installer}")
    if options["arch"] or options["python_version"]:
        raise click.UsageError("--run cannot be used with --arch or --python-version, which describe another machine")


def _install_commands(
    decision: Decision, installer: str | None, base: str, machine: Machine, overrides: Overrides
) -> Template:
    """Return the install commands, which name the environment only if they are for this machine."""
    from wheelsmith.index.pick.machine import use_environment
    from wheelsmith.index.resolve.install_commands import Installer

    if overrides.for_another_machine:
        return decision.commands(Installer(installer or Installer.PIP), base)
    chosen = Installer(installer or machine.installer)
    return use_environment(decision.commands(chosen, base), chosen, machine)


def print_lines(lines: Iterator[str]) -> None:
    """Print lines on stderr."""
    from wheelsmith.engine import visible

    for line in lines:
        click.echo(visible(line), err=True)


def describe_choice(
    machine: Machine, overrides: Overrides, decision: Decision, found: FoundCatalogue, warning: str | None
) -> Iterator[str]:
    """Yield lines that describe the machine, the chosen wheel and the reasons."""
    from wheelsmith.index.resolve.target import Choice
    from wheelsmith.model import release_title
    from wheelsmith.platforms import compute_name

    torch = f"torch {machine.torch} ({machine.torch_compute or 'unknown platform'})" if machine.torch else "no torch"
    torch += "".join(f", {name} {there}" for name, there in machine.frameworks.items())
    gpus = ", ".join(f"{gpu.name} ({gpu.capability})" for gpu in machine.gpus) or "no GPU"
    driver = f"a driver for CUDA up to {machine.driver}" if machine.driver else "no NVIDIA driver"
    version = f"{machine.python_version}{' free-threaded' if machine.free_threaded else ''}"
    yield f"{machine.python}: Python {version}, {torch}; {machine.arch}, glibc {machine.glibc}"
    yield f"{driver}, {gpus}"
    named = {"cuda" if name == "compute" else name: value for name, value in overrides.to_json().items()}
    values = [f"{name} {value}" for name, value in named.items() if isinstance(value, str) and name != "driver"]
    values += [f"capability {value}" for value in overrides.capabilities]
    values += [f"a driver for CUDA up to {overrides.driver}"] if overrides.driver else []
    if values:
        yield f"overrides: {', '.join(values)}"
    if warning:
        yield f"warning: {warning}"
    if isinstance(decision.answer, Choice):
        target = decision.target
        what = f"{release_title(target.framework, target.release)}, {compute_name(target.compute)}, {target.arch}, "
        what += f"Python {target.python_minor}"
        yield f"{decision.answer.wheel.filename}: for {what}"
        yield from (f"  {note}" for note in (*decision.notes, *decision.answer.notes))
        if found.credentials:
            yield "  the command omits the user and password of the address; pip and uv read them from netrc"


def suggest_nearest(refusal: Refusal) -> str | None:
    """Return the options that would select the nearest targets that have a wheel, or None if there are none."""
    if not refusal.nearest:
        return None
    return "nearest alternatives with a wheel: " + " or ".join(near.change for near in refusal.nearest)


def _json_data(
    machine: Machine, decision: Decision, commands: Template | None, attestation: Verified | None
) -> dict[str, Any]:
    from wheelsmith.index.entries.catalogue import wheel_json
    from wheelsmith.index.resolve.target import Refusal

    answer = decision.answer
    data: dict[str, Any] = {
        "schema_version": 1,
        "machine": machine.to_json(),
        "target": decision.target.to_json(),
        decision.target.framework: decision.presence,
        "notes": list(decision.notes),
        "verified": attestation and attestation.to_json(),
        "command": commands.text() if commands else None,
        "argv": [list(line) for line in commands.lines] if commands and commands.shell else None,
    }
    if isinstance(answer, Refusal):
        nearest = [{"change": near.change, **near.target.to_json()} for near in answer.nearest]
        return {**data, "wheel": None, "refused": answer.code, "reason": answer.reason, "nearest": nearest}
    notes = [*decision.notes, *answer.notes]
    return {**data, "notes": notes, "wheel": wheel_json(answer.wheel), "refused": None, "reason": None, "nearest": []}
