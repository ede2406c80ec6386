"""The command ``wheelsmith pick``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from wheelsmith.base.errors import NoMatchingWheelError
from wheelsmith.cli.options import POLICY_OPTIONS, json_option, make_optional_policy, policy_options

if TYPE_CHECKING:
    from wheelsmith.index.pick.decide import Decision, Overrides
    from wheelsmith.index.pick.machine import Machine
    from wheelsmith.index.pick.source import FoundCatalogue
    from wheelsmith.index.pick.together import GroupDecision
    from wheelsmith.index.resolve.install_commands import Template
    from wheelsmith.index.resolve.target import Nearest
    from wheelsmith.wheel.attestation.policy import SignaturePolicy
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


class _Named(_Pattern):
    """A parameter type for the release of a platform, whose name begins with that of the platform."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of the compute platform."""
        return self.name + super().convert(value, param, ctx)


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
ROCM = _Named("rocm", r"\d\.\d", "a ROCm release such as 7.2")
XPU = _Named("xpu", r"\d{4}\.\d", "a oneAPI release such as 2025.3")
_ARCH = _Pattern("arch", r"[a-z0-9_]{1,20}", "an architecture such as x86_64")
_PYTHON = _Pattern("version", r"3\.\d{1,2}(\.\d{1,3})?t?", "a Python such as 3.12, or 3.14t for free-threaded")
_RELEASE = _Pattern("release", r"\d{1,3}\.\d{1,3}", "a release such as 2.28 or 13.0")
_GPU = _Pattern("name", r"\d{1,2}\.\d|gfx[0-9a-f]{3,4}(:[a-z]+[+-])*", "a GPU architecture such as 9.0 or gfx942")
_DRIVER = _Driver(
    "version", r"\d{1,2}\.\d{1,3}|\d{3}(\.\d{1,4}){0,2}", "a driver such as 580, or a CUDA release such as 13.0"
)
_PLATFORMS = ("cuda", "rocm", "xpu")  # of the options that name a compute platform
index_option = click.option("--index", required=True, metavar="URL", help="Address or folder of the index.")


