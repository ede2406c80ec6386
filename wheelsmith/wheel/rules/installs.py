"""A wheel installs its own files, and no other project's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import WheelError
from wheelsmith.base.projects import KnownProjects, known_projects
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.install_layout import Installed, Scheme, installed_files, is_in_standard_library
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_LONGEST = 2**18  # bytes of top_level.txt
# What Python runs or reads whenever it starts (site, PEP 829), whoever imports what.
_AT_START = (".pth", ".start")
# Every environment that virtualenv or uv makes has a .pth that imports _virtualenv.
_CUSTOMIZE = ("sitecustomize", "usercustomize", "_virtualenv")
_INFOS = (".dist-info", ".egg-info", ".egg-link", ".egg")
_MOST_TOLD = 6
# What makes a program of a file, beside its name; on Windows all of them do.
_PROGRAMS = re.compile(r"(?:-script)?\.(?:exe|pyw?|bat|cmd|ps1)$", re.IGNORECASE)
# Files at the top of an environment, which are read without being asked for.
_SETTINGS = {
    "pyvenv.cfg": "says which Python an environment is",
    "pip.conf": "sets pip's options, its index among them",
    "pip.ini": "sets pip's options, its index among them",
}
# What Jupyter and IPython run when they start, for all who use the environment.
_STARTS = re.compile(r"etc/(?:jupyter/jupyter\w*_config|ipython/ipython\w*_config)\.(?:py|json)", re.IGNORECASE)
# https://packaging.python.org/en/latest/specifications/recording-installed-packages/
_INSTALLERS = {"direct_url.json", "requested"}


def _examine(wheel: Inspection) -> Iterator[Finding]:
    try:
        programs = [entry.name for entry in wheel.entry_points if entry.is_program]
    except WheelError as error:
        yield finding("installs", [error.message], "")
        return
    files = [*installed_files(wheel.files), *(Installed(scheme=Scheme.PROGRAMS, path=name) for name in programs)]
    known = known_projects()
    judge = _Judge(wheel.name.project, wheel.info, known, _spellings(wheel, known))
    wrong: dict[str, str] = dict(_said_to_be_installed(wheel, judge))
    for file in files:
        if (why := judge.mistake(file)) and not any(fnmatchcase(file.shown, item) for item in wheel.declared):
            wrong.setdefault(why, file.shown)
    wrong.update(_hidden(wheel))
    mistakes = [f"{why} ({path})" for why, path in wrong.items()]
    if mistakes:
        mistakes.append("whoever means it declares it: --declare PATH, or kernel.declare in matrix.yaml")
    yield finding("installs", mistakes, _summary(files, wheel.info))


def _spellings(wheel: Inspection, known: KnownProjects) -> dict[str, str]:
    """Return how names are spelt that other systems' file systems take for the same: Linux takes none.

    The standard library's lie elsewhere, and Python itself minds the case (PEP 235).
    """
    return {} if _is_for_linux(wheel) else {name.casefold(): name for name in (*known.modules, *known.namespaces)}


def _is_for_linux(wheel: Inspection) -> bool:
    return all("linux" in tag.platform for tag in wheel.name.tags)


def _hidden(wheel: Inspection) -> Iterator[tuple[str, str]]:
    """Find files that installers put where another one of the wheel is, or among what they write of it."""
    places: dict[tuple[Scheme, str], str] = {}
    folders: dict[tuple[Scheme, str], str] = {}
    place = str if _is_for_linux(wheel) else str.casefold
    for file, name in zip(installed_files(wheel.files), wheel.files, strict=True):
        if (other := places.setdefault((file.scheme, place(file.path)), name)) != name:
            yield "it installs two files at one place, and nobody knows which stays", f"{other}, {name}"
        folder = file.path.rpartition("/")[0]
        if (other := folders.setdefault((file.scheme, place(folder)), folder)) != folder:
            yield "where case is ignored, it installs two folders at one place", f"{other}, {folder}"
        if file.scheme is Scheme.LIBRARY and file.path.startswith(f"{wheel.info}/") and name != file.path:
            yield f"it installs into {wheel.info} what is not there in the wheel", name


def _said_to_be_installed(wheel: Inspection, judge: _Judge) -> Iterator[tuple[str, str]]:
    """Find import names in top_level.txt that are another project's, whether there are such files or not."""
    path = f"{wheel.info}/top_level.txt"
    if path not in wheel.archive.members:
        return
    if any(fnmatchcase(path, pattern) for pattern in wheel.declared):
        return
    for name in wheel.text(path, _LONGEST).decode("utf-8", "replace").split():
        if why := judge.foreign_module(name):
            yield f"top_level.txt says that {why}", path


