"""Choose a wheel and an install command for a machine, with overrides by the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from packaging.version import InvalidVersion, Version

from wheelsmith.base.errors import MachineError, NoMatchingWheelError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import listed
from wheelsmith.frameworks import Framework, framework, torch_index
from wheelsmith.index.pick.machine import Machine
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.incompatibility import torch_build
from wheelsmith.index.resolve.install_commands import (
    Installer,
    Presence,
    Template,
    fill_template,
    keep_substitute,
    pin_by_url,
    slot_values,
    template_for,
)
from wheelsmith.index.resolve.target import Choice, Nearest, ParsedWheel, Refusal, Target
from wheelsmith.model import CUDA, NO_FRAMEWORK, TORCH
from wheelsmith.platforms import CPU, compute_name, platform_name, platform_of, platforms


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides(Record):
    """Values that replace the detected ones. None keeps the detected value.

    :param torch: a release, or a version with a patch.
    :param compute: ``cpu``, ``13.0``, ``cu130`` or ``rocm7.2``.
    :param arch: CPU architecture.
    :param python: minor release, e.g. ``3.12``, or ``3.13t`` for a Python without the GIL.
    :param glibc: version of glibc.
    :param capabilities: compute capabilities of the GPUs.
    :param driver: the newest CUDA that the driver supports.
    :param keep_torch: True keeps the installed torch. False installs torch with the wheel.
    """

    torch: str | None = None
    compute: str | None = None
    arch: str | None = None
    python: str | None = None
    glibc: str | None = None
    capabilities: tuple[str, ...] = ()
    driver: str | None = None
    keep_torch: bool | None = None

    @property
    def for_another_machine(self) -> bool:
        """Return True if the command is not for this machine and environment."""
        return self.arch is not None or self.python is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The chosen wheel for a target, or the reason that there is none.

    :param presence: state of the framework: kept, or installed with the wheel.
    :param answer: the wheel, or the refusal.
    :param notes: additional information, as sentences without a full stop.
    :param substitute: the installed project that replaces the framework's own, e.g. ``tensorflow-cpu``.
    :param by_hash: True if the command names the wheel by URL and hash, so that no other file can be installed.
    """

    target: Target
    presence: Presence
    answer: Choice | Refusal
    notes: tuple[str, ...] = ()
    substitute: str | None = None
    by_hash: bool = False

    def commands(self, installer: Installer, base: str) -> Template:
        """Return the install commands, with every slot replaced.

        :raises NoMatchingWheelError: there is no wheel.
        """
        if isinstance(self.answer, Refusal):
            raise NoMatchingWheelError(self.answer.reason)
        framework = self.target.framework
        others = bool(ParsedWheel(self.answer.wheel).other_requirements(framework))
        template = template_for(installer, self.presence, framework=framework, others=others)
        if self.by_hash:
            template = pin_by_url(template)
        if self.substitute:
            template = keep_substitute(template, self.substitute)
        slots = slot_values(self.answer, self.target, self.presence, torch_index())
        return fill_template(template, {**slots, "base": base})


def decide(chooser: Chooser, machine: Machine, overrides: Overrides) -> Decision:
    """Choose a wheel for a machine. An installed torch is replaced only if the user requests another one."""
    found = _decide(chooser, machine, overrides)
    if isinstance(found.answer, Refusal) or machine.cpu_features is None or not _is_this_machine(machine, overrides):
        return found
    lacking = [name for name in found.answer.wheel.cpu_features if name not in machine.cpu_features]
    note = (
        f"some of its code needs a CPU with {listed(lacking)}, which this one lacks: the kernel must not call it here"
    )
    return replace(found, notes=(*found.notes, note)) if lacking else found


