"""What matrix.yaml says, once it has been read."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache

from packaging.specifiers import SpecifierSet

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import TORCH, Cell, CellSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRef(Record):
    """Which kernel; exactly one of ``hub``, ``git``, ``path`` and ``sdist``.

    :param hub: a Hub repo, ``org/name``.
    :param git: the address of a git repository; a folder is relative to matrix.yaml.
    :param path: a folder or an archive, relative to matrix.yaml.
    :param sdist: a release on a package index, ``name==version``, normalized.
    :param revision: a branch, tag or commit of the repo.
    :param subdirectory: of a git repository, where the kernel lies in it.
    :param submodules: of a git repository, those that are fetched; None fetches all.
    :param test: a command that shows that an installed wheel works.
    :param distribution: the project's name on the index; None takes build.toml's.
    :param declare: patterns of files that its wheel is meant to install, though they look like another project's.
    :param module: the import name; None takes build.toml's name.
    """

    hub: str | None = None
    git: str | None = None
    path: str | None = None
    sdist: str | None = None
    revision: str | None = None
    subdirectory: str | None = None
    submodules: tuple[str, ...] | None = None
    test: str | None = None
    distribution: str | None = None
    declare: tuple[str, ...] = ()
    module: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector(Record):
    """Which cells: for each axis the patterns of which any may match; an empty axis matches all.

    A pattern is a value (``13.0``, ``cpu``), a glob (``13.*``) or a version specifier (``>=2.11,<2.14``).
    """

    releases: tuple[str, ...] = ()
    toolkits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arch: tuple[str, ...] = ()
    python: tuple[str, ...] = ()

    def matches(self, cell: Cell) -> bool:
        """Say whether the cell is selected."""
        values = (
            (self.releases, cell.release),
            (self.arch, cell.arch),
            (self.python, cell.python or ""),
        )
        return self._is_for(cell) and all(
            not patterns or any(_match(p, value) for p in patterns) for patterns, value in values
        )

    def _is_for(self, cell: Cell) -> bool:
        """Say whether the cell's compute platform is selected; the CPU is a value of every platform's axis."""
        if not self.toolkits:
            return True
        value = cell.toolkit or cell.compute
        named = self.toolkits.values() if cell.toolkit is None else [self.toolkits.get(cell.platform, ())]
        return any(_match(pattern, value) for patterns in named for pattern in patterns)


def is_specifier(pattern: str) -> bool:
    """Say whether a pattern is a version specifier."""
    return pattern[:1] in "<>=!~"


@lru_cache(maxsize=4096)
def _match(pattern: str, value: str) -> bool:
    if is_specifier(pattern):
        return value[:1].isdigit() and SpecifierSet(pattern).contains(value)
    return fnmatchcase(value, pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings(Record):
    """What the build system of a project is given: in the plan, and of it in nothing that is published but a sha256.

    :param env: variables, in whose values placeholders may stand.
    :param build_requires: what it needs beside what it declares.
    :param test_requires: what a test of its wheel needs beside what the wheel requires.
    :param config_settings: what its build backend is told, each as often as it has values, with placeholders too.
    :param before_build: a shell command that is run first, in the project's folder.
    """

    env: dict[str, str] = field(default_factory=dict)
    build_requires: tuple[str, ...] = ()
    test_requires: tuple[str, ...] = ()
    config_settings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    before_build: str | None = None

    def with_more(self, more: ProjectSettings) -> ProjectSettings:
        """Return them with those of a rule: what has a name takes the place of its namesake, requirements are added."""
        return ProjectSettings(
            env=self.env | more.env,
            build_requires=tuple(dict.fromkeys((*self.build_requires, *more.build_requires))),
            test_requires=tuple(dict.fromkeys((*self.test_requires, *more.test_requires))),
            config_settings=self.config_settings | more.config_settings,
            before_build=self.before_build if more.before_build is None else more.before_build,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRule(Record):
    """Excludes the cells it selects, or changes their settings.

    :param settings: what they become.
    :param sets: those of the settings that it changes; the others stay.
    :param project: what it adds for a project's build system.
    :param place: where the rule stands, as ``matrix.yaml:9``.
    """

    where: Selector
    exclude: bool
    reason: str | None
    place: str
    settings: CellSettings = field(default_factory=CellSettings)
    sets: tuple[str, ...] = ()
    project: ProjectSettings = field(default_factory=ProjectSettings)


class CudaCompatibility(StrEnum):
    """How far a wheel may be from its cell's CUDA; each allows what those before it do."""

    HUB = "hub"
    MINOR = "minor"
    OLDEST_MINOR = "oldest-minor"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice(Record):
    """Where cells are built; ``memory`` and ``disk`` in bytes, ``seconds`` of wall time for one command.

    :param image: the container image for cells that no rule gives another; engines without images ignore it.
    """

    name: str = "auto"
    image: str | None = None
    memory: int | None = None
    disk: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings(Record):
    """Where a run leaves its wheels, index and logs; relative to matrix.yaml.

    :param variants: offer a variant wheel (PEP 825) beside each wheel for a compute platform.
    """

    path: str = "dist"
    variants: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix(Record):
    """One kernel and every combination that it is asked for.

    :param version: overrides build.toml's version.
    :param framework: whose releases one axis names.
    :param computes: compute platforms, such as ``cpu`` and ``cu130``.
    :param python: empty for a kernel in the Hub's layout, whose wheels serve every Python.
    :param settings: what holds for every cell before rules.
    :param project: what a project's build system is given for every cell before rules.
    :param cuda_compatibility: ``hub`` is the Hub loader's rule: no CUDA newer than torch's own. ``minor`` builds also
        with a newer one of the same major: CUDA's minor-version compatibility, which needs a recent driver.
        ``oldest-minor`` has the oldest CUDA of a major answer for the newer ones.
    :param sha256: of its text; None of one that nobody wrote.
    """

    kernel: KernelRef
    version: str | None
    framework: str = TORCH
    releases: tuple[str, ...]
    computes: tuple[str, ...]
    arch: tuple[str, ...]
    python: tuple[str, ...] = ()
    settings: CellSettings = field(default_factory=CellSettings)
    project: ProjectSettings = field(default_factory=ProjectSettings)
    cuda_compatibility: CudaCompatibility = CudaCompatibility.HUB
    rules: tuple[MatrixRule, ...] = ()
    engine: EngineChoice = field(default_factory=EngineChoice)
    output: OutputSettings = field(default_factory=OutputSettings)
    sha256: str | None = None