@click.command("pick")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@index_option
@click.option(
    "--installer",
    type=click.Choice(_INSTALLERS),
    help="Form of the command.  [default: pip, or uv if the environment has no pip]",
)
@click.option("--python", metavar="PATH", help="Interpreter or virtual environment.  [default: python]")
@click.option("--torch", type=TORCH, help="torch release, such as 2.11.  [default: the installed one]")
@click.option("--cuda", type=CUDA, help="Compute platform: cpu, or a CUDA release such as 13.0.")
@click.option("--rocm", type=ROCM, metavar="RELEASE", help="ROCm release, such as 7.2.")
@click.option("--xpu", type=XPU, metavar="RELEASE", help="Release of oneAPI for Intel GPUs, such as 2025.3.")
@click.option("--arch", type=_ARCH, help="CPU architecture, as in uname -m.")
@click.option("--python-version", type=_PYTHON, help="Python version, such as 3.12, or 3.14t for free-threaded.")
@click.option("--glibc", type=_RELEASE, help="glibc version, such as 2.28.")
@click.option(
    "--capability",
    "capabilities",
    type=_GPU,
    multiple=True,
    help="Compute capability of a GPU, such as 9.0, or an AMD architecture, such as gfx942. Repeatable.",
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
    *,
    names: tuple[str, ...],
    index: str,
    installer: str | None,
    python: str | None,
    run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Choose the wheel for this machine and print the install command.

    For several projects, print one command. All of their wheels are for the same torch: the installed one, or the
    newest for which all of them have a wheel.

    An installed torch stays unless --torch, --cuda or --with-torch selects another.

    With --key, --identity or --policy, the wheel needs a trusted signature.
    """
    from wheelsmith.index.pick.decide import Overrides
    from wheelsmith.index.pick.machine import probe_machine, run_install
    from wheelsmith.index.pick.source import find_catalogue
    from wheelsmith.index.pick.together import decide_together
    from wheelsmith.index.resolve.choose import Chooser
    from wheelsmith.index.resolve.install_commands import quote_address

    if run:
        _check_runnable(installer, options)
    policy = make_optional_policy(**{option: options.pop(option) for option in POLICY_OPTIONS})
    if policy and installer == "uv-project":
        raise click.UsageError("--installer uv-project cannot pin the hash of the signed wheel: choose another one")
    # rocminfo prints the features of an AMD GPU after its architecture.
    options["capabilities"] = tuple(each.partition(":")[0] for each in options["capabilities"])
    computes = [found for name in _PLATFORMS if (found := options.pop(name))]
    if len(computes) > 1:
        raise click.UsageError("--cuda, --rocm and --xpu exclude each other")
    overrides = Overrides(compute=next(iter(computes), None), python=options.pop("python_version"), **options)
    found = {each.catalogue.project: each for each in (find_catalogue(name, index) for name in names)}
    machine, choosers = probe_machine(python), {name: Chooser(each.catalogue) for name, each in found.items()}
    group = decide_together(tuple(choosers.values()), machine, overrides)
    group, attestations = _verify(group, found, policy)
    if not as_json:
        print_lines(describe_machine(machine, overrides))
        for name, decision in group.decisions.items():
            print_lines(describe_wheel(decision, found[name], choosers[name].warning))
            print_lines(f"  signed by {held.signer}; built from {held.source} by {held.builder}"
                        for held in filter(None, [attestations[name]]))  # fmt: skip
    if group.refused:
        if as_json:
            click.echo(json.dumps(_json_data(machine, group, None, attestations), indent=1))
        raise NoMatchingWheelError(
            group.reason, remedy=suggest_nearest(group.nearest, " of each" if len(found) > 1 else "")
        )
    commands = _install_commands(group, installer, quote_address(next(iter(found.values())).base), machine, overrides)
    data = _json_data(machine, group, commands, attestations)
    click.echo(json.dumps(data, indent=1) if as_json else commands.text())
    if run:
        run_install(commands)


def _verify(
    group: GroupDecision, found: Mapping[str, FoundCatalogue], policy: SignaturePolicy | None
) -> tuple[GroupDecision, dict[str, Verified | None]]:
    """Verify the signatures of the chosen wheels if there is a policy. Return the decisions with the signed hashes."""
    from dataclasses import replace

    from wheelsmith.index.pick.source import verify_choice

    if policy is None:
        return group, dict.fromkeys(found)
    verified = {name: verify_choice(each, found[name], policy) for name, each in group.decisions.items()}
    decisions = {name: decision for name, (decision, _) in verified.items()}
    return replace(group, decisions=decisions), {name: held for name, (_, held) in verified.items()}


def _check_runnable(installer: str | None, options: Mapping[str, Any]) -> None:
    """Check that the command can run on this machine.

    :raises click.UsageError: it cannot.
    """
    if installer not in {None, *_RUNNABLE}:
        raise click.UsageError(f"--run supports only {' and '.join(_RUNNABLE)}, not --installer {installer}")
    if options["arch"] or options["python_version"]:
        raise click.UsageError("--run cannot be used with --arch or --python-version, which describe another machine")


def _install_commands(
    group: GroupDecision, installer: str | None, base: str, machine: Machine, overrides: Overrides
) -> Template:
    """Return the install commands, which name the environment only if they are for this machine."""
    from wheelsmith.index.pick.machine import use_environment
    from wheelsmith.index.resolve.install_commands import Installer

    if overrides.for_another_machine:
        return group.commands(Installer(installer or Installer.PIP), base)
    chosen = Installer(installer or machine.installer)
    return use_environment(group.commands(chosen, base), chosen, machine)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stderr."""
    from wheelsmith.engine import visible

    for line in lines:
        click.echo(visible(line), err=True)


def describe_machine(machine: Machine, overrides: Overrides) -> Iterator[str]:
    """Yield lines that describe the machine and the options that replace its values."""
    torch = f"torch {machine.torch} ({machine.torch_compute or 'unknown platform'})" if machine.torch else "no torch"
    torch += "".join(f", {name} {there}" for name, there in machine.frameworks.items())
    gpus = ", ".join(f"{gpu.name} ({gpu.capability})" for gpu in machine.gpus) or "no GPU"
    version = f"{machine.python_version}{' free-threaded' if machine.free_threaded else ''}"
    yield f"{machine.python}: Python {version}, {torch}; {machine.arch}, glibc {machine.glibc}"
    yield f"{machine.driver_text}, {gpus}"
    named = overrides.to_json()
    compute = named.pop("compute") or ""
    name = next((each for each in _PLATFORMS if compute.startswith(each)), "cuda")
    named[name] = compute.removeprefix(name) or None
    values = [f"{name} {value}" for name, value in named.items() if isinstance(value, str) and name != "driver"]
    values += [f"capability {value}" for value in overrides.capabilities]
    values += [f"a driver for CUDA up to {overrides.driver}"] if overrides.driver else []
    if values:
        yield f"overrides: {', '.join(values)}"


def describe_wheel(decision: Decision, found: FoundCatalogue, warning: str | None) -> Iterator[str]:
    """Yield lines that describe the chosen wheel and the reasons."""
    from wheelsmith.index.resolve.target import Choice
    from wheelsmith.model import release_title
    from wheelsmith.platforms import compute_name

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


def suggest_nearest(nearest: Sequence[Nearest], whose: str = "") -> str | None:
    """Return the options that would select the nearest targets that have a wheel, or None if there are none."""
    if not nearest:
        return None
    return f"nearest alternatives with a wheel{whose}: " + " or ".join(near.change for near in nearest)


def _json_data(
    machine: Machine, group: GroupDecision, commands: Template | None, attestations: Mapping[str, Verified | None]
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "schema_version": 1,
        "machine": machine.to_json(),
        "command": commands.text() if commands else None,
        "argv": [list(line) for line in commands.lines] if commands and commands.shell else None,
    }
    projects = {name: _decision_json(each, attestations[name]) for name, each in group.decisions.items()}
    if len(projects) == 1:
        return {**data, **next(iter(projects.values()))}
    nearest = [{"change": near.change, **near.target.to_json()} for near in group.nearest]
    reason = group.reason if group.refused else None
    return {**data, "reason": reason, "nearest": nearest, "projects": projects}


def _decision_json(decision: Decision, attestation: Verified | None) -> dict[str, Any]:
    from wheelsmith.index.entries.catalogue import wheel_json
    from wheelsmith.index.resolve.target import Refusal

    answer = decision.answer
    data: dict[str, Any] = {
        "target": decision.target.to_json(),
        decision.target.framework: decision.presence,
        "notes": list(decision.notes),
        "verified": attestation and attestation.to_json(),
    }
    if isinstance(answer, Refusal):
        nearest = [{"change": near.change, **near.target.to_json()} for near in answer.nearest]
        return {**data, "wheel": None, "refused": answer.code, "reason": answer.reason, "nearest": nearest}
    notes = [*decision.notes, *answer.notes]
    return {**data, "notes": notes, "wheel": wheel_json(answer.wheel), "refused": None, "reason": None, "nearest": []}
