"""Choose the wheel for a target, or return the reason that there is none and the nearest targets with a wheel.

The choice is the same as pip's in the same root: the newest version that is not yanked, and its best tag. The page and
``wheelsmith pick`` both show the results of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from packaging.tags import Tag
from packaging.version import Version

from wheelsmith.base.units import is_prerelease, listed, numbers, release_order
from wheelsmith.frameworks import framework
from wheelsmith.index.entries.catalogue import Catalogue
from wheelsmith.index.entries.entry import EVERYTHING, CellWithoutWheel, NoWheel, ProjectStatus
from wheelsmith.index.resolve.incompatibility import find_obstacle, gpu_note
from wheelsmith.index.resolve.target import (
    Choice,
    Nearest,
    ParsedWheel,
    Refusal,
    Target,
    accepts,
)
from wheelsmith.model import TORCH, Cell
from wheelsmith.platforms import compute_name, compute_order, platform_of

_MAX_NEAREST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The values of a target that can be selected, in display order."""

    framework: str = TORCH
    releases: tuple[str, ...]
    computes: tuple[str, ...]
    archs: tuple[str, ...]
    pythons: tuple[str, ...]

    @property
    def prereleases(self) -> tuple[str, ...]:
        """Return the pre-releases."""
        return tuple(filter(is_prerelease, self.releases))

    @property
    def by_default(self) -> tuple[str, ...]:
        """Return the releases to try if none is requested, newest first. Pre-releases count if there are no others."""
        return tuple(each for each in self.releases[::-1] if each not in self.prereleases) or self.releases[::-1]


def find_nearest(target: Target, axes: Axes, has_wheel: Callable[[Target], bool]) -> tuple[Nearest, ...]:
    """Return the nearest targets with a wheel: one per axis, or one with two changes if a single one is not enough.

    :param has_wheel: returns True if a target has a wheel.
    """

    def first(axis: Iterable[Nearest]) -> Nearest | None:
        return next((item for item in axis if has_wheel(item.target)), None)

    found = [item for axis in _neighbours(target, axes) if (item := first(axis))]
    if found:
        return tuple(sorted(found, key=lambda item: not item.fits)[:_MAX_NEAREST])
    for one in (item for axis in _neighbours(target, axes) for item in axis):
        for axis in _neighbours(one.target, axes):
            two = first(item for item in axis if not _reverts(item, one, target))
            if two:
                return (Nearest(target=two.target, change=f"{one.change} and {two.change}"),)
    return ()


def runs_with_torch(made_with: str, torch_has: str) -> bool:
    """Return True if a kernel for one compute platform runs on a torch that was built for another.

    :param made_with: compute platform of the kernel.
    :param torch_has: compute platform of torch.
    """
    made, has = platform_of(made_with), platform_of(torch_has)
    return bool(made and has and made[0] is has[0] and made[0].devices.is_compatible(made[1], has[1]))


def _same_abi(one: Target, other: Target) -> bool:
    """Return True if two builds of a framework release have the same C++ ABI."""
    of_framework = framework(one.framework)
    found = [(each, platform_of(each.compute)) for each in (one, other)]
    return len({of_framework.cxx11_abi(one.release, each.arch, its[1] if its else None) for each, its in found}) == 1


def _reverts(item: Nearest, one: Nearest, target: Target) -> bool:
    changed = ("release", "compute", "arch", "python_minor")
    first = next(name for name in changed if getattr(one.target, name) != getattr(target, name))
    return bool(getattr(item.target, first) != getattr(one.target, first))


def _neighbours(target: Target, axes: Axes) -> tuple[Iterator[Nearest], ...]:
    return (
        _other_releases(target, axes),
        _other_computes(target, axes),
        _other_pythons(target, axes),
        _other_archs(target, axes),
    )


