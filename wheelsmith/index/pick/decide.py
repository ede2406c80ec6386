"""Choose a wheel and an install command for a machine, with overrides by the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from packaging.version import InvalidVersion, Version

from wheelsmith.base.errors import MachineError, NoMatchingWheelError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.frameworks import framework
from wheelsmith.index.pick.machine import Machine
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import (
    Installer,
    Presence,
    Template,
    by_address,
    fill,
    slots_of,
    template_for,
)
from wheelsmith.index.resolve.target import Choice, KnownWheel, Nearest, Refusal, Target
from wheelsmith.platforms import CPU, compute_name, platform_of, platforms


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides(Record):
    """Values that replace the detected ones. None keeps the detected value.

    :param torch: a release or a complete version.
    :param compute: ``cpu``, ``13.0`` or ``cu130``.
    :param arch: CPU architecture.
    :param python: minor release, e.g. ``3.12``, or ``3.13t`` for a Python without the GIL.
    :param glibc: version of glibc.
    :param capability: compute capability of the GPU.
    :param driver: the newest CUDA that the driver supports.
    :param keep_torch: True keeps the installed torch. False installs torch with the wheel.
    """

    torch: str | None = None
    compute: str | None = None
    arch: str | None = None
    python: str | None = None
    glibc: str | None = None
    capability: str | None = None
    driver: str | None = None
    keep_torch: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The chosen wheel for a target, or the reason that there is none.

    :param presence: state of the framework: kept, or installed with the wheel.
    :param answer: the wheel, or the refusal.
    :param notes: additional information, as sentences without a full stop.
    :param by_hash: True if the command names the wheel by URL and hash, so that no other file can be installed.
    """

    target: Target
    presence: Presence
    answer: Choice | Refusal
    notes: tuple[str, ...] = ()
    by_hash: bool = False

    def commands(self, installer: Installer, base: str) -> Template:
        """Return the install commands, with every slot replaced.

        :raises NoMatchingWheelError: there is no wheel.
        """
        if isinstance(self.answer, Refusal):
            raise NoMatchingWheelError(self.answer.reason)
        framework = self.target.framework
        others = bool(KnownWheel(self.answer.wheel).beside(framework))
        template = template_for(installer, self.presence, framework=framework, others=others)
        if self.by_hash:
            template = by_address(template)
        return fill(template, {**slots_of(self.answer, self.target, self.presence), "base": base})


def decide(chooser: Chooser, machine: Machine, asked: Overrides) -> Decision:
    """Choose a wheel for a machine. An installed torch is replaced only if the user requests another one."""
    if not framework(chooser.axes.framework).builds_per_compute:
        return _beside_any_torch(chooser, machine, asked)
    compute = _compute(asked.compute) if asked.compute else machine.torch_compute
    wanted = asked.torch or machine.torch
    release = _release(wanted) if wanted else None
    if refusal := _unusable(machine, asked):
        return Decision(
            target=_target(chooser, machine, asked, release or "0", "cpu"), presence=Presence.PRESENT, answer=refusal
        )
    if release is None or compute is None:
        return _with_any_torch(chooser, machine, asked, release, compute)
    presence, notes = _torch(machine, asked, release, compute)
    if wanted and Version(wanted).is_prerelease:
        said = f"torch {wanted} is a pre-release; the wheel is built for torch {release} and may fail to load"
        notes = (*notes, said)
    target = _target(chooser, machine, asked, release, compute)
    if presence is Presence.PRESENT and _here(machine, asked) and machine.torch and release == _release(machine.torch):
        target = replace(target, torch_version=machine.torch)
    return _decided(chooser, target, presence, notes)


def _decided(chooser: Chooser, target: Target, presence: Presence, notes: tuple[str, ...]) -> Decision:
    answer = chooser.choose(target)
    if isinstance(answer, Refusal) and (near := next((n for n in answer.nearest if n.fits), None)):
        taken = chooser.choose(near.target)
        if isinstance(taken, Choice):
            return Decision(target=near.target, presence=presence, answer=taken, notes=(*notes, _instead(target, near)))
    return Decision(target=target, presence=presence, answer=answer, notes=notes)


def _instead(target: Target, near: Nearest) -> str:
    found = platform_of(target.compute)
    has = f", which has {found[0].devices.compatibility_rule}" if found else ""
    return f"there is no wheel for {compute_name(target.compute)}; the one for {near.change} runs on this torch{has}"


def _torch(machine: Machine, asked: Overrides, release: str, compute: str) -> tuple[Presence, tuple[str, ...]]:
    same = (
        _here(machine, asked)
        and machine.torch is not None
        and (release, compute) == (_release(machine.torch), machine.torch_compute)
    )
    keep = same if asked.keep_torch is None else asked.keep_torch
    if keep:
        return Presence.PRESENT, ()
    if machine.torch is None or not _here(machine, asked):
        return Presence.ABSENT, ("the command installs torch with the wheel",)
    return Presence.ABSENT, (f"this replaces torch {machine.torch}, as requested",)


def _with_any_torch(
    chooser: Chooser, machine: Machine, asked: Overrides, release: str | None, compute: str | None
) -> Decision:
    """Choose missing values, too: the newest torch with a wheel, and the newest CUDA that the driver supports."""
    presence = Presence.PRESENT if asked.keep_torch else Presence.ABSENT
    computes = [compute] if compute else _computes(chooser, machine, asked)
    return _first(chooser, machine, asked, [release] if release else chooser.axes.releases[::-1], computes, presence)


