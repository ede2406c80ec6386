"""Dataclasses for the content of matrix.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache

from packaging.specifiers import SpecifierSet

from wheelsmith.base.json_dataclass import Record
from wheelsmith.matrix.remote_cache import RemoteCacheSettings
from wheelsmith.model import TORCH, Cell, CellSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRef(Record):
    """The source of a kernel: exactly one of ``hub``, ``git``, ``path`` and ``sdist``.

    :param hub: a Hub repo, ``org/name``.
    :param git: the address of a git repository; a folder is relative to matrix.yaml.
    :param path: a folder or an archive, relative to matrix.yaml.
    :param sdist: a release on a package index, ``name==version``, normalized.
    :param revision: a branch, tag or commit of the repo.
    :param subdirectory: the kernel's folder in the git repository.
    :param submodules: the submodules of the git repository to fetch; None fetches all.
    :param include: globs of further files of the folder to take, although git ignores or does not track them.
    :param exclude: globs of files of the folder to leave out.
    :param build_toml: the path of build.toml in the source; None for ``build.toml``.
    :param test: a command that shows that an installed wheel works.
    :param distribution: the project's name on the index; None means the name in build.toml.
    :param declare: patterns of files that the wheel installs on purpose, although they look like another project's.
    :param module: the import name; None means the name in build.toml.
    :param builds: ``prefer`` takes the builds that the repo or folder already has; None compiles everything.
    """

    hub: str | None = None
    git: str | None = None
    path: str | None = None
    sdist: str | None = None
    revision: str | None = None
    subdirectory: str | None = None
    submodules: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    build_toml: str | None = None
    test: str | None = None
    distribution: str | None = None
    declare: tuple[str, ...] = ()
    module: str | None = None
    builds: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector(Record):
    """Selects cells. A cell must match at least one pattern of each axis; an axis without patterns matches every cell.

    A pattern is a value (``13.0``, ``cpu``), a glob (``13.*``) or a version specifier (``>=2.11,<2.14``).
    """

    releases: tuple[str, ...] = ()
    toolkits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arch: tuple[str, ...] = ()
    python: tuple[str, ...] = ()

    def matches(self, cell: Cell) -> bool:
        """Return True if the selector selects the cell."""
        values = (
            (self.releases, cell.release),
            (self.arch, cell.arch),
            (self.python, cell.python or ""),
        )
        return self._selects_platform(cell) and all(
            not patterns or any(_matches(p, value) for p in patterns) for patterns, value in values
        )

    def _selects_platform(self, cell: Cell) -> bool:
        """Return True if the cell's compute platform is selected. Every platform's axis may contain ``cpu``."""
        if not self.toolkits:
            return True
        value = cell.toolkit or cell.compute
        named = self.toolkits.values() if cell.toolkit is None else [self.toolkits.get(cell.platform, ())]
        return any(_matches(pattern, value) for patterns in named for pattern in patterns)


def is_specifier(pattern: str) -> bool:
    """Return True if a pattern is a version specifier."""
    return pattern[:1] in "<>=!~"


@lru_cache(maxsize=4096)
def _matches(pattern: str, value: str) -> bool:
    if is_specifier(pattern):
        return value[:1].isdigit() and SpecifierSet(pattern).contains(value.removesuffix("t"), prereleases=True)
    return fnmatchcase(value, pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings(Record):
    """Settings for the build system of a project.

    The plan contains them. Published files contain only their sha256.

    :param env: environment variables; values may contain placeholders.
    :param build_requires: requirements in addition to those that the project declares.
    :param test_requires: requirements of the wheel's test in addition to those of the wheel.
    :param config_settings: options of the build backend, each with one or more values; values may contain placeholders.
    :param before_build: a shell command to run first in the project's folder.
    :param cxx_standard: ``torch`` raises an older C++ standard of compiler calls to the one that torch needs;
        ``project`` changes none.
    """

    env: dict[str, str] = field(default_factory=dict)
    build_requires: tuple[str, ...] = ()
    test_requires: tuple[str, ...] = ()
    config_settings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    before_build: str | None = None
    cxx_standard: str | None = None

    def merged_with(self, more: ProjectSettings) -> ProjectSettings:
        """Return these settings with those of a rule. Requirements are added; other values are replaced."""
        return ProjectSettings(
            env=self.env | more.env,
            build_requires=tuple(dict.fromkeys((*self.build_requires, *more.build_requires))),
            test_requires=tuple(dict.fromkeys((*self.test_requires, *more.test_requires))),
            config_settings=self.config_settings | more.config_settings,
            before_build=self.before_build if more.before_build is None else more.before_build,
            cxx_standard=more.cxx_standard or self.cxx_standard,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRule(Record):
    """A rule that excludes the selected cells or changes their settings.

    :param settings: the new values.
    :param sets: the names of the settings that change.
    :param project: settings to add for the build system of a project.
    :param place: the rule's place in the file, such as ``matrix.yaml:9``.
    """

    where: Selector
    exclude: bool
    reason: str | None
    place: str
    settings: CellSettings = field(default_factory=CellSettings)
    sets: tuple[str, ...] = ()
    project: ProjectSettings = field(default_factory=ProjectSettings)


class CudaCompatibility(StrEnum):
    """The CUDA versions that a cell and its wheel may have; each value allows more than the one before."""

    HUB = "hub"
    MINOR = "minor"
    OLDEST_MINOR = "oldest-minor"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice(Record):
    """The engine that builds cells, and its limits.

    :param image: the default container image of cells; engines without images ignore it.
    :param memory: the limit of one command in bytes.
    :param disk: the limit of one command in bytes.
    :param seconds: the limit of wall time for one command.
    """

    name: str = "auto"
    image: str | None = None
    memory: int | None = None
    disk: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings(Record):
    """The output folder of a run and its content.

    :param path: the folder for wheels, index and logs, relative to matrix.yaml.
    :param variants: add a variant wheel (PEP 825) for each wheel of a compute platform.
    """

    path: str = "dist"
    variants: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix(Record):
    """A kernel and the combinations to build.

    :param name: the name in ``kernels``; None for the only kernel of a file.
    :param own: for one of several kernels, the keys and axes that are not common to all of them.
    :param place: the place of its source in the file, such as ``matrix.yaml:7:11``.
    :param version: overrides the version in build.toml.
    :param framework: the framework that has an axis.
    :param releases: the releases of the framework.
    :param places: the place in the file of each pre-release and of ``nightly``, such as ``matrix.yaml:7:11``; none if
        the facts about them are in the cache.
    :param computes: compute platforms, such as ``cpu`` and ``cu130``.
    :param python: the Python versions; empty for a kernel in the Hub's layout, as its wheels serve every Python.
    :param settings: the settings of every cell before the rules apply.
    :param project: the settings of a project's build system before the rules apply.
    :param cuda_compatibility: ``hub`` is the rule of the Hub's loader: no CUDA newer than the CUDA of torch. ``minor``
        also allows a newer minor of the same major (CUDA's minor-version compatibility, which needs a recent driver).
        With ``oldest-minor``, a wheel for the oldest CUDA of a major also serves the newer ones.
    :param sha256: the hash of the file; None for a matrix that is not from a file.
    """

    kernel: KernelRef
    name: str | None = None
    own: tuple[str, ...] = ()
    place: str | None = None
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
    remote_cache: RemoteCacheSettings = field(default_factory=RemoteCacheSettings)
    places: dict[str, str] = field(default_factory=dict)

    def without_project_settings(self) -> Matrix:
        """Return the matrix without the settings that apply only to projects with their own build system."""
        rules = tuple(replace(rule, project=ProjectSettings()) for rule in self.rules)
        return replace(self, python=(), project=ProjectSettings(), rules=rules)
