"""The programs of a wheel call modules that are there."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

from wheelsmith.base.projects import known_projects
from wheelsmith.base.units import counted
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.install_layout import Scheme, installed
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if wheel.programs:
        paths = [file.path for file in map(installed, wheel.files) if file.scheme is Scheme.LIBRARY]
        wrong = [
            f"the program {entry.name} {why}" for entry in wheel.programs if (why := _mistake(entry, wheel, paths))
        ]
        yield finding("entry-points", wrong, f"{counted(len(wheel.programs), 'program')}, whose modules are there")


def _mistake(program: EntryPoint, wheel: Inspection, paths: list[str]) -> str | None:
    called = EntryPoint.pattern.fullmatch(program.value)
    if "/" in program.name:
        return "has a path for a name, which installers cannot write"
    if called is None or not called["attr"]:
        return f"calls {program.value[:60]!r}, which is no module:function"
    path, top = called["module"].replace(".", "/"), called["module"].partition(".")[0]
    if any(each.startswith((f"{path}.", f"{path}/")) for each in paths):
        return None
    # Compiled code may make modules, and a package without __init__.py may have modules of other projects.
    parents = tuple(f"{path.rsplit('/', depth)[0]}." for depth in range(1, path.count("/") + 1))
    if any(each.startswith(parents) and each.endswith(".so") for each in paths):
        return None
    elsewhere = wheel.requirements.lines or top in known_projects().standard_library
    return None if elsewhere and f"{top}/__init__.py" not in paths else f"calls {called['module']}, which is nowhere"


RULE = Rule(
    name="entry-points",
    proves="every program of `entry_points.txt` calls a function of a module that is in the wheel or in the standard "
    "library, or that may be in a project which the wheel requires",
    leaves_open="whether the module has the function, and whether another project has the module; entry points that "
    "are no programs",
    examine=_examine,
)
