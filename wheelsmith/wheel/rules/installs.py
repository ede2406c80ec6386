"""A wheel installs its own files, and no other project's."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from packaging.utils import canonicalize_name

from wheelsmith.errors import WheelError
from wheelsmith.facts import KnownProjects, known_projects
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.installed import Installed, Scheme, entry_point_programs, installed_files, is_in_standard_library
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_LONGEST = 2**18  # bytes of entry_points.txt
# What Python runs or reads whenever it starts (site, PEP 829), whoever imports what.
_AT_START = (".pth", ".start")
_CUSTOMIZE = ("sitecustomize", "usercustomize")
_INFOS = (".dist-info", ".egg-info", ".egg-link", ".egg")
_MOST_TOLD = 6
# Files at the top of an environment, which are read without being asked for.
_SETTINGS = {
    "pyvenv.cfg": "says which Python an environment is",
    "pip.conf": "sets pip's options, its index among them",
    "pip.ini": "sets pip's options, its index among them",
}
# https://packaging.python.org/en/latest/specifications/recording-installed-packages/
_INSTALLERS = {"direct_url.json", "requested"}


def _examine(wheel: Inspection) -> Iterator[Finding]:
    try:
        programs = _entry_points(wheel)
    except (WheelError, ValueError) as error:
        yield finding("installs", [f"entry_points.txt cannot be read: {str(error)[:200]}"], "")
        return
    files = [*installed_files(wheel.files), *(Installed(scheme=Scheme.PROGRAMS, path=name) for name in programs)]
    judge = _Judge(wheel.name.project, wheel.info, known_projects())
    wrong: dict[str, str] = {}
    for file in files:
        if (why := judge.mistake(file)) and not any(fnmatchcase(file.told, item) for item in wheel.declared):
            wrong.setdefault(why, file.told)
    told = [f"{why} ({path})" for why, path in wrong.items()]
    if told:
        told.append("whoever means it declares it: --declare PATH, or kernel.declare in matrix.yaml")
    yield finding("installs", told, _summary(files, wheel.info))


class _Judge:
    """Say of each file whether it belongs to another project."""

    def __init__(self, project: str, info: str, known: KnownProjects) -> None:
        self._project = project
        self._info = info
        self._known = known

    def mistake(self, file: Installed) -> str | None:
        """Return why a file is not the wheel's to install; None where it is."""
        if file.scheme is Scheme.LIBRARY:
            return self._library(file.path)
        if file.scheme is Scheme.PROGRAMS:
            return self._program(file.path)
        if file.scheme is Scheme.DATA and (what := _SETTINGS.get(file.path.lower())):
            return f"it installs {file.path}, which {what}"
        if file.scheme is Scheme.DATA and is_in_standard_library(file.path):
            return f"it installs {file.path[:100]}, among the standard library"
        return None

    def _library(self, path: str) -> str | None:
        top, _, rest = path.partition("/")
        low = top.lower()
        if top == self._info:
            return f"it holds {rest}, which installers write" if rest.lower() in _INSTALLERS else None
        if low.endswith(_INFOS):
            return f"it installs {top}: installers take that for another project"
        if not rest and low.endswith(_AT_START):
            return f"it installs {top}, which runs whenever Python starts"
        name = top.partition(".")[0]
        if name.lower() in _CUSTOMIZE:
            return f"it installs {name}, which runs whenever Python starts"
        if name in self._known.standard_library:
            return f"it installs {name}, a name of the standard library"
        if prefixes := self._known.namespaces.get(name):
            owned = any(self._project == prefix or self._project.startswith(f"{prefix}-") for prefix in prefixes)
            shared = ", ".join(f"{prefix}-…" for prefix in prefixes)
            return None if owned else f"it installs into {name}, which is for the projects {shared}"
        owners = self._known.modules.get(name)
        return f"it installs {name}, which is {_or(owners)}'s" if owners and not self._owns(name, owners) else None

    def _program(self, path: str) -> str | None:
        if ".." in path.split("/") or path.startswith("/") or "\\" in path:
            return f"it installs the program {path[:100]!r}, which is a path and no name"
        name = path.rpartition("/")[2].removesuffix(".exe").removesuffix(".py")
        owners = self._known.owners_of_program(name)
        if owners is None or self._owns(name, owners):
            return None
        return f"it installs the program {name}, which is {_or(owners) or 'the system'}'s"

    def _owns(self, name: str, owners: tuple[str, ...]) -> bool:
        return self._project in {*owners, canonicalize_name(name)}


def _entry_points(wheel: Inspection) -> list[str]:
    name = f"{wheel.info}/entry_points.txt"
    return entry_point_programs(wheel.text(name, _LONGEST).decode("utf-8")) if name in wheel.archive.members else []


def _or(names: tuple[str, ...] | None) -> str:
    return " or ".join((names or ())[:3])


def _summary(files: list[Installed], info: str) -> str:
    tops = {file.path.partition("/")[0] for file in files if file.scheme is Scheme.LIBRARY} - {info}
    programs = {f"bin/{file.path}" for file in files if file.scheme is Scheme.PROGRAMS}
    names = [*sorted(tops), *sorted(programs)]
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return f"it installs {', '.join(names[:_MOST_TOLD]) or 'nothing'}{more}"


RULE = Rule(
    name="installs",
    proves="nothing that it installs is another well-known project's, the standard library's or the system's: import "
    "names, programs, a second `.dist-info`; and nothing runs whenever Python starts (`.pth`, `sitecustomize`), but "
    "what `--declare` names, or `kernel.declare` in matrix.yaml",
    leaves_open="names of projects that `facts/projects.json` does not have; a wheel may install an import name that "
    "is not its own, as PyYAML installs `yaml`",
    in_the_wild="setuptools 84.2.1: `distutils-precedence.pth`, which runs whenever Python starts (it is meant, and is "
    "declared by `--declare distutils-precedence.pth`)",
    examine=_examine,
)
