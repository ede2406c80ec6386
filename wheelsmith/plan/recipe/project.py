"""Read a project's name, version and requirements from its files, without running any of its code."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import Place, SourceError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import MAX_VERSION_LENGTH, TORCH
from wheelsmith.plan.recipe.project_build import compiles_nothing
from wheelsmith.plan.recipe.static_setup_metadata import SetupMetadata, likely_version, read_setup_cfg, read_setup_py
from wheelsmith.plan.recipe.toml_reader import load_toml

PROJECT_FILES = ("pyproject.toml", "setup.py")
_PKG_INFO = "PKG-INFO"
_SETUP: dict[str, Callable[[bytes], SetupMetadata]] = {"setup.cfg": read_setup_cfg, "setup.py": read_setup_py}
# Characters. The parser's time grows faster than the length; name and version are at the beginning.
_LONGEST_HEADERS = 1 << 14
# Characters of a requirement. A longer one could contain a number with more digits than Python converts.
_LONGEST = 1000
_LONGEST_NAME = 100  # as in matrix.yaml, because it becomes part of file names
# Packages that read the version from git tags. A build has no git history, so SETUPTOOLS_SCM_PRETEND_VERSION is needed.
_GIT_VERSION_PLUGINS = {"setuptools-scm", "hatch-vcs", "flit-scm"}
# Default of PEP 518 for projects without build requirements.
_DEFAULT_REQUIRES = ("setuptools>=40.8", "wheel")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSpec(Record):
    """A project's static metadata. Values that setup.py computes are missing.

    :param requires: the requirements of its build system without torch, which depends on the cell.
    :param torch: the version specifier for torch of the project and its build system, e.g. ``>=2.12.1``.
    :param builds_with_torch: its build requirements contain torch.
    :param named: normalized names of its static build and runtime requirements.
    :param likely_version: if ``version`` is None, a version in another file, and the path of this file.
    :param is_pure: the project says itself that it compiles nothing, so that one wheel serves every combination.
    """

    name: str | None
    version: str | None
    requires: tuple[str, ...]
    torch: str = ""
    builds_with_torch: bool = False
    named: tuple[str, ...] = ()
    likely_version: tuple[str, str] | None = None
    is_pure: bool = False

    @property
    def requirement_names(self) -> frozenset[str]:
        """The names of its build requirements, without torch."""
        return frozenset(map(_name_of, self.requires))

    @property
    def git_version_plugin(self) -> str | None:
        """The build requirement that takes the version from git's tags, or None."""
        return next((name for name in map(_name_of, self.requires) if name in _GIT_VERSION_PLUGINS), None)


def read_project(paths: Collection[str], read: Callable[[str], bytes]) -> ProjectSpec:
    """Read a project's static metadata. The first file with a value takes precedence, as for pip.

    :param paths: the project's files.
    :param read: path → content.
    :raises SourceError: a file is invalid.
    """
    try:
        text = read("pyproject.toml").decode() if "pyproject.toml" in paths else None
    except UnicodeDecodeError:
        raise SourceError("pyproject.toml is not UTF-8 text") from None
    spec = parse_project(text)
    if _PKG_INFO in paths:
        spec = with_pkg_info(spec, read(_PKG_INFO).decode(errors="replace"))
    for file, read_metadata in _SETUP.items():
        if file in paths:
            spec = with_setup_metadata(spec, read_metadata(read(file)))
    data = load_toml(text, "pyproject.toml", SourceError) if text else {}
    pure = not spec.builds_with_torch and compiles_nothing(data, spec.requirement_names, paths, read)
    likely = None if spec.version else likely_version(paths, read)
    return replace(spec, is_pure=pure, likely_version=likely)


def parse_project(text: str | None) -> ProjectSpec:
    """Parse a pyproject.toml, or return the defaults without one.

    :raises SourceError: it is invalid TOML, or requires a package by URL.
    """
    if text is None:
        return ProjectSpec(name=None, version=None, requires=_DEFAULT_REQUIRES)
    data = load_toml(text, "pyproject.toml", SourceError)
    project, system = _table(data, "project"), _table(data, "build-system")
    requires = system.get("requires", list(_DEFAULT_REQUIRES))
    if not isinstance(requires, list):
        raise SourceError("build-system.requires is not a list", where=Place(file="pyproject.toml"))
    needs = [_requirement(item) for item in requires]
    others = _without_torch(needs)
    spec = ProjectSpec(
        name=_name(project), version=_version(project), requires=others, builds_with_torch=len(others) < len(needs)
    )
    return _with_torch(spec, (*needs, *_dependencies(project.get("dependencies"))))


