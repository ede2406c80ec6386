"""Facts about known projects: kernel dependencies, and build settings that a project's metadata lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from packaging.utils import canonicalize_name

from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedSettings(Record):
    """Settings in matrix.yaml that a project needs.

    :param env: environment variables, with placeholders.
    :param why: the reason for the variables, or for the backends if there are no variables.
    :param before_build: a command that fixes the source, so that it compiles or follows the matrix's settings.
    :param needs_before_build: the build fails without the command.
    :param cxx_standard: the value of ``cxx-standard``, or None for the default.
    :param cuda_env: environment variables of the cells with CUDA.
    :param cuda_why: the reason for these.
    """

    env: dict[str, str]
    build_requires: tuple[str, ...]
    why: str
    before_build: str | None
    needs_before_build: bool
    before_build_why: str | None
    cxx_standard: str | None = None
    cuda_env: dict[str, str] = field(default_factory=dict)
    cuda_why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectHint(SuggestedSettings):
    """The settings of a known project.

    :param backends: the backends that it supports: ``cpu``, ``cuda``.
    """

    name: str
    backends: tuple[str, ...]
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency(Record):
    """A name in build.toml's ``python-depends``, with the wheel's requirement.

    :param backend: None for every backend.
    """

    name: str
    backend: str | None
    requires: str
    source: str
    date: str


@cache
def dependencies() -> tuple[Dependency, ...]:
    """Return the allowed names of build.toml's ``python-depends``."""
    return tuple(Dependency.from_json(item) for item in read_facts(__package__, "dependencies.json")["dependencies"])


@cache
def project_hints() -> dict[str, ProjectHint]:
    """Return the hints by normalized project name."""
    found = (ProjectHint.from_json(item) for item in read_facts(__package__, "project_hints.json")["projects"])
    return {canonicalize_name(project.name): project for project in found}


def hint_for(name: str | None) -> ProjectHint | None:
    """Return the hint for a project, or None."""
    return project_hints().get(canonicalize_name(name)) if name else None
