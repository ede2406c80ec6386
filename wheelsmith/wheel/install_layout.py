"""Where an installer puts the files of a wheel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

_SITE = re.compile(r"(?:Lib|lib(?:64)?/(?:python|pypy)[^/]+)/(?:site|dist)-packages/(.+)", re.IGNORECASE)
_PYTHONS = re.compile(
    # `Lib` is Windows' own: `lib` is where everybody's libraries and their CMake files are.
    r"(?i:lib(?:64)?/(?:python|pypy)[^/]+/.+|lib(?:64)?/libpython[^/]*|include/python[^/]*/.+)|Lib/.+"
)
_PROGRAM = re.compile(r"(?:bin|Scripts)/([^/]+)", re.IGNORECASE)
_SCRIPT_GROUPS = ("console_scripts", "gui_scripts")


class Scheme(StrEnum):
    """A folder of an environment that wheels install into (``sysconfig.get_paths``)."""

    LIBRARY = "site-packages"
    PROGRAMS = "bin"
    HEADERS = "include"
    DATA = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One file as it is installed.

    :param path: below the scheme's folder.
    """

    scheme: Scheme
    path: str

    @property
    def shown(self) -> str:
        """Return the path as people read and declare it: that in site-packages as it is, others with their folder."""
        return self.path if self.scheme is Scheme.LIBRARY else f"{self.scheme}/{self.path}"


def installed_files(files: Iterable[str]) -> Iterator[Installed]:
    """Yield where each file of a wheel comes to lie; one of ``.data`` where that says."""
    for name in files:
        top, _, rest = name.partition("/")
        scheme, _, path = rest.partition("/")
        if not top.lower().endswith(".data") or not path:
            yield Installed(scheme=Scheme.LIBRARY, path=name)
        elif scheme in {"purelib", "platlib"}:
            yield Installed(scheme=Scheme.LIBRARY, path=path)
        elif scheme == "scripts":
            yield Installed(scheme=Scheme.PROGRAMS, path=path)
        elif scheme == "headers":
            yield Installed(scheme=Scheme.HEADERS, path=path)
        else:
            yield _data(path)


def _data(path: str) -> Installed:
    """Return what a path below an environment's own folder is: its site-packages and programs lie there too."""
    if library := _SITE.fullmatch(path):
        return Installed(scheme=Scheme.LIBRARY, path=library[1])
    if program := _PROGRAM.fullmatch(path):
        return Installed(scheme=Scheme.PROGRAMS, path=program[1])
    return Installed(scheme=Scheme.DATA, path=path)


def is_in_standard_library(path: str) -> bool:
    """Say whether a file of an environment's own folder is Python's: its ``stdlib``, its headers, its library."""
    return _PYTHONS.fullmatch(path) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """One line of ``entry_points.txt``.

    :param object: what it names, as ``package.module:function``.
    """

    group: str
    name: str
    object: str

    @property
    def is_program(self) -> bool:
        """Say whether an installer makes a program of it."""
        return self.group in _SCRIPT_GROUPS


def read_entry_points(text: str) -> tuple[EntryPoint, ...]:
    """Return what ``entry_points.txt`` says, read as importlib.metadata reads it.

    :raises ValueError: a line is no ``name = object``: pip reads INI files, where a colon does, and others refuse it.
    """
    found = []
    group = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif not line.startswith(("#", ";")):
            name, equals, value = line.partition("=")
            if not equals or (group in _SCRIPT_GROUPS and ":" in name):
                raise ValueError(f"{line[:60]!r} is not name = object")
            found.append(EntryPoint(group=group, name=name.strip(), object=value.strip()))
    return tuple(found)