class _Judge:
    """Say of each file whether it belongs to another project.

    :param spellings: name without its case → as its project spells it, where file systems take both for the same.
    """

    def __init__(self, project: str, info: str, known: KnownProjects, spellings: dict[str, str]) -> None:
        self._project = project
        self._info = info
        self._known = known
        self._spellings = spellings

    def mistake(self, file: Installed) -> str | None:
        """Return why a file is not the wheel's to install; None where it is."""
        if file.scheme is Scheme.LIBRARY:
            return self._library(file.path)
        if file.scheme is Scheme.PROGRAMS:
            return self._program(file.path)
        if file.scheme is Scheme.DATA and (what := _SETTINGS.get(file.path.lower())):
            return f"it installs {file.path}, which {what}"
        if file.scheme is Scheme.DATA and _STARTS.fullmatch(file.path):
            return f"it installs {file.path}, which runs whenever Jupyter or IPython starts"
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
        # A cache at the top is of the module that its name begins with.
        name = (rest if top == "__pycache__" else top).partition(".")[0]
        if name.lower() in _CUSTOMIZE:
            return f"it installs {name}, which runs whenever Python starts"
        if name in self._known.standard_library:
            return f"it installs {name}, a name of the standard library"
        return self.foreign_module(name)

    def foreign_module(self, name: str) -> str | None:
        """Return whose an import name is, and not this project's; None where it is this project's, or nobody's."""
        spelt = name if name in self._known.modules else self._spellings.get(name.casefold(), name)
        shown = f"{name}, where case is ignored {spelt}" if spelt != name else name
        name = spelt
        if prefixes := self._known.namespaces.get(name):
            owned = any(self._project == prefix or self._project.startswith(f"{prefix}-") for prefix in prefixes)
            shared = ", ".join(f"{prefix}-…" for prefix in prefixes)
            return None if owned else f"it installs into {shown}, which is for the projects {shared}"
        owners = self._known.modules.get(name)
        return f"it installs {shown}, which is {_or(owners)}'s" if owners and not self._owns(name, owners) else None

    def _program(self, path: str) -> str | None:
        if ".." in path.split("/") or path.startswith("/") or "\\" in path:
            return f"it installs the program {path[:100]!r}, which is a path and no name"
        name = path.rpartition("/")[2]
        if ending := _PROGRAMS.search(name):
            name = name[: ending.start()]
        name = name.casefold() if self._spellings else name
        owners = self._known.owners_of_program(name)
        if owners is None or self._owns(name, owners):
            return None
        return f"it installs the program {name}, which is {_or(owners) or 'the system'}'s"

    def _owns(self, name: str, owners: tuple[str, ...]) -> bool:
        return self._project in {*owners, canonicalize_name(name)}


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
    proves="nothing that it installs, or says that it installs, is another well-known project's, the standard "
    "library's or the system's: import names, their caches, programs, a second `.dist-info`; for any platform, not in "
    "another case either; and nothing runs whenever Python, Jupyter or IPython starts (`.pth`, `sitecustomize`, "
    "`_virtualenv`, `etc/jupyter/jupyter_config.py`), but what `--declare` names, or `kernel.declare` in matrix.yaml",
    leaves_open="names of projects that `base/projects.json` does not have; a wheel may install an import name that "
    "is not its own, as PyYAML installs `yaml`; what another program runs once it is asked to (kernels of Jupyter, "
    "`activate_this.py`); short names of Windows (`PROGRA~1`)",
    in_the_wild="setuptools 84.2.1: `distutils-precedence.pth`, which runs whenever Python starts (it is meant, and is "
    "declared by `--declare distutils-precedence.pth`)",
    examine=_examine,
)