def _other_releases(target: Target, axes: Axes) -> Iterator[Nearest]:
    order = sorted({*axes.releases, target.release}, key=release_order)
    place = order.index(target.release)
    for release in sorted(axes.releases, key=lambda each: (abs(order.index(each) - place), release_order(each))):
        if release != target.release:
            changed = replace(target, release=release, torch_version=None)
            yield Nearest(target=changed, change=f"{target.framework} {release}")


def _other_computes(target: Target, axes: Axes) -> Iterator[Nearest]:
    for compute in sorted(axes.computes, key=lambda compute: _distance_key(compute, target.compute)):
        if compute != target.compute:
            changed = replace(target, compute=compute)
            fits = runs_with_torch(compute, target.compute) and _same_abi(changed, target)
            yield Nearest(target=changed, change=compute_name(compute), fits=fits)


def _other_pythons(target: Target, axes: Axes) -> Iterator[Nearest]:
    here = numbers(target.python_minor)[1]
    for python in sorted(axes.pythons, key=lambda python: (abs(numbers(python)[1] - here), numbers(python))):
        if python != target.python_minor:
            yield Nearest(target=target.with_python(python), change=f"Python {python}")


def _other_archs(target: Target, axes: Axes) -> Iterator[Nearest]:
    for arch in axes.archs:
        if arch != target.arch:
            yield Nearest(target=replace(target, arch=arch), change=arch)


def _distance_key(compute: str, requested: str) -> tuple[int, ...]:
    """Return a sort key for distance: other toolkits for the same GPUs come before other hardware."""
    found, wanted = platform_of(compute), platform_of(requested)
    if found is None or wanted is None or found[0] is not wanted[0]:
        return (3, *compute_order(compute))
    return found[0].devices.distance(found[1], wanted[1])


NO_REASON = "no reason is given"
# CPython releases as of November 2026, from the oldest that torch 2.6 supports.
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")


