"""Known projects: which a kernel may depend on, and what the builds of some need that their metadata does not say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from packaging.utils import canonicalize_name

from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectHint(Record):
    """What matrix.yaml says for one project.

    :param env: variables, with placeholders.
    :param backends: what it can be built for: ``cpu``, ``cuda``.
    :param why: the variables; where there are none, the backends.
    :param before_build: what makes it obey the matrix in something else, or compile at all.
    :param needs_before_build: without it there is no wheel.
    """

    name: str
    env: dict[str, str]
    build_requires: tuple[str, ...]
    backends: tuple[str, ...]
    why: str
    before_build: str | None
    needs_before_build: bool
    before_build_why: str | None
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency(Record):
    """A name that build.toml's ``python-depends`` may use, and what the wheel then requires.

    :param backend: None if it holds for every backend.
    """

    name: str
    backend: str | None
    requires: str
    source: str
    date: str


@cache
def dependencies() -> tuple[Dependency, ...]:
    """Return the names that build.toml's ``python-depends`` may use."""
    return tuple(Dependency.from_json(item) for item in read_facts(__package__, "dependencies.json")["dependencies"])


@cache
def project_hints() -> dict[str, ProjectHint]:
    """Return them by their normalized names."""
    found = (ProjectHint.from_json(item) for item in read_facts(__package__, "project_hints.json")["projects"])
    return {canonicalize_name(project.name): project for project in found}


def hint_for(name: str | None) -> ProjectHint | None:
    """Return what is known of a project; None of most."""
    return project_hints().get(canonicalize_name(name)) if name else None
