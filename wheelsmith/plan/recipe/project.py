"""What a project with a build system of its own says of itself before anything of it is run."""

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
from wheelsmith.model import LONGEST_VERSION, TORCH
from wheelsmith.plan.recipe.static_setup_metadata import SetupMetadata, read_setup_cfg, read_setup_py
from wheelsmith.plan.recipe.toml_reader import load_toml

PROJECT_FILES = ("pyproject.toml", "setup.py")
_PKG_INFO = "PKG-INFO"
_SETUP: dict[str, Callable[[bytes], SetupMetadata]] = {"setup.cfg": read_setup_cfg, "setup.py": read_setup_py}
# Characters: what parses them takes ever longer for the next one, and the name and the version come first.
_LONGEST_HEADERS = 1 << 14
# Characters of a requirement: no number in it has more digits than Python reads.
_LONGEST = 1000
_LONGEST_NAME = 100  # as in matrix.yaml: files are called after it
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


def read_project(paths: Collection[str], read: Callable[[str], bytes]) -> ProjectSpec:
    """Return what a project's own files say, the first that says something: what is true of pip is true here.

    :param paths: of its files.
    :param read: path → content.
    :raises SourceError: a file is not as it should be.
    """
    try:
        spec = parse_project(read("pyproject.toml").decode() if "pyproject.toml" in paths else None)
    except UnicodeDecodeError:
        raise SourceError("pyproject.toml is not UTF-8 text") from None
    if _PKG_INFO in paths:
        spec = with_pkg_info(spec, read(_PKG_INFO).decode(errors="replace"))
    for file, read_words in _SETUP.items():
        if file in paths:
            spec = with_setup_metadata(spec, read_words(read(file)))
    return spec


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
    needs = [_requirement(item) for item in requires]
    spec = ProjectSpec(name=_name(project), version=_version(project), requires=_without_torch(needs))
    return _with_torch(spec, (*needs, *_dependencies(project.get("dependencies"))))


def with_pkg_info(spec: ProjectSpec, text: str) -> ProjectSpec:
    """Return a project with what its sdist's PKG-INFO says beside pyproject.toml: name, version, and which torch.

    A local part is left out: which one a wheel gets, its cell says.

    :raises SourceError: what stands there is no name or no version.
    """
    from packaging.metadata import parse_email

    head = re.split(r"\r?\n\r?\n", text, maxsplit=1)[0]
    if len(head) > _LONGEST_HEADERS:
        head = head[:_LONGEST_HEADERS].rpartition("\n")[0]
    found, _ = parse_email(head)
    table: dict[str, Any] = {"name": found.get("name"), "version": found.get("version")}
    return _with_torch(_named(spec, table, _PKG_INFO), _dependencies(found.get("requires_dist")))


def with_setup_metadata(spec: ProjectSpec, words: SetupMetadata) -> ProjectSpec:
    """Return a project with what setup.py or setup.cfg says in plain words: name, version, needs, and which torch.

    What cannot be read there is left for the build to say.
    """
    needs = _dependencies(words.setup_requires)
    named = spec
    for key in ("name", "version"):
        with suppress(SourceError):
            named = _named(named, {key: getattr(words, key)}, "setup.py")
    named = replace(named, requires=tuple(dict.fromkeys((*spec.requires, *_without_torch(needs)))))
    return _with_torch(named, (*needs, *_dependencies(words.install_requires)))


def _named(spec: ProjectSpec, table: dict[str, Any], file: str) -> ProjectSpec:
    """Return a project with the name and version of a table, where it has none."""
    version = _version(table, file) if spec.version is None else None
    return replace(
        spec,
        name=spec.name or _name(table, file),
        version=Version(version).public if version else spec.version,
    )


def _without_torch(needs: Iterable[Requirement]) -> tuple[str, ...]:
    return tuple(str(need) for need in needs if canonicalize_name(need.name) != TORCH)


def _with_torch(spec: ProjectSpec, needs: Iterable[Requirement]) -> ProjectSpec:
    """Return a project that asks of torch's version what these do, too."""
    asked = [need.specifier for need in needs if canonicalize_name(need.name) == TORCH and not need.marker]
    clauses = {str(clause) for specifier in (SpecifierSet(spec.torch), *asked) for clause in specifier}
    return replace(spec, torch=",".join(sorted(clauses)))


def _dependencies(listed: object) -> list[Requirement]:
    """Return what is required at run time, as far as it can be read; the built wheel says it once more."""
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
        raise SourceError(f"{name} is no table", where=Place(file="pyproject.toml"))
    return table


def _text(table: dict[str, Any], name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None


def _version(project: dict[str, Any], file: str = "pyproject.toml") -> str | None:
    text = _text(project, "version")
    try:
        return str(Version(text if len(text) <= LONGEST_VERSION else "")) if text else None
    except ValueError:
        longest = f"of at most {LONGEST_VERSION} characters"
        raise SourceError(f"{text!r:.100} is not a version {longest}", where=Place(file=file)) from None


def _name(project: dict[str, Any], file: str = "pyproject.toml") -> str | None:
    text = _text(project, "name")
    try:
        if text is not None:
            canonicalize_name(text if len(text) <= _LONGEST_NAME else "", validate=True)
    except InvalidName:
        raise SourceError(f"{text!r:.100} is not a project's name", where=Place(file=file)) from None
    return text


def _requirement(item: object) -> Requirement:
    try:
        need = _parse(item)
    except InvalidRequirement:
        raise SourceError(f"{item!r:.100} is not a requirement", where=Place(file="pyproject.toml")) from None
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
