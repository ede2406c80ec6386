"""Import names, programs and project names that belong to well-known projects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from wheelsmith.base.files import read_facts

_VERSIONED = re.compile(r"(python|pip|pydoc|idle|gcc|g\+\+)[-\d.]+t?")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProjects:
    """Import names and programs that many environments have, with their owners.

    :param standard_library: import names of the standard library.
    :param modules: import name → the projects that install it.
    :param kernels: project on PyPI whose name a kernel on the Hub has or might have → its import name.
    :param namespaces: import name that several projects share → the prefixes of the projects' names.
    :param programs: program → the projects that install it; empty for a program of the operating system.
    """

    standard_library: frozenset[str]
    modules: dict[str, tuple[str, ...]]
    kernels: dict[str, str]
    namespaces: dict[str, tuple[str, ...]]
    programs: dict[str, tuple[str, ...]]

    def owners_of_program(self, name: str) -> tuple[str, ...] | None:
        """Return the projects that install a program, or None if it is unknown. ``pip3.12`` counts as ``pip``."""
        plain = _VERSIONED.fullmatch(name)
        return self.programs.get(name, self.programs.get(plain[1]) if plain else None)


def is_known_project(name: str) -> bool:
    """Return True if a normalized name belongs to a well-known project on PyPI."""
    known = known_projects()
    return name in known.kernels or any(name in owners for owners in known.modules.values())


@cache
def known_projects() -> KnownProjects:
    """Return the names that belong to well-known projects."""
    plain = read_facts(__package__, "projects.json")
    return KnownProjects(
        standard_library=frozenset(plain["standard_library"]),
        modules={name: tuple(owners) for name, owners in plain["modules"].items()},
        kernels=plain["kernels"],
        namespaces={name: tuple(prefixes) for name, prefixes in plain["namespaces"].items()},
        programs={name: tuple(owners) for name, owners in plain["programs"].items()},
    )