def _decide(chooser: Chooser, machine: Machine, overrides: Overrides) -> Decision:
    if not framework(chooser.axes.framework).builds_per_compute:
        return _decide_without_cuda_builds(chooser, machine, overrides)
    compute = read_compute(overrides.compute) if overrides.compute else machine.torch_compute
    wanted = overrides.torch or machine.torch
    release = _release_of(wanted, chooser) if wanted else None
    if refusal := _unusable_torch(machine, overrides):
        target = _make_target(chooser, machine, overrides, release or "0", "cpu")
        return Decision(target=target, presence=Presence.PRESENT, answer=refusal)
    if release is None or compute is None:
        return _decide_open_values(chooser, machine, overrides, release, compute)
    presence, notes = _torch_presence(chooser, machine, overrides, release, compute)
    if wanted and Version(wanted).is_prerelease and release not in chooser.axes.prereleases:
        note = f"torch {wanted} is a pre-release; the wheel is built for torch {release} and may fail to load"
        notes = (*notes, note)
    target = _make_target(chooser, machine, overrides, release, compute)
    if (
        presence is Presence.PRESENT
        and _is_this_machine(machine, overrides)
        and machine.torch
        and release == _release_of(machine.torch, chooser)
    ):
        target = replace(target, torch_version=machine.torch)
    return _decide_target(chooser, target, presence, notes)


def _decide_target(chooser: Chooser, target: Target, presence: Presence, notes: tuple[str, ...]) -> Decision:
    answer = chooser.choose(target)
    if isinstance(answer, Refusal) and (near := next((n for n in answer.nearest if n.fits), None)):
        taken = chooser.choose(near.target)
        if isinstance(taken, Choice):
            return Decision(
                target=near.target, presence=presence, answer=taken, notes=(*notes, _substitute_note(target, near))
            )
    return Decision(target=target, presence=presence, answer=answer, notes=notes)


def _substitute_note(target: Target, near: Nearest) -> str:
    found = platform_of(target.compute)
    has = f", which has {found[0].devices.compatibility_rule}" if found else ""
    return f"there is no wheel for {compute_name(target.compute)}; the one for {near.change} runs on this torch{has}"


def _torch_presence(
    chooser: Chooser, machine: Machine, overrides: Overrides, release: str, compute: str
) -> tuple[Presence, tuple[str, ...]]:
    same = (
        _is_this_machine(machine, overrides)
        and machine.torch is not None
        and (release, compute) == (_release_of(machine.torch, chooser), machine.torch_compute)
        and _patch_of(overrides.torch) in {None, _patch_of(machine.torch)}
    )
    keep = same if overrides.keep_torch is None else overrides.keep_torch
    if keep:
        return Presence.PRESENT, ()
    if machine.torch is None or not _is_this_machine(machine, overrides):
        return Presence.ABSENT, ("the command installs torch with the wheel",)
    return Presence.ABSENT, (f"this replaces torch {machine.torch}, as requested",)


def _decide_open_values(
    chooser: Chooser, machine: Machine, overrides: Overrides, release: str | None, compute: str | None
) -> Decision:
    """Choose missing values, too: the newest torch with a wheel, and the newest CUDA that the driver supports."""
    presence = Presence.PRESENT if overrides.keep_torch else Presence.ABSENT
    computes = [compute] if compute else _candidate_computes(chooser, machine, overrides)
    releases = [release] if release else chooser.axes.by_default
    return _first_served(chooser, machine, overrides, releases, computes, presence)