class Chooser:
    """Chooses wheels for targets from one catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._wheels = [ParsedWheel(wheel) for wheel in catalogue.wheels]
        not_yanked = [parsed for parsed in self._wheels if parsed.wheel.yanked is None]
        released = [parsed for parsed in not_yanked if not parsed.version.is_prerelease]
        self._newest = max((Version(parsed.version.public) for parsed in released or not_yanked), default=None)
        self._by_cell: dict[tuple[str, str, str, str], list[tuple[ParsedWheel, Cell]]] = {}
        for parsed in self._wheels:
            for cell in parsed.wheel.cells:
                self._by_cell.setdefault(_combination_of(cell), []).append((parsed, cell))
        self._unserved = {_key(item.cell): item for item in catalogue.unserved}
        self._platforms = tuple(sorted({name for parsed in self._wheels for name in parsed.platforms}))
        self._decided: dict[Target, ParsedWheel | None] = {}
        cells = [*(cell for k in not_yanked for cell in k.wheel.cells), *(item.cell for item in catalogue.unserved)]
        # A project has one framework. If its wheels differ, the newest wheel decides.
        framework = cells[0].framework if cells else TORCH
        cells = [cell for cell in cells if cell.framework == framework]
        self.axes = Axes(
            framework=framework,
            releases=tuple(sorted({cell.release for cell in cells}, key=release_order)),
            computes=tuple(sorted({cell.compute for cell in cells}, key=compute_order)),
            archs=tuple(sorted({cell.arch for cell in cells}, reverse=True)),
            pythons=tuple(sorted({*PYTHONS, *(cell.python for cell in cells if cell.python)}, key=numbers)),
        )

    @property
    def warning(self) -> str | None:
        """Return the project's status and its reason, or None if the project is active."""
        status, reason = self.catalogue.status, self.catalogue.status_reason
        if status is ProjectStatus.ACTIVE:
            return None
        return f"{self.catalogue.project} is {status}" + (f": {reason}" if reason else "")

    def choose(self, target: Target) -> Choice | Refusal:
        """Return the wheel for a target, or a refusal with the reason."""
        return self.find(target) or self._make_refusal(target)

    def find(self, target: Target) -> Choice | None:
        """Return the wheel for a target, or None. Unlike ``choose``, it does not search for the reason."""
        parsed = self._decide(target)
        if parsed is None:
            return None
        return Choice(
            wheel=parsed.wheel,
            root=target.compute if target.compute in parsed.wheel.roots else EVERYTHING,
            exact=self.is_exact(parsed.version),
            notes=tuple(self._notes(parsed, target)),
        )

    def _decide(self, target: Target) -> ParsedWheel | None:
        if target not in self._decided:
            self._decided[target] = self._find_best(target)
        return self._decided[target]

    def _find_best(self, target: Target) -> ParsedWheel | None:
        ranks = target.accepted_tags(self._platforms)
        for candidates in (self._wheels_of_cell(target), self._wheels_by_metadata(target)):
            fitting = [k for k in candidates if k.wheel.yanked is None and not find_obstacle(k, target, ranks)]
            if fitting:
                return max(fitting, key=lambda parsed: _preference_key(parsed, ranks))
        return None

    def _wheels_of_cell(self, target: Target) -> list[ParsedWheel]:
        """Return the wheels that list the target's cell."""
        found = self._by_cell.get(_combination_of(target), ())
        return [parsed for parsed, cell in found if cell.python in {None, target.python_minor}]

    def _wheels_by_metadata(self, target: Target) -> Iterator[ParsedWheel]:
        """Yield wheels that accept the target according to their metadata. Unserved cells get none."""
        if self._unserved_cell(target):
            return
        for parsed in self._wheels:
            if not accepts(parsed.required_versions(target.framework), target.torch_version or target.release):
                continue
            if not parsed.wheel.cells:
                # An unknown local version may limit the wheel to some platform.
                if parsed.version.local is None:
                    yield parsed
            elif parsed.is_pure or any(
                (cell.compute, cell.arch) == (target.compute, target.arch)
                and cell.python in {None, target.python_minor}
                for cell in parsed.wheel.cells
            ):
                yield parsed

    def _unserved_cell(self, target: Target) -> CellWithoutWheel | None:
        place = _combination_of(target)
        return self._unserved.get((*place, None)) or self._unserved.get((*place, target.python_minor))

    def is_exact(self, version: Version) -> bool:
        """Return True if ``==`` selects only this version. ``==1.0`` also matches 1.0+cu130, which pip prefers."""
        return version.local is not None or not any(
            other.version.local and other.version.public == version.public for other in self._wheels
        )

    def _notes(self, parsed: ParsedWheel, target: Target) -> Iterator[str]:
        if self._newest and Version(parsed.version.public) < self._newest:
            answer = self._unserved_cell(target)
            why = f" ({answer.status}: {answer.reason})" if answer else ""
            yield f"{self._newest} has no wheel for this{why}; {parsed.version.public} is the newest that has one"
        yield from self._yank_notes(parsed, target)
        if parsed.wheel.older:
            yield "it was built from an older source than the newest wheels"
        if parsed.wheel.cells and parsed not in self._wheels_of_cell(target):
            accepted = parsed.required_versions(target.framework) or "of any version"
            yield f"it was not built for exactly this combination; its metadata accepts {target.framework} {accepted}"
        if note := gpu_note(parsed, target):
            yield note

    def _yank_notes(self, parsed: ParsedWheel, target: Target) -> Iterator[str]:
        """Yield a note for each yanked wheel that would have been preferred."""
        ranks = target.accepted_tags(self._platforms)
        for other in sorted(self._wheels_of_cell(target), key=lambda each: each.version, reverse=True):
            better = other.wheel.yanked is not None and not find_obstacle(other, target, ranks)
            if better and _preference_key(other, ranks) > _preference_key(parsed, ranks):
                yield f"{self.catalogue.project} {other.version} was yanked: {other.wheel.yanked or NO_REASON}"

    # --- refusals --------------------------------------------------------------------------------------------------

    def _make_refusal(self, target: Target) -> Refusal:
        code, reason, tail = self._refusal_reason(target)
        # If all wheels are yanked, skip the search, which is slow for projects with many cells.
        any_usable = any(parsed.wheel.yanked is None for parsed in self._wheels)
        near = find_nearest(target, self.axes, lambda other: self._decide(other) is not None) if any_usable else ()
        return Refusal(code=code, reason=reason, tail=tail, nearest=near)

    def _refusal_reason(self, target: Target) -> tuple[str, str, tuple[str, ...]]:
        project, of_cell = self.catalogue.project, self._wheels_of_cell(target)
        if self.catalogue.status is ProjectStatus.QUARANTINED:
            return "quarantined", f"{self.warning}; its wheels must not be installed", ()
        if obstructed := self._newest_obstacle(of_cell, target):
            return obstructed
        if answer := self._unserved_cell(target):
            what = "the build of" if answer.status is NoWheel.FAILED else "there is no wheel of"
            how = "failed" if answer.status is NoWheel.FAILED else "for this"
            return str(answer.status), f"{what} {project} {answer.version} {how}: {answer.reason}", answer.tail
        if obstructed := self._newest_obstacle(self._wheels_by_metadata(target), target):
            return obstructed
        if of_cell:
            last = max(of_cell, key=lambda parsed: parsed.version)
            return "yanked", f"{project} {last.version} was yanked: {last.wheel.yanked or NO_REASON}", ()
        return (*self._unserved_axis(target), ())

    def _newest_obstacle(
        self, candidates: Iterable[ParsedWheel], target: Target
    ) -> tuple[str, str, tuple[str, ...]] | None:
        """Return the reason that the newest candidate does not fit. None of the candidates fits."""
        not_yanked = [parsed for parsed in candidates if parsed.wheel.yanked is None]
        if not not_yanked:
            return None
        best = max(not_yanked, key=lambda parsed: parsed.version)
        found = find_obstacle(best, target, target.accepted_tags(self._platforms))
        return (
            (found.code, f"{self.catalogue.project} {best.version} does not fit: {found.reason}", ()) if found else None
        )

    def _unserved_axis(self, target: Target) -> tuple[str, str]:
        """Return the axis whose value has no wheel at all, or the combination if each value has one."""
        project = self.catalogue.project
        cells = [cell for parsed in self._wheels if parsed.wheel.yanked is None for cell in parsed.wheel.cells]
        if not cells:
            return "empty", f"{project} has no wheel for a known combination"
        releases = sorted({cell.release for cell in cells if cell.framework == target.framework}, key=release_order)
        computes = sorted({cell.compute for cell in cells}, key=compute_order)
        archs = sorted({cell.arch for cell in cells})
        pythons = sorted({cell.python for cell in cells if cell.python}, key=numbers)
        name = target.framework
        if target.release not in releases:
            return name, f"{name} {target.release} is not served; there are wheels for {name} {listed(releases)}"
        if target.compute not in computes:
            there = listed([compute_name(name) for name in computes])
            return "compute", f"{compute_name(target.compute)} is not served; there are wheels for {there}"
        if target.arch not in archs:
            return "arch", f"{target.arch} is not served; there are wheels for {listed(archs)}"
        if pythons and target.python_minor not in pythons:
            return "python", f"Python {target.python_minor} is not served; there are wheels for {listed(pythons)}"
        what = f"{name} {target.release} with {compute_name(target.compute)} on {target.arch}"
        return "combination", f"{what} is not in the matrix of {project}"


def _key(cell: Cell) -> tuple[str, str, str, str, str | None]:
    return (*_combination_of(cell), cell.python)


def _combination_of(of: Cell | Target) -> tuple[str, str, str, str]:
    return of.framework, of.release, of.compute, of.arch


def _preference_key(parsed: ParsedWheel, ranks: dict[Tag, int]) -> tuple[object, ...]:
    """Return a sort key with pip's order: final releases first, then version, tag and build number."""
    rank = min(ranks[tag] for tag in parsed.tags if tag in ranks)
    return not parsed.version.is_prerelease, parsed.version, -rank, parsed.build
