"""What build.toml's ``python-depends`` may name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency(Record):
    """A name that build.toml's ``python-depends`` may use → what the wheel requires.

    :param backend: None when it holds for every backend.
    """

    name: str
    backend: str | None
    requires: str
    source: str
    date: str


@cache
def dependencies() -> tuple[Dependency, ...]:
    """Return what build.toml's ``python-depends`` may name."""
    return tuple(Dependency.from_json(item) for item in read_facts(__package__, "dependencies.json")["dependencies"])