def _decide_without_cuda_builds(chooser: Chooser, machine: Machine, overrides: Overrides) -> Decision:
    """Choose a wheel for a framework without CUDA builds. The compute platform of an installed torch is preferred."""
    compute = read_compute(overrides.compute) if overrides.compute else None
    is_here, used = _is_this_machine(machine, overrides), framework(chooser.axes.framework)
    installed = machine.frameworks.get(used.name) if is_here else None
    computes = [compute] if compute else _candidate_computes(chooser, machine, overrides)
    if installed and not compute:
        computes = [name for name in computes if _can_use(used, name, machine)]
    if refusal := _unsupported_system(machine, overrides):
        first = computes[0] if computes else "cpu"
        target = _make_target(chooser, machine, overrides, chooser.axes.releases[-1], first)
        return Decision(target=target, presence=Presence.PRESENT, answer=refusal)
    # A plugin of the framework says more than torch beside it.
    preferred = machine.torch_compute if is_here and not (installed and used.plugins) else None
    if not compute and preferred in computes:
        computes = [preferred, *(name for name in computes if name != preferred)]
    keep = installed is not None if overrides.keep_torch is None else overrides.keep_torch
    keep = keep or chooser.axes.framework == NO_FRAMEWORK  # there is nothing to install with the wheel
    releases = [_release_of(installed, chooser)] if installed and keep else chooser.axes.releases[::-1]
    presence = Presence.PRESENT if keep else Presence.ABSENT
    found = _first_served(chooser, machine, overrides, releases, computes, presence)
    name, notes = chooser.axes.framework, found.notes
    if installed:
        replaced = not keep and _release_of(installed, chooser) != found.target.release
        notes = (f"this replaces {name} {installed}, as requested",) if replaced else ()
    if overrides.torch:
        kind = "a wheel" if name == NO_FRAMEWORK else f"a wheel for {name}"
        notes = (*notes, f"{kind} works with any torch: --torch {overrides.torch} has no effect")
    return replace(found, notes=notes, substitute=_substitute(used, machine) if installed and keep else None)


def _substitute(used: Framework, machine: Machine) -> str | None:
    """Return the installed project that replaces a framework's own, or None."""
    if used.project in machine.packages:
        return None
    return next((each for each in used.substitutes if each in machine.packages), None)


def _can_use(used: Framework, compute: str, machine: Machine) -> bool:
    """Return True if an installed framework can use a compute platform: a plugin for it is there, or none is needed."""
    if compute == CPU:
        return True
    if _substitute(used, machine):
        return False  # substitutes are builds for CPUs
    installed = [start for project, start in used.plugins.items() if project in machine.packages]
    return not used.plugins or any(compute.startswith(start) for start in installed)


def _candidate_computes(chooser: Chooser, machine: Machine, overrides: Overrides) -> list[str]:
    """Return the compute platforms to try, newest CUDA first. Without a driver, only the CPU remains."""
    platform = _gpu_platform(machine, overrides)
    return [name for name in chooser.axes.computes[::-1] if name == CPU or platform == platform_name(name)]


def _gpu_platform(machine: Machine, overrides: Overrides) -> str | None:
    """Return the platform of the driver, or None without a driver. The option for a driver is for NVIDIA's."""
    if overrides.driver:
        return CUDA
    for name, platform in platforms().items():
        # For CUDA, the driver of another machine is named, too.
        if name != CUDA and any(map(platform.is_capability, overrides.capabilities)):
            return name
    return (machine.gpu_platform or CUDA) if machine.driver and _is_this_machine(machine, overrides) else None


def _first_served(
    chooser: Chooser,
    machine: Machine,
    overrides: Overrides,
    releases: Sequence[str],
    computes: Sequence[str],
    presence: Presence,
) -> Decision:
    """Return the first combination that has a wheel. If none has, return the refusal for the first combination."""
    name = chooser.axes.framework
    targets = [_make_target(chooser, machine, overrides, each, compute) for each in releases for compute in computes]
    note = f"{name} is not installed in {machine.python}; the command installs it with the wheel"
    for target in targets:
        if isinstance(choice := chooser.choose(target), Choice):
            notes = (note,) if presence is Presence.ABSENT else ()
            return Decision(target=target, presence=presence, answer=choice, notes=notes)
    if targets:
        return Decision(target=targets[0], presence=presence, answer=chooser.choose(targets[0]))
    names = dict.fromkeys(found for each in chooser.axes.computes if (found := platform_name(each)))
    missing = [platforms()[each].devices.describe_driver(None) for each in names] or ["no GPU driver"]
    options = " or ".join(f"--{each}" for each in names or [CUDA])
    reason = f"this machine has {listed(missing)}, and there is no CPU wheel; for another machine, use {options}"
    target = _make_target(chooser, machine, overrides, releases[0] if releases else "0", "cpu")
    return Decision(target=target, presence=presence, answer=Refusal(code="compute", reason=reason))


