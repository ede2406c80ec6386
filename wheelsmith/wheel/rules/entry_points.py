"""What a wheel's programs call is there."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Sequence

from wheelsmith.base.errors import WheelError
from wheelsmith.base.projects import known_projects
from wheelsmith.base.units import counted
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.install_layout import EntryPoint, Scheme, installed_files
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

# https://packaging.python.org/en/latest/specifications/entry-points/, for programs: an object within a module.
_OBJECT = re.compile(r"(?P<module>\w+(?:\.\w+)*)\s*(?P<object>:\s*[^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*(?:\[[^\]]*\])?")
_LONGEST = 500  # characters
_SCRIPTS = ".data/scripts/"
# What pip takes a file of this name for, on every system: one that setuptools made of the entry point, to be left out.
_WRAPPER = re.compile(r"(?:\.exe|-script\.py|\.pya)$", re.IGNORECASE)
_PYTHON = re.compile(r"\.pyw?$", re.IGNORECASE)
_COMPILED = (".so", ".pyd")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    try:
        programs = [entry for entry in wheel.entry_points if entry.is_program]
    except WheelError:
        return  # `installs` says so
    if programs:
        modules = _Modules(wheel)
        wrong = [f"the program {one.name} {why}" for one in programs if (why := _mistake(one, modules))]
        wrong += _several(wheel, programs)
        yield finding("entry-points", wrong, f"{counted(len(programs), 'program')}, whose modules are there")


def _mistake(program: EntryPoint, modules: _Modules) -> str | None:
    if "/" in program.name:
        return "has a path for a name, which installers cannot write"
    if not program.name.isprintable():
        return "has a name that no terminal shows"
    found = _OBJECT.fullmatch(program.object) if len(program.object) <= _LONGEST else None
    if found is None or any(map(keyword.iskeyword, re.findall(r"\w+", found["module"] + found["object"]))):
        return f"calls {program.object[:60]!r}, which is no module:function: installers refuse it"
    return None if modules.may_have(found["module"]) else f"calls {found['module']}, which is nowhere"


def _several(wheel: Inspection, programs: Sequence[EntryPoint]) -> Iterator[str]:
    """Find programs that installers write over each other, or leave out for each other."""
    platforms = {tag.platform for tag in wheel.name.tags}
    files: dict[str, str] = {}
    for path, file in zip(wheel.files, installed_files(wheel.files), strict=True):
        if file.scheme is Scheme.PROGRAMS:
            name = _WRAPPER.sub("", file.path) if _SCRIPTS in path else file.path
            files.setdefault(_place(name, platforms), path)
    seen: dict[str, EntryPoint] = {}
    for program in programs:
        place = _place(program.name, platforms)
        if place in files:
            yield f"the program {program.name} is there twice: made of entry_points.txt, and as {files[place]}"
        if (other := seen.setdefault(place, program)) is not program:
            also = "" if other.name == program.name else f", also as {other.name}"
            yield f"the program {program.name} is twice in entry_points.txt{also}: one overwrites the other"


def _place(program: str, platforms: Iterable[str]) -> str:
    """Return where a program comes to lie: on Windows with .exe in place of .py, and only on Linux is case minded."""
    if any(platform == "any" or platform.startswith("win") for platform in platforms):
        program = _PYTHON.sub("", program)
    return program if all("linux" in platform for platform in platforms) else program.casefold()


class _Modules:
    """Which modules there are once a wheel is installed with what it requires."""

    def __init__(self, wheel: Inspection) -> None:
        self._wheel = wheel
        paths = [file.path for file in installed_files(wheel.files) if file.scheme is Scheme.LIBRARY]
        self._modules = {_stem(path) for path in paths if path.endswith((".py", ".pyc", *_COMPILED))}
        self._compiled = {_stem(path) for path in paths if path.endswith(_COMPILED)}
        self._folders = {path[: place.start()] for path in paths for place in re.finditer("/", path)}

    def may_have(self, module: str) -> bool:
        """Say whether a module is in the wheel, or may be in another project."""
        names = module.split(".")
        for depth in range(1, len(names) + 1):
            path = "/".join(names[:depth])
            if path in self._compiled:
                return True  # it may make modules of its own
            if path not in self._modules and path not in self._folders:
                return self._may_be_anothers("/".join(names[: depth - 1]), names[0])
        return True

    def _may_be_anothers(self, parent: str, top: str) -> bool:
        """Say whether what is lacking below a package may be in another project: not if the package is whole here."""
        if f"{parent}/__init__" in self._modules and not self._looks_elsewhere(f"{parent}/__init__.py"):
            return False
        return bool(self._wheel.requirements.lines) or (not parent and top in known_projects().standard_library)

    def _looks_elsewhere(self, path: str) -> bool:
        """Say whether a package looks for its modules in other folders, too (``pkgutil.extend_path``)."""
        return path not in self._wheel.archive.members or b"__path__" in self._wheel.text(path)


def _stem(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.partition('.')[0]}"


RULE = Rule(
    name="entry-points",
    proves="every program that installers make of `entry_points.txt` calls a function of a module which is in the "
    "wheel, in the standard library, or may be in a project that it requires; no other of its programs has that name, "
    "and a terminal shows it",
    leaves_open="whether the module has the function, and whether another project has the module; entry points that "
    "are no programs, which other projects read: torch loads those of `torch.backends` whenever it is imported",
    examine=_examine,
)
