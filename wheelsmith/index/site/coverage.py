"""The coverage of an index: which project has a wheel for which combination, and why not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.requirements import Requirement

from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import numbers, release_order
from wheelsmith.frameworks import read_local_version
from wheelsmith.index.entries.catalogue import catalogue_of
from wheelsmith.index.entries.entry import ProjectState, check_release, check_root
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.incompatibility import torch_build
from wheelsmith.index.resolve.install_commands import pin
from wheelsmith.index.resolve.target import Choice, ParsedWheel, Target, accepts
from wheelsmith.index.site.grid import GridStatus, catalogue_cells
from wheelsmith.index.site.picker import USUAL
from wheelsmith.model import NO_FRAMEWORK, TORCH, Cell, release_title
from wheelsmith.platforms import compute_name, compute_order

_USUAL_ARCH = USUAL["arch"]
_FUTURE = "99.0"  # newer than every release of a framework


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered(Record):
    """One combination of a project.

    :param reason: why the newest version has no wheel; None if it has one.
    :param requirement: the requirement that installs its wheel, e.g. ``relu==1.1+cpu.torch2.13``; None without a wheel.
    :param root: the root of the index that lists the wheel.
    :param others: the wheel's requirements other than torch.
    """

    framework: str
    release: str
    compute: str
    status: GridStatus
    reason: str | None = None
    requirement: str | None = None
    root: str | None = None
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject values that are unsafe in a path or in a command."""
        check_root(self.compute)
        if self.release:
            check_release(self.release)
        if self.requirement:
            check_root(self.root or "")
            for text in (self.requirement, *self.others):
                Requirement(text)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        plain = Record.to_json(self)  # slots replace the class, so super() does not work
        return {name: value for name, value in plain.items() if value or name == "release"}

    @property
    def column(self) -> str:
        """Return the heading of its column: ``torch 2.13, CUDA 13.0``."""
        return f"{release_title(self.framework, self.release)}, {compute_name(self.compute)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward(Record):
    """A wheel that is not for one release: it uses a stable ABI, or contains no compiled code.

    :param requires: the releases that it accepts, e.g. ``>=2.10``; empty if it accepts any.
    :param like: the combination, with the future release that the wheel accepts, too.
    """

    requires: str
    like: Covered


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRow(Record):
    """All combinations of one project, CPU architecture and Python.

    :param python: None if its wheels serve every Python.
    :param onward: the wheels that serve newer releases, too.
    """

    project: str
    arch: str
    python: str | None
    combinations: tuple[Covered, ...]
    onward: tuple[Onward, ...] = ()

    @property
    def title(self) -> str:
        """Return the heading of the row: ``relu, aarch64, Python 3.12``, without the usual architecture."""
        return _titled(self.project, self.arch, self.python)

    @property
    def signs(self) -> dict[str, str]:
        """Return column → the sign of its status."""
        return {each.column: each.status.sign for each in self.combinations}


def coverage(states: Iterable[ProjectState]) -> tuple[CoverageRow, ...]:
    """Return the rows of some projects, sorted by name."""
    return spread(row for state in sorted(states, key=lambda state: state.project) for row in project_rows(state))


def spread(rows: Iterable[CoverageRow]) -> tuple[CoverageRow, ...]:
    """Add the combinations that follow from the releases of the other rows.

    A wheel for torch's stable ABI serves every release that it accepts, and a project without a framework every torch.
    """
    rows = tuple(rows)
    releases = sorted({(each.framework, each.release) for row in rows for each in row.combinations})
    return tuple(replace(row, combinations=tuple(_spread(row, releases))) for row in rows)


def columns(rows: Iterable[CoverageRow]) -> tuple[str, ...]:
    """Return the headings of all columns: by framework and release, and then by compute platform."""
    found = {(each.framework, each.release, each.compute): each.column for row in rows for each in row.combinations}
    order = sorted(found, key=lambda key: (key[0], release_order(key[1]), compute_order(key[2])))
    return tuple(found[key] for key in order)