def _unusable_torch(machine: Machine, overrides: Overrides) -> Refusal | None:
    """Return the refusal if no wheel can work with this system, Python or torch; None otherwise."""
    if refusal := _unsupported_system(machine, overrides):
        return refusal
    if machine.torch is None or overrides.compute is not None:
        return None
    if machine.torch_compute is None:
        return Refusal(
            code="torch", reason=f"the CUDA release of torch {machine.torch} could not be detected; name it with --cuda"
        )
    if not _is_compute(machine.torch_compute):
        reason = f"torch {machine.torch} is built for {machine.torch_compute}, for which there are no wheels"
        return Refusal(code="torch", reason=reason)
    return None


def _unsupported_system(machine: Machine, overrides: Overrides) -> Refusal | None:
    """Return the refusal if no wheel can run on this system or Python; None otherwise."""
    if machine.platform != "linux" and overrides.arch is None:
        return Refusal(code="os", reason=f"there are wheels for Linux only; this is {machine.platform}")
    if machine.implementation != "cpython" and overrides.python is None:
        return Refusal(code="python", reason=f"there are wheels for CPython only; this is {machine.implementation}")
    return None


def _is_this_machine(machine: Machine, overrides: Overrides) -> bool:
    """Return True if the request is for this machine and this environment."""
    return overrides.arch in {None, machine.arch} and overrides.python is None


def _make_target(chooser: Chooser, machine: Machine, overrides: Overrides, release: str, compute: str) -> Target:
    here = _is_this_machine(machine, overrides)
    on_gpu, platform = compute != CPU, platform_name(compute)
    # The detected values do not apply to another machine, or to the GPUs of another platform.
    own_gpu = here and platform == (machine.gpu_platform or CUDA)
    gpus = tuple(sorted({gpu.capability for gpu in machine.gpus})) if own_gpu else ()
    target = Target(
        framework=chooser.axes.framework,
        release=release,
        compute=compute,
        arch=overrides.arch or machine.arch,
        python=overrides.python.removesuffix("t") if overrides.python else machine.python_version,
        free_threaded=overrides.python.endswith("t") if overrides.python else machine.free_threaded,
        glibc=overrides.glibc or (machine.glibc if here else None),
        capabilities=tuple(sorted(set(overrides.capabilities)) or gpus) if on_gpu else (),
        driver=(overrides.driver or (machine.driver if own_gpu else None)) if on_gpu else None,
    )
    patch = _patch_of(overrides.torch) if target.framework == TORCH else None
    build = torch_build(target) if patch else None
    return replace(target, torch_version=f"{patch}+{build}") if build else target


def _patch_of(version: str | None) -> str | None:
    """Return the patch release of a version, e.g. ``2.11.0``; None for a pre-release or a version without a patch."""
    parsed = Version(version or "0")
    return parsed.public if parsed.base_version.count(".") > 1 and not parsed.is_prerelease else None


def _release_of(version: str, chooser: Chooser) -> str:
    """Return the release of a version, e.g. ``2.11`` for ``2.11.0+cu130``.

    It is the pre-release itself if there are wheels for it.

    :raises MachineError: the version is invalid.
    """
    try:
        parsed = Version(version)
    except InvalidVersion:
        raise MachineError(f"{version} is not a version of torch", remedy="name a version: --torch 2.11") from None
    return parsed.public if parsed.public in chooser.axes.prereleases else f"{parsed.major}.{parsed.minor}"


def read_compute(text: str) -> str:
    """Return the compute platform of a release, e.g. ``cu130`` for ``13.0``.

    :raises MachineError: it is not a compute platform.
    """
    for platform in platforms().values():
        version = text.removeprefix(platform.name)
        if platform.version_pattern.fullmatch(version):
            return platform.compute(version)
    if _is_compute(text):
        return text
    titles = " or ".join(platform.title for platform in platforms().values())
    raise MachineError(f"{text} is not a release of {titles}", remedy="use cpu, or a release such as 13.0")


def _is_compute(text: str) -> bool:
    return text == CPU or platform_of(text) is not None
