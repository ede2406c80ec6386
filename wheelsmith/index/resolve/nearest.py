"""Where there is no wheel: which change of the target is the smallest that has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from wheelsmith.base.units import numbers
from wheelsmith.frameworks import framework
from wheelsmith.index.resolve.target import Nearest, Target
from wheelsmith.model import TORCH
from wheelsmith.platforms import compute_name, compute_order, platform_of

_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Every value that may be asked for, in the order in which people read them."""

    framework: str = TORCH
    releases: tuple[str, ...]
    computes: tuple[str, ...]
    archs: tuple[str, ...]
    pythons: tuple[str, ...]


def nearest(target: Target, axes: Axes, has_wheel: Callable[[Target], bool]) -> tuple[Nearest, ...]:
    """Return on each axis the nearest value that has a wheel; where one change is not enough, the nearest two."""

    def first(axis: Iterable[Nearest]) -> Nearest | None:
        return next((item for item in axis if has_wheel(item.target)), None)

    found = [item for axis in _each(target, axes) if (item := first(axis))]
    if found:
        return tuple(sorted(found, key=lambda item: not item.fits)[:_MOST])
    for one in (item for axis in _each(target, axes) for item in axis):
        for axis in _each(one.target, axes):
            two = first(item for item in axis if not _undoes(item, one, target))
            if two:
                return (Nearest(target=two.target, change=f"{one.change} and {two.change}"),)
    return ()


def runs_on(made_with: str, torch_has: str) -> bool:
    """Say whether a kernel for one compute platform runs on a torch of another."""
    made, has = platform_of(made_with), platform_of(torch_has)
    return bool(made and has and made[0] is has[0] and made[0].devices.runs_beside(made[1], has[1]))


def _same_abi(one: Target, other: Target) -> bool:
    """Say whether two builds of one release have the same C++ ABI."""
    calls = framework(one.framework)
    found = [(each, platform_of(each.compute)) for each in (one, other)]
    return len({calls.cxx11_abi(one.release, each.arch, its[1] if its else None) for each, its in found}) == 1


def _undoes(item: Nearest, one: Nearest, target: Target) -> bool:
    changed = ("release", "compute", "arch", "python")
    first = next(name for name in changed if getattr(one.target, name) != getattr(target, name))
    return bool(getattr(item.target, first) != getattr(one.target, first))


def _each(target: Target, axes: Axes) -> tuple[Iterator[Nearest], ...]:
    return _releases(target, axes), _computes(target, axes), _pythons(target, axes), _archs(target, axes)


def _releases(target: Target, axes: Axes) -> Iterator[Nearest]:
    order = sorted({*axes.releases, target.release}, key=numbers)
    place = order.index(target.release)
    for release in sorted(axes.releases, key=lambda each: (abs(order.index(each) - place), numbers(each))):
        if release != target.release:
            changed = replace(target, release=release, torch_version=None)
            yield Nearest(target=changed, change=f"{target.framework} {release}")


def _computes(target: Target, axes: Axes) -> Iterator[Nearest]:
    for compute in sorted(axes.computes, key=lambda compute: _far(compute, target.compute)):
        if compute != target.compute:
            changed = replace(target, compute=compute)
            fits = runs_on(compute, target.compute) and _same_abi(changed, target)
            yield Nearest(target=changed, change=compute_name(compute), fits=fits)


def _pythons(target: Target, axes: Axes) -> Iterator[Nearest]:
    here = numbers(target.python_minor)[1]
    for python in sorted(axes.pythons, key=lambda python: (abs(numbers(python)[1] - here), numbers(python))):
        if python != target.python_minor:
            yield Nearest(target=replace(target, python=python), change=f"Python {python}")


def _archs(target: Target, axes: Axes) -> Iterator[Nearest]:
    for arch in axes.archs:
        if arch != target.arch:
            yield Nearest(target=replace(target, arch=arch), change=arch)


def _far(compute: str, asked: str) -> tuple[int, ...]:
    """Order compute platforms by what else must change: a toolkit of the same GPUs first, then other hardware."""
    found, wanted = platform_of(compute), platform_of(asked)
    if found is None or wanted is None or found[0] is not wanted[0]:
        return (3, *compute_order(compute))
    return found[0].devices.distance(found[1], wanted[1])