def common_combinations(rows: Iterable[CoverageRow]) -> tuple[str, ...]:
    """Return the combinations for which every project has a current wheel: ``torch 2.13, CPU, aarch64, Python 3.12``.

    The usual architecture is left out, and so is Python if the combination has all of them in common.
    """
    rows = tuple(rows)
    projects, found = {row.project for row in rows}, list[str]()
    served = {
        (row.project, row.arch, row.python, each.column)
        for row in rows
        for each in row.combinations
        if each.status.ordinary
    }
    for arch in sorted({row.arch for row in rows}, key=lambda arch: (arch != _USUAL_ARCH, arch)):
        pythons = sorted({row.python for row in rows if row.arch == arch and row.python}, key=numbers) or [""]
        for column in columns(rows):
            common = [
                python
                for python in pythons
                if all({(name, arch, python, column), (name, arch, None, column)} & served for name in projects)
            ]
            named: Sequence[str | None] = [None] if common == pythons else common
            found += [_titled(column, arch, python) for python in named]
    return tuple(found)


def _titled(text: str, arch: str, python: str | None) -> str:
    """Return a text with an architecture and a Python, without the usual architecture."""
    words = (text, *(() if arch == _USUAL_ARCH else (arch,)), *(() if python is None else (f"Python {python}",)))
    return ", ".join(words)


def project_rows(state: ProjectState) -> tuple[CoverageRow, ...]:
    """Return the rows of one project, from its state alone."""
    catalogue = catalogue_of(state)
    chooser = Chooser(catalogue)
    reasons = {answer.cell: answer.reason for answer in catalogue.unserved}
    found: dict[tuple[str, str | None], dict[Cell, Covered]] = {}
    for cell, shown in catalogue_cells(catalogue).items():
        covered = _covered(cell, shown.status, reasons.get(cell), _find(chooser, cell))
        found.setdefault((cell.arch, cell.python), {})[cell] = covered
    order = sorted(found, key=lambda key: (key[0] != _USUAL_ARCH, key[0], numbers(key[1] or "")))
    return tuple(
        CoverageRow(
            project=state.project,
            arch=arch,
            python=python,
            combinations=tuple(found[arch, python].values()),
            onward=tuple(_onward(chooser, found[arch, python])),
        )
        for arch, python in order
    )


def _spread(row: CoverageRow, releases: Collection[tuple[str, str]]) -> Iterator[Covered]:
    known = {(each.framework, each.release, each.compute) for each in row.combinations}
    torches = [release for framework, release in releases if framework == TORCH]
    for each in row.combinations:
        if each.framework == NO_FRAMEWORK and torches:
            yield from (new for release in torches if _runs(new := replace(each, framework=TORCH, release=release)))
        else:
            yield each
    for onward in row.onward:
        like = onward.like
        for framework, release in releases:
            new = replace(like, release=release)
            is_known = (framework, release, like.compute) in known
            if framework == like.framework and not is_known and accepts(onward.requires, release) and _runs(new):
                yield new


def _runs(covered: Covered) -> bool:
    """Return True if the framework has a build for the combination."""
    target = Target(framework=covered.framework, release=covered.release, compute=covered.compute, arch="", python="")
    return torch_build(target) is not None


def _onward(chooser: Chooser, combinations: dict[Cell, Covered]) -> Iterator[Onward]:
    """Yield the wheels that the next release of the framework will find."""
    served = (cell for cell, covered in combinations.items() if covered.requirement and cell.release)
    for cell in {cell.compute: replace(cell, release=_FUTURE) for cell in served}.values():
        choice = _find(chooser, cell)
        parsed = ParsedWheel(choice.wheel) if choice else None
        # A wheel with a release in its version was compiled for it, whatever its metadata accepts.
        if parsed and read_local_version(parsed.version.local).release is None:
            status = GridStatus.OLDER if parsed.wheel.older else GridStatus.STABLE
            requires = parsed.required_versions(cell.framework) or ""
            yield Onward(requires=requires, like=_covered(cell, status, None, choice))


def _find(chooser: Chooser, cell: Cell) -> Choice | None:
    """Return the wheel of a cell, for the usual Python or the oldest that has one."""
    pythons = (cell.python,) if cell.python else (USUAL["python"], *chooser.axes.pythons)
    of_cell = Target(framework=cell.framework, release=cell.release, compute=cell.compute, arch=cell.arch, python="")
    return next(filter(None, (chooser.find(of_cell.with_python(python)) for python in pythons)), None)


def _covered(cell: Cell, status: GridStatus, reason: str | None, choice: Choice | None) -> Covered:
    found = Covered(framework=cell.framework, release=cell.release, compute=cell.compute, status=status, reason=reason)
    if choice is None:
        return found
    return replace(
        found,
        # The newest version may have no wheel here while an older one has.
        status=status if status.ordinary else GridStatus.OLDER,
        requirement=pin(choice.wheel.project, str(choice.wheel.version), equals=choice.exact),
        root=choice.root,
        others=choice.wheel.requires,
    )
