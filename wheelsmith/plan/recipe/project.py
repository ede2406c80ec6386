"""What a project with a build system of its own says of itself before anything of it is run."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import Place, SourceError
from wheelsmith.base.record import Record
from wheelsmith.plan.recipe.toml_text import load_toml

PROJECT_FILES = ("pyproject.toml", "setup.py")
PKG_INFO = "PKG-INFO"
# Characters: what parses them takes ever longer for the next one, and the name and the version come first.
_LONGEST_HEADERS = 1 << 14
# Characters of a requirement or a version: no number in it has more digits than Python reads.
_LONGEST = 1000
_LONGEST_NAME = 100  # as in matrix.yaml: files are called after it
_SHOWN = 100  # characters of one
_MOST = 200  # requirements of a build system; each is a word of a command line
# They ask git for the version, of which a build has nothing, unless SETUPTOOLS_SCM_PRETEND_VERSION says it.
_ASK_GIT = {"setuptools-scm", "hatch-vcs", "flit-scm"}
# What PEP 518 has builders take where a project names nothing.
_DEFAULT_REQUIRES = ("setuptools>=40.8", "wheel")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSpec(Record):
    """A project's own words, as far as they stand in pyproject.toml; what setup.py decides is not known yet.

    :param requires: what its build system needs, torch left out: which torch is the cell's to say.
    :param torch: what it and its build system ask of torch's version, such as ``>=2.12.1``.
    """

    name: str | None
    version: str | None
    requires: tuple[str, ...]
    torch: str = ""

    @property
    def asks_git(self) -> str | None:
        """Return the requirement that takes the version from git's tags, if there is one."""
        return next((name for name in map(_name_of, self.requires) if name in _ASK_GIT), None)


def parse_project(text: str | None) -> ProjectSpec:
    """Read a pyproject.toml, or take what holds without one.

    :raises SourceError: it is no TOML, or names what must not be fetched.
    """
    if text is None:
        return ProjectSpec(name=None, version=None, requires=_DEFAULT_REQUIRES)
    data = load_toml(text, "pyproject.toml", SourceError)
    project, system = _table(data, "project"), _table(data, "build-system")
    requires = system.get("requires", list(_DEFAULT_REQUIRES))
    if not isinstance(requires, list):
        raise SourceError("build-system.requires is no list", where=Place(file="pyproject.toml"))
    if len(requires) > _MOST:
        raise SourceError(f"build-system.requires names more than {_MOST} projects", where=Place(file="pyproject.toml"))
    needs = [_requirement(item) for item in requires]
    torches = [need.specifier for need in (*needs, *_of_torch(project)) if need.name == "torch" and not need.marker]
    return ProjectSpec(
        name=_name(project),
        version=_version(project),
        requires=tuple(str(need) for need in needs if need.name != "torch"),
        torch=",".join(sorted({str(clause) for asked in torches for clause in asked})),
    )


def with_pkg_info(spec: ProjectSpec, text: str) -> ProjectSpec:
    """Return a project with the name and version that its sdist's PKG-INFO has, where pyproject.toml has none.

    A local part is left out: which one a wheel gets, its cell says.

    :raises SourceError: what stands there is no name or no version.
    """
    from packaging.metadata import parse_email

    found, _ = parse_email(re.split(r"\r?\n\r?\n", text[:_LONGEST_HEADERS], maxsplit=1)[0])
    table: dict[str, Any] = {"name": found.get("name"), "version": found.get("version")}
    version = _version(table, PKG_INFO)
    return replace(
        spec,
        name=spec.name or _name(table, PKG_INFO),
        version=spec.version or (Version(version).public if version else None),
    )


def _of_torch(project: dict[str, Any]) -> list[Requirement]:
    """Return what is required of torch at run time; the other dependencies are the built wheel's own to say."""
    listed = project.get("dependencies")
    found = []
    for item in listed if isinstance(listed, list) else ():
        try:
            found.append(_parse(item))
        except InvalidRequirement:
            continue
    return [need for need in found if not need.url]


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise SourceError(f"{name} is no table", where=Place(file="pyproject.toml"))
    return table


def _text(table: dict[str, Any], name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None


def _version(project: dict[str, Any], file: str = "pyproject.toml") -> str | None:
    text = _text(project, "version")
    try:
        return str(Version(text if len(text) <= _LONGEST else "")) if text else None
    except ValueError:  # also of InvalidVersion, which a number of too many digits does not raise
        raise SourceError(f"{_cut(text)} is not a version", where=Place(file=file)) from None


def _name(project: dict[str, Any], file: str = "pyproject.toml") -> str | None:
    text = _text(project, "name")
    try:
        if text is not None:
            canonicalize_name(text if len(text) <= _LONGEST_NAME else "", validate=True)
    except InvalidName:
        raise SourceError(f"{_cut(text)} is not a project's name", where=Place(file=file)) from None
    return text


def _requirement(item: object) -> Requirement:
    try:
        need = _parse(item)
    except InvalidRequirement:
        raise SourceError(f"{_cut(item)} is not a requirement", where=Place(file="pyproject.toml")) from None
    if need.url:
        # Whoever writes the project would choose what this machine fetches, and from where.
        raise SourceError(
            f"build-system.requires names an address, {need.name} @ …", where=Place(file="pyproject.toml"),
            remedy="require a released version instead",
        )  # fmt: skip
    return need


def _name_of(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def _parse(item: object) -> Requirement:
    """Read a requirement.

    :raises InvalidRequirement: it is none, or more than anybody writes.
    """
    text = str(item)
    if len(text) > _LONGEST:
        raise InvalidRequirement(f"longer than {_LONGEST} characters")
    try:
        return Requirement(text)
    except RecursionError:
        raise InvalidRequirement("nested too deeply") from None


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
