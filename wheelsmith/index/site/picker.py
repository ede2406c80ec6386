"""Every answer that the page's picker can give, worked out beforehand: its script looks up and decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from wheelsmith.base.units import show_size
from wheelsmith.index.entries.catalogue import Catalogue
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import Installer, Presence, slots_of, template_for
from wheelsmith.index.resolve.nearest import Axes
from wheelsmith.index.resolve.target import Choice, Refusal, Target
from wheelsmith.index.site.grid import target_query

# What a page opens with, where it has a wheel: neither the newest nor the oldest.
USUAL = {"arch": "x86_64", "python": "3.12"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picker:
    """Answers to every combination, for a template to show and a script to look up.

    :param targets: every combination, the last axis running fastest.
    :param answers: what each of them gets.
    :param first: the place of the one that the page opens with.
    """

    axes: Axes
    targets: tuple[Target, ...]
    answers: tuple[Choice | Refusal, ...]
    first: int


def picker_of(chooser: Chooser) -> Picker | None:
    """Answer every combination; None where the index knows of none."""
    axes = chooser.axes
    if not axes.releases or not axes.computes or not axes.archs:
        return None
    targets = tuple(
        Target(framework=axes.framework, release=release, compute=compute, arch=arch, python=python)
        for release, compute, arch, python in product(axes.releases, axes.computes, axes.archs, axes.pythons)
    )
    answers = tuple(map(chooser.choose, targets))
    return Picker(axes=axes, targets=targets, answers=answers, first=_first(targets, answers))


def picker_data(picker: Picker, catalogue: Catalogue) -> dict[str, Any]:
    """Return what the script needs, each different answer once."""
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
            shown.append({"place": places[answer.wheel.filename], **_wheel(answer, target)})
        key = _same(answer, target)
        if key not in distinct:
            distinct[key] = len(answers)
            of = _refusal(answer, place) if isinstance(answer, Refusal) else _choice(answer, target, wheels)
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
        "first": _query(picker.targets[picker.first]),
        "templates": _templates(axes.framework),
    }


def _first(targets: Sequence[Target], answers: Sequence[Choice | Refusal]) -> int:
    """Open with the newest torch and CUDA that have a wheel, on what most people have."""
    served = [number for number, answer in enumerate(answers) if isinstance(answer, Choice)]

    def usual(number: int) -> tuple[int, int]:
        return sum(getattr(targets[number], axis) == value for axis, value in USUAL.items()), number

    return max(served, key=usual, default=0)


def _wheel(choice: Choice, target: Target) -> dict[str, Any]:
    """Return what is the same of a wheel for every combination that it serves."""
    wheel = choice.wheel
    filled = slots_of(choice, target, Presence.PRESENT)
    return {
        "filename": wheel.filename,
        "size": show_size(wheel.size),
        "slots": {name: filled[name] for name in ("name", "requirement", "path", "sha256", "requires")},
    }


def _same(answer: Choice | Refusal, target: Target) -> object:
    """Return what two combinations have in common that get the same answer."""
    if isinstance(answer, Refusal):
        return answer
    return answer.wheel.filename, answer.root, answer.notes, target.release, target.compute


def _choice(choice: Choice, target: Target, wheels: Mapping[str, int]) -> dict[str, Any]:
    filled = {presence: slots_of(choice, target, presence) for presence in Presence}
    present = filled[Presence.PRESENT]
    return {
        "wheel": wheels[choice.wheel.filename],
        "notes": choice.notes,
        "slots": {name: present[name] for name in ("root", "framework_release", "torch_compute", "torch_index")},
        "framework": {presence: filled[presence]["framework"] for presence in Presence},
    }


def _refusal(refusal: Refusal, place: Mapping[Target, int]) -> dict[str, Any]:
    return {
        "reason": refusal.reason,
        "tail": refusal.tail,
        "nearest": [[near.change, _query(near.target), near.fits] for near in refusal.nearest if near.target in place],
    }


def _query(target: Target) -> str:
    return target_query(target)


def _templates(framework: str) -> dict[str, Any]:
    """Return every template by installer, by whether the framework is there, and whether the wheel asks for more."""
    return {
        installer: {
            presence: [
                template_for(installer, presence, framework=framework, others=others).to_json()
                for others in (False, True)
            ]
            for presence in Presence
        }
        for installer in Installer
    }