def _beside_any_torch(chooser: Chooser, machine: Machine, asked: Overrides) -> Decision:
    """Choose a wheel for a framework without CUDA builds. The compute platform of an installed torch is preferred."""
    compute = _compute(asked.compute) if asked.compute else None
    computes = [compute] if compute else _computes(chooser, machine, asked)
    if refusal := _unrunnable(machine, asked):
        target = _target(chooser, machine, asked, chooser.axes.releases[-1], computes[0] if computes else "cpu")
        return Decision(target=target, presence=Presence.PRESENT, answer=refusal)
    there = machine.frameworks.get(chooser.axes.framework) if _here(machine, asked) else None
    beside = machine.torch_compute if _here(machine, asked) else None
    if not compute and beside in computes:
        computes = [beside, *(name for name in computes if name != beside)]
    keep = there is not None if asked.keep_torch is None else asked.keep_torch
    releases = [_release(there)] if there and keep else chooser.axes.releases[::-1]
    found = _first(chooser, machine, asked, releases, computes, Presence.PRESENT if keep else Presence.ABSENT)
    name, notes = chooser.axes.framework, found.notes
    if there:
        replaced = not keep and _release(there) != found.target.release
        notes = (f"this replaces {name} {there}, as requested",) if replaced else ()
    if asked.torch:
        notes = (*notes, f"a wheel for {name} works with any torch: --torch {asked.torch} has no effect")
    return replace(found, notes=notes)


def _computes(chooser: Chooser, machine: Machine, asked: Overrides) -> list[str]:
    """Return the compute platforms to try, newest CUDA first. Without a driver, only the CPU remains."""
    driver = asked.driver or (machine.driver if _here(machine, asked) else None)
    return [name for name in chooser.axes.computes[::-1] if driver or name == "cpu"]


def _first(
    chooser: Chooser,
    machine: Machine,
    asked: Overrides,
    releases: Sequence[str],
    computes: Sequence[str],
    presence: Presence,
) -> Decision:
    """Return the first combination that has a wheel. If none has, return the refusal for the first combination."""
    name = chooser.axes.framework
    targets = [_target(chooser, machine, asked, each, compute) for each in releases for compute in computes]
    note = f"{name} is not installed in {machine.python}; the command installs it with the wheel"
    for target in targets:
        if isinstance(choice := chooser.choose(target), Choice):
            notes = (note,) if presence is Presence.ABSENT else ()
            return Decision(target=target, presence=presence, answer=choice, notes=notes)
    if targets:
        return Decision(target=targets[0], presence=presence, answer=chooser.choose(targets[0]))
    said = "this machine has no NVIDIA driver, and there is no CPU wheel; for another machine, use --cuda"
    target = _target(chooser, machine, asked, releases[0] if releases else "0", "cpu")
    return Decision(target=target, presence=presence, answer=Refusal(code="compute", reason=said))


def _unusable(machine: Machine, asked: Overrides) -> Refusal | None:
    """Return the refusal if no wheel can work with this system, Python or torch; None otherwise."""
    if refusal := _unrunnable(machine, asked):
        return refusal
    if machine.torch is None or asked.compute is not None:
        return None
    if machine.torch_compute is None:
        return Refusal(
            code="torch", reason=f"the CUDA release of torch {machine.torch} could not be detected; name it with --cuda"
        )
    if not _is_compute(machine.torch_compute):
        said = f"torch {machine.torch} is built for {machine.torch_compute}, for which there are no wheels"
        return Refusal(code="torch", reason=said)
    return None


def _unrunnable(machine: Machine, asked: Overrides) -> Refusal | None:
    """Return the refusal if no wheel can run on this system or Python; None otherwise."""
    if machine.platform != "linux" and asked.arch is None:
        return Refusal(code="os", reason=f"there are wheels for Linux only; this is {machine.platform}")
    if machine.implementation != "cpython" and asked.python is None:
        return Refusal(code="python", reason=f"there are wheels for CPython only; this is {machine.implementation}")
    return None


def _here(machine: Machine, asked: Overrides) -> bool:
    """Return True if the request is for this machine and this environment."""
    return asked.arch in {None, machine.arch} and asked.python is None


def _target(chooser: Chooser, machine: Machine, asked: Overrides, release: str, compute: str) -> Target:
    here = _here(machine, asked)
    gpus = tuple(sorted({gpu.capability for gpu in machine.gpus})) if here else ()
    on_gpu = compute != "cpu"
    return Target(
        framework=chooser.axes.framework,
        release=release,
        compute=compute,
        arch=asked.arch or machine.arch,
        python=asked.python.removesuffix("t") if asked.python else machine.python_version,
        free_threaded=asked.python.endswith("t") if asked.python else machine.free_threaded,
        # The detected values do not apply to another machine.
        glibc=asked.glibc or (machine.glibc if here else None),
        capabilities=((asked.capability,) if asked.capability else gpus) if on_gpu else (),
        driver=(asked.driver or (machine.driver if here else None)) if on_gpu else None,
    )


def _release(version: str) -> str:
    """Return the release of a version, e.g. ``2.11`` for ``2.11.0+cu130``.

    :raises MachineError: the version is invalid.
    """
    try:
        parsed = Version(version)
    except InvalidVersion:
        raise MachineError(f"{version} is not a version of torch", remedy="name a version: --torch 2.11") from None
    return f"{parsed.major}.{parsed.minor}"


def _compute(text: str) -> str:
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
