"""Compute all answers of a page's picker in advance, so that its script only looks them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

from wheelsmith.base.units import is_prerelease, numbers, release_order, show_size
from wheelsmith.index.entries.catalogue import Catalogue
from wheelsmith.index.entries.entry import EVERYTHING, IndexEntry
from wheelsmith.index.resolve.choose import Axes, Chooser
from wheelsmith.index.resolve.install_commands import (
    Installer,
    Presence,
    pin,
    presences_of,
    slot_values,
    template_for,
)
from wheelsmith.index.resolve.target import Choice, Refusal, Target
from wheelsmith.index.site.grid import target_query
from wheelsmith.model import TORCH, Cell, release_title
from wheelsmith.platforms import compute_name, compute_order

# The initial selection of a page, if it has a wheel: common values, neither the newest nor the oldest.
USUAL = {"arch": "x86_64", "python": "3.12"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picker:
    """The answers for all combinations, for the page's template and script.

    :param targets: all combinations. The last axis varies fastest.
    :param answers: the answer for each target.
    :param first: position of the initial target.
    """

    axes: Axes
    targets: tuple[Target, ...]
    answers: tuple[Choice | Refusal, ...]
    first: int


def make_picker(chooser: Chooser) -> Picker | None:
    """Return the answers for all combinations, or None if the catalogue has no combination."""
    axes = chooser.axes
    if not axes.releases or not axes.computes or not axes.archs:
        return None
    targets = tuple(
        Target(framework=axes.framework, release=release, compute=compute, arch=arch, python="").with_python(python)
        for release, compute, arch, python in product(axes.releases, axes.computes, axes.archs, axes.pythons)
    )
    answers = tuple(map(chooser.choose, targets))
    return Picker(axes=axes, targets=targets, answers=answers, first=_initial_position(targets, answers))


def picker_data(picker: Picker, catalogue: Catalogue) -> dict[str, Any]:
    """Return the data for the script. Each distinct answer occurs once."""
    places = {wheel.filename: place for place, wheel in enumerate(catalogue.wheels)}
    place = {target: number for number, target in enumerate(picker.targets)}
    wheels: dict[str, int] = {}
    distinct: dict[object, int] = {}
    lookup: list[int] = []
    answers: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for target, answer in zip(picker.targets, picker.answers, strict=True):
        if isinstance(answer, Choice) and answer.wheel.filename not in wheels:
            wheels[answer.wheel.filename] = len(wheels)
            shown.append({"place": places[answer.wheel.filename], **_wheel_data(answer, target)})
        key = _answer_key(answer, target)
        if key not in distinct:
            distinct[key] = len(answers)
            of = _refusal_data(answer, place) if isinstance(answer, Refusal) else _choice_data(answer, target, wheels)
            answers.append(of)
        lookup.append(distinct[key])
    axes = picker.axes
    return {
        "axes": [
            [axes.framework, axes.releases],
            ["compute", axes.computes],
            ["arch", axes.archs],
            ["python", axes.pythons],
        ],
        "wheels": shown,
        "answers": answers,
        "lookup": lookup,
        "first": target_query(picker.targets[picker.first]),
        "templates": _templates(axes.framework),
    }


def _initial_position(targets: Sequence[Target], answers: Sequence[Choice | Refusal]) -> int:
    """Return the position of the initial target: the newest torch and CUDA with a wheel, on the usual machine."""
    served = [number for number, answer in enumerate(answers) if isinstance(answer, Choice)]

    def usual(number: int) -> tuple[bool, int, int]:
        target = targets[number]
        common = sum(getattr(target, axis) == value for axis, value in USUAL.items())
        return not is_prerelease(target.release), common, number

    return max(served, key=usual, default=0)


def _wheel_data(choice: Choice, target: Target) -> dict[str, Any]:
    """Return the data of a wheel that is the same for all combinations that it serves."""
    wheel = choice.wheel
    filled = slot_values(choice, target, Presence.PRESENT)
    return {
        "filename": wheel.filename,
        "size": show_size(wheel.size),
        "slots": {name: filled[name] for name in ("name", "requirement", "path", "sha256", "requires")},
    }


def _answer_key(answer: Choice | Refusal, target: Target) -> object:
    """Return a key that is equal for combinations with the same answer."""
    if isinstance(answer, Refusal):
        return answer
    return answer.wheel.filename, answer.root, answer.notes, target.release, target.compute


def _choice_data(choice: Choice, target: Target, wheels: Mapping[str, int]) -> dict[str, Any]:
    filled = {presence: slot_values(choice, target, presence) for presence in Presence}
    present = filled[Presence.PRESENT]
    return {
        "wheel": wheels[choice.wheel.filename],
        "notes": choice.notes,
        "slots": {
            name: present[name] for name in ("root", "index", "framework_release", "torch_compute", "torch_index")
        },
        "framework": {presence: filled[presence]["framework"] for presence in Presence},
    }


def _refusal_data(refusal: Refusal, place: Mapping[Target, int]) -> dict[str, Any]:
    nearest = [near for near in refusal.nearest if near.target in place]
    return {
        "reason": refusal.reason,
        "tail": refusal.tail,
        "nearest": [[near.change, target_query(near.target), near.fits] for near in nearest],
    }


def _templates(framework: str) -> dict[str, Any]:
    """Return the templates by installer, state of the framework, and presence of other requirements."""
    return {
        installer: {
            presence: [
                template_for(installer, presence, framework=framework, others=others).to_json()
                for others in (False, True)
            ]
            for presence in presences_of(framework)
        }
        for installer in Installer
    }


# A page does not know its own address. Its script inserts the address; without scripts, users set this variable.
BASE = "$INDEX/"
_EVERY, _UNKNOWN = "CPU and every CUDA", "Compute platform not named"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownWheel:
    """A wheel on a page.

    :param place: position in the catalogue.
    :param title: releases of the framework, e.g. ``torch 2.11``.
    :param needs: the requirements in METADATA, as text.
    :param machine: the architectures, and the Python version if the wheel is for one.
    :param pin: a command that installs exactly this wheel.
    :param target: a query for which the picker chooses the wheel; None if it never does.
    """

    wheel: IndexEntry
    place: int
    title: str
    needs: str
    machine: str
    pin: str
    target: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelGroup:
    """The wheels of one compute platform, newest torch first."""

    heading: str
    wheels: tuple[ShownWheel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOfWheels:
    """The wheels of one public version, newest compute platform first."""

    public: str
    groups: tuple[WheelGroup, ...]

    @property
    def wheels(self) -> tuple[IndexEntry, ...]:
        """Return the wheels of all groups."""
        return tuple(shown.wheel for group in self.groups for shown in group.wheels)

    @property
    def published(self) -> str:
        """Return the day of the latest upload, e.g. ``2026-11-21``."""
        return max(wheel.upload_time for wheel in self.wheels)[:10]

    @property
    def is_yanked(self) -> bool:
        """Return True if every wheel is yanked."""
        return all(wheel.yanked is not None for wheel in self.wheels)

    @property
    def yank_reasons(self) -> tuple[str, ...]:
        """Return the different reasons of yanked wheels."""
        return tuple(dict.fromkeys(wheel.yanked for wheel in self.wheels if wheel.yanked))

    @property
    def serves(self) -> str:
        """Return the releases of the framework, e.g. ``torch 2.11, 2.13``; empty if the wheels name none."""
        cells = [cell for wheel in self.wheels for cell in wheel.cells]
        return release_title(min(cell.framework for cell in cells), releases_of(cells)) if cells else ""


def versions_of(chooser: Chooser, picker: Picker | None) -> tuple[VersionOfWheels, ...]:
    """Return the wheels of each version, newest first.

    :param picker: wheels that it chooses get a link to it.
    """
    chosen = _picker_queries(picker) if picker else {}
    shown = [_show_wheel(chooser, place, wheel, chosen) for place, wheel in enumerate(chooser.catalogue.wheels)]
    by_version = groupby(shown, lambda item: str(item.wheel.public))
    return tuple(VersionOfWheels(public=public, groups=_groups(wheels)) for public, wheels in by_version)


def _groups(wheels: Iterable[ShownWheel]) -> tuple[WheelGroup, ...]:
    ordered = sorted(wheels, key=lambda item: _display_order(item.wheel), reverse=True)
    by_compute = groupby(ordered, lambda item: _compute(item.wheel))
    return tuple(WheelGroup(heading=_heading(compute), wheels=tuple(group)) for compute, group in by_compute)


def _picker_queries(picker: Picker) -> dict[str, str]:
    """Return a query for each wheel that the picker chooses, preferably for the cell that the wheel was built for."""
    found: dict[str, Target] = {}
    for target, answer in zip(picker.targets, picker.answers, strict=True):
        if isinstance(answer, Choice):
            known = found.get(answer.wheel.filename)
            if known is None or _query_preference(target, answer.wheel) > _query_preference(known, answer.wheel):
                found[answer.wheel.filename] = target
    wheels = {answer.wheel.filename: answer.wheel for answer in picker.answers if isinstance(answer, Choice)}
    return {name: _query(target, wheels[name]) for name, target in found.items()}


def _query(target: Target, wheel: IndexEntry) -> str:
    """Return the query for a target. It keeps the selected Python if the wheel accepts most Pythons."""
    usual = target.python == USUAL["python"] and not any(cell.python for cell in wheel.cells)
    query = target_query(target)
    return query.rpartition("&python=")[0] if usual else query


def _query_preference(target: Target, wheel: IndexEntry) -> tuple[object, ...]:
    made_for = wheel.provenance.cell if wheel.provenance else None
    own = any(
        (cell.release, cell.compute, cell.arch) == (target.release, target.compute, target.arch) and cell.id == made_for
        for cell in wheel.cells
    )
    return own, target.python == USUAL["python"], release_order(target.release), compute_order(target.compute)


def _display_order(wheel: IndexEntry) -> tuple[object, ...]:
    compute = _compute(wheel)
    known = (compute is not None, compute_order(compute) if compute else compute_order("cpu"), compute or "")
    return (
        *known,
        max((release_order(cell.release) for cell in wheel.cells), default=release_order("")),
        wheel.filename,
    )


def _compute(wheel: IndexEntry) -> str | None:
    """Return the compute platform that a wheel was built for; empty for all platforms, None if unknown."""
    if not wheel.cells:
        return None
    made_for = wheel.provenance.cell if wheel.provenance else None
    own = [cell.compute for cell in wheel.cells if cell.id == made_for]
    computes = {cell.compute for cell in wheel.cells}
    if "cpu" in computes and len(computes) > 1:
        return ""
    return own[0] if own else min(computes, key=compute_order)


def _heading(compute: str | None) -> str:
    return _UNKNOWN if compute is None else compute_name(compute) if compute else _EVERY


def _show_wheel(chooser: Chooser, place: int, wheel: IndexEntry, chosen: Mapping[str, str]) -> ShownWheel:
    framework = wheel.cells[0].framework if wheel.cells else TORCH
    releases = sorted({cell.release for cell in wheel.cells}, key=release_order)
    requirement = pin(chooser.catalogue.project, str(wheel.version), equals=chooser.is_exact(wheel.version))
    return ShownWheel(
        wheel=wheel,
        place=place,
        needs=_needs(wheel, framework),
        title=release_title(framework, format_releases(releases)) if releases else "torch not named",
        machine=_machine(wheel.cells),
        # Use the root with all wheels. It has no torch, so an installed torch stays.
        pin=f'pip install {requirement} --index-url "{BASE}{EVERYTHING}/"',
        target=chosen.get(wheel.filename),
    )


def _needs(wheel: IndexEntry, framework: str) -> str:
    torch = [f"torch {wheel.requires_torch or 'of any version'}"] if wheel.requires_torch or framework == TORCH else []
    python = [f"Python {wheel.requires_python}"] if wheel.requires_python else []
    return ", ".join([*torch, *python, *wheel.requires])


def _machine(cells: Iterable[Cell]) -> str:
    archs = sorted({cell.arch for cell in cells}, reverse=True)
    pythons = sorted({cell.python for cell in cells if cell.python}, key=numbers)
    return ", ".join([*archs, *(f"Python {python}" for python in pythons)])


def releases_of(cells: Iterable[Cell]) -> str:
    """Return a short text for the releases of the framework that cells are built for."""
    return format_releases(sorted({cell.release for cell in cells}, key=release_order))


def format_releases(names: Sequence[str]) -> str:
    """Return a short text for releases: ``2.9``, ``2.9, 2.11``, or ``2.9 – 2.11`` if no release between is missing.

    :param names: the releases in ascending order.
    """  # noqa: RUF002  # a range
    runs: list[list[str]] = []
    for name in names:
        if runs and _is_next_release(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]} – {run[-1]}" if len(run) > 1 else run[0] for run in runs)  # noqa: RUF001  # a range


def _is_next_release(before: str, name: str) -> bool:
    if is_prerelease(before) or is_prerelease(name):
        return False
    *major, minor = numbers(before)
    return numbers(name) == (*major, minor + 1)


def compute_names(computes: Sequence[str]) -> str:
    """Return the names as one text, e.g. ``CPU, CUDA 12.8, 13.0``."""
    names = [compute_name(compute) for compute in computes]
    cudas = [name.removeprefix("CUDA ") for name in names if name.startswith("CUDA ")]
    others = [name for name in names if not name.startswith("CUDA ")]
    return ", ".join([*others, *([f"CUDA {', '.join(cudas)}"] if cudas else [])])