def with_pkg_info(spec: ProjectSpec, text: str) -> ProjectSpec:
    """Return the project with the name, version and torch requirement of an sdist's PKG-INFO added.

    A local version is removed, because the cell determines the wheel's.

    :raises SourceError: the name or version is invalid.
    """
    from packaging.metadata import parse_email

    head = re.split(r"\r?\n\r?\n", text, maxsplit=1)[0]
    if len(head) > _LONGEST_HEADERS:
        head = head[:_LONGEST_HEADERS].rpartition("\n")[0]
    found, _ = parse_email(head)
    table: dict[str, Any] = {"name": found.get("name"), "version": found.get("version")}
    return _with_torch(_with_name(spec, table, _PKG_INFO), _dependencies(found.get("requires_dist")))


def with_setup_metadata(spec: ProjectSpec, metadata: SetupMetadata) -> ProjectSpec:
    """Return the project with the literal metadata of setup.py or setup.cfg added.

    Invalid values are ignored here, because the build checks them.
    """
    needs = _dependencies(metadata.setup_requires)
    named = spec
    for key in ("name", "version"):
        with suppress(SourceError):
            named = _with_name(named, {key: getattr(metadata, key)}, "setup.py")
    requires = _without_torch(needs)
    named = replace(
        named,
        requires=tuple(dict.fromkeys((*spec.requires, *requires))),
        builds_with_torch=spec.builds_with_torch or len(requires) < len(needs),
    )
    return _with_torch(named, (*needs, *_dependencies(metadata.install_requires)))


def _with_name(spec: ProjectSpec, table: dict[str, Any], file: str) -> ProjectSpec:
    """Return the project with a missing name or version taken from a table."""
    version = _version(table, file) if spec.version is None else None
    return replace(
        spec,
        name=spec.name or _name(table, file),
        version=Version(version).public if version else spec.version,
    )


def _without_torch(needs: Iterable[Requirement]) -> tuple[str, ...]:
    return tuple(str(need) for need in needs if canonicalize_name(need.name) != TORCH)


def _with_torch(spec: ProjectSpec, needs: Iterable[Requirement]) -> ProjectSpec:
    """Return the project with the torch requirements among these added, and the names of all."""
    needs = tuple(needs)
    requested = [need.specifier for need in needs if canonicalize_name(need.name) == TORCH and not need.marker]
    clauses = {str(clause) for specifier in (SpecifierSet(spec.torch), *requested) for clause in specifier}
    named = dict.fromkeys((*spec.named, *(canonicalize_name(need.name) for need in needs)))
    return replace(spec, torch=",".join(sorted(clauses)), named=tuple(named))


def _dependencies(listed: object) -> list[Requirement]:
    """Return the valid requirements among these. The check of the built wheel finds the invalid ones."""
    found = []
    for item in listed if isinstance(listed, list | tuple) else ():
        try:
            found.append(_parse(item))
        except InvalidRequirement:
            continue
    return [need for need in found if not need.url]


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise SourceError(f"{name} is not a table", where=Place(file="pyproject.toml"))
    return table


def _text(table: dict[str, Any], name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None


def _version(project: dict[str, Any], file: str = "pyproject.toml") -> str | None:
    text = _text(project, "version")
    try:
        return str(Version(text if len(text) <= MAX_VERSION_LENGTH else "")) if text else None
    except ValueError:
        longest = f"of at most {MAX_VERSION_LENGTH} characters"
        raise SourceError(f"{text!r:.100} is not a version {longest}", where=Place(file=file)) from None


def _name(project: dict[str, Any], file: str = "pyproject.toml") -> str | None:
    text = _text(project, "name")
    try:
        if text is not None:
            canonicalize_name(text if len(text) <= _LONGEST_NAME else "", validate=True)
    except InvalidName:
        raise SourceError(f"{text!r:.100} is not a project name", where=Place(file=file)) from None
    return text


def _requirement(item: object) -> Requirement:
    try:
        need = _parse(item)
    except InvalidRequirement:
        raise SourceError(f"{item!r:.100} is not a requirement", where=Place(file="pyproject.toml")) from None
    if need.url:
        # The project could make this machine download any file.
        raise SourceError(
            f"build-system.requires contains a URL: {need.name} @ …", where=Place(file="pyproject.toml"),
            remedy="require a released version instead",
        )  # fmt: skip
    return need


def _name_of(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def _parse(item: object) -> Requirement:
    """Parse a requirement.

    :raises InvalidRequirement: it is malformed or too long.
    """
    text = str(item)
    if len(text) > _LONGEST:
        raise InvalidRequirement(f"longer than {_LONGEST} characters")
    try:
        return Requirement(text)
    except RecursionError:
        raise InvalidRequirement("nested too deeply") from None
