"""Where there is no wheel: which change of the wish is the smallest that has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from wheelsmith.frameworks import torch_releases
from wheelsmith.index.resolve.fits import numbers
from wheelsmith.index.resolve.target import Nearest, Wish, compute_name
from wheelsmith.platforms import cuda_of

_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Every value that may be wished for, in the order in which people read them."""

    torches: tuple[str, ...]
    computes: tuple[str, ...]
    archs: tuple[str, ...]
    pythons: tuple[str, ...]


def nearest(wish: Wish, axes: Axes, has_wheel: Callable[[Wish], bool]) -> tuple[Nearest, ...]:
    """Return on each axis the nearest value that has a wheel; where one change is not enough, the nearest two."""

    def first(axis: Iterable[Nearest]) -> Nearest | None:
        return next((item for item in axis if has_wheel(item.wish)), None)

    found = [item for axis in _each(wish, axes) if (item := first(axis))]
    if found:
        return tuple(sorted(found, key=lambda item: not item.fits)[:_MOST])
    for one in (item for axis in _each(wish, axes) for item in axis):
        for axis in _each(one.wish, axes):
            two = first(item for item in axis if not _undoes(item, one, wish))
            if two:
                return (Nearest(wish=two.wish, change=f"{one.change} and {two.change}"),)
    return ()


def compute_order(compute: str) -> tuple[int, ...]:
    """Order compute platforms: CPU first, then CUDA by its version."""
    cuda = cuda_of(compute)
    return numbers(cuda) if cuda else (0,)


def runs_on(made_with: str, torch_has: str) -> bool:
    """Say whether a kernel of one CUDA runs on a torch of another: the same major, an older minor (the Hub's rule)."""
    made, has = cuda_of(made_with), cuda_of(torch_has)
    if made is None or has is None:
        return False
    return numbers(made)[0] == numbers(has)[0] and numbers(made) < numbers(has)


def _same_abi(one: Wish, other: Wish) -> bool:
    """Say whether two builds of one torch have the same C++ ABI."""
    release = torch_releases().get(one.torch)
    return release is None or len({release.has_cxx11_abi(w.arch, cuda_of(w.compute)) for w in (one, other)}) == 1


def _undoes(item: Nearest, one: Nearest, wish: Wish) -> bool:
    changed = ("torch", "compute", "arch", "python")
    first = next(name for name in changed if getattr(one.wish, name) != getattr(wish, name))
    return bool(getattr(item.wish, first) != getattr(one.wish, first))


def _each(wish: Wish, axes: Axes) -> tuple[Iterator[Nearest], ...]:
    return _torches(wish, axes), _computes(wish, axes), _pythons(wish, axes), _archs(wish, axes)


def _torches(wish: Wish, axes: Axes) -> Iterator[Nearest]:
    order = sorted({*axes.torches, wish.torch}, key=numbers)
    place = order.index(wish.torch)
    for torch in sorted(axes.torches, key=lambda torch: (abs(order.index(torch) - place), numbers(torch))):
        if torch != wish.torch:
            yield Nearest(wish=replace(wish, torch=torch, torch_version=None), change=f"torch {torch}")


def _computes(wish: Wish, axes: Axes) -> Iterator[Nearest]:
    for compute in sorted(axes.computes, key=lambda compute: _far(compute, wish.compute)):
        if compute != wish.compute:
            changed = replace(wish, compute=compute)
            fits = runs_on(compute, wish.compute) and _same_abi(changed, wish)
            yield Nearest(wish=changed, change=compute_name(compute), fits=fits)


def _pythons(wish: Wish, axes: Axes) -> Iterator[Nearest]:
    here = numbers(wish.python_minor)[1]
    for python in sorted(axes.pythons, key=lambda python: (abs(numbers(python)[1] - here), numbers(python))):
        if python != wish.python_minor:
            yield Nearest(wish=replace(wish, python=python), change=f"Python {python}")


def _archs(wish: Wish, axes: Axes) -> Iterator[Nearest]:
    for arch in axes.archs:
        if arch != wish.arch:
            yield Nearest(wish=replace(wish, arch=arch), change=arch)


def _far(compute: str, wished: str) -> tuple[int, ...]:
    """Order compute platforms by what else must change: nothing, CUDA's minor, its major, or doing without a GPU."""
    cuda, wanted = cuda_of(compute), cuda_of(wished)
    if cuda is None or wanted is None:
        return (3, *compute_order(compute))
    if runs_on(compute, wished):
        return 0, -numbers(cuda)[1]
    major = abs(numbers(cuda)[0] - numbers(wanted)[0])
    return 1 + bool(major), major, abs(numbers(cuda)[1] - numbers(wanted)[1])
