"""A wheel installs its own files, and no other project's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from packaging.utils import canonicalize_name

from wheelsmith.base.projects import known_projects
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.install_layout import Installed, Scheme, installed
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_SHOWN = 6  # files
_INFO = re.compile(r"\.(?:dist-info|egg-info|egg-link)$")
_REMEDY = "declare files that are meant: --declare PATH, or kernel.declare in matrix.yaml"


def _examine(wheel: Inspection) -> Iterator[Finding]:
    programs = [Installed(scheme=Scheme.PROGRAMS, path=entry.name) for entry in wheel.programs]
    files = list(map(installed, wheel.files))
    own = _own_names(wheel, files)
    wrong: dict[str, str] = {}
    outside: list[str] = []
    for file in [*files, *programs]:
        if any(fnmatchcase(file.shown, pattern) for pattern in wheel.declared):
            continue
        if owner := _other_owner(file, wheel):
            wrong.setdefault(owner, f"it installs {file.shown[:100]}, which is {owner}'s")
        elif file not in programs and not (file.scheme is Scheme.LIBRARY and _name(file.path) in own):
            outside.append(file.shown)
    listed = ", ".join(outside[:_SHOWN]) + (f" and {len(outside) - _SHOWN} more" if len(outside) > _SHOWN else "")
    mistakes = list(wrong.values())
    if outside and wheel.expected:
        mistakes.append(f"it installs {listed}, outside of its import packages")
    note = f"; outside of its import packages: {listed}" if outside else ""
    summary = f"it installs {', '.join(sorted(own - {wheel.info})[:_SHOWN]) or 'no package'}{note}"
    yield finding("installs", [*mistakes, _REMEDY] if mistakes else [], summary)


def _own_names(wheel: Inspection, files: list[Installed]) -> frozenset[str]:
    """Return the names in site-packages that are the wheel's: import names, its metadata and bundled libraries.

    A kernel's import package is planned. A project brings those that it likes.
    """
    names = {_name(file.path) for file in files if file.scheme is Scheme.LIBRARY}
    packages = {name for name in names if name.isidentifier()}
    if wheel.expected and wheel.expected.metadata is not None:
        packages = {wheel.expected.module}
    return frozenset({*packages, wheel.info, f"{wheel.info.partition('-')[0]}.libs"} & names)


def _name(path: str) -> str:
    """Return the name of a module or of a folder in site-packages; other files are named with their suffix."""
    top, _, rest = path.partition("/")
    return top.partition(".")[0] if not rest and path.endswith((".py", ".pyc", ".so", ".pyd")) else top


def _other_owner(file: Installed, wheel: Inspection) -> str | None:
    """Return the other well-known project that a file belongs to, or None."""
    known, project = known_projects(), wheel.name.project
    name = _name(file.path)
    owners: tuple[str, ...] = ()
    if file.scheme is Scheme.PROGRAMS:
        programs = known.owners_of_program(file.path)
        owners = programs or (() if programs is None else ("the system",))
    elif file.scheme is not Scheme.LIBRARY or name == wheel.info:
        return None
    elif _INFO.search(name):
        return f"the project {_INFO.sub('', name)}"
    elif name in known.standard_library:
        return "the standard library"
    elif prefixes := known.namespaces.get(name):
        shared = any(project == prefix or project.startswith(f"{prefix}-") for prefix in prefixes)
        return None if shared else " or ".join(f"{prefix}-…" for prefix in prefixes)
    else:
        owners = known.modules.get(name, ())
    return " or ".join(owners[:3]) if owners and project not in {*owners, canonicalize_name(name)} else None


RULE = Rule(
    name="installs",
    proves="no file or program belongs to another well-known project or to the standard library. A wheel that "
    "wheelsmith built installs only its import packages, its `.dist-info` folder and what `kernel.declare` in "
    "matrix.yaml names; a kernel has one package. In other wheels such files, as a `.pth`, are a note",
    leaves_open="names of projects that `base/projects.json` does not have; a project may have an import package with "
    "another name, as PyYAML has `yaml`",
    in_the_wild="setuptools 84.2.1: `distutils-precedence.pth`, which runs whenever Python starts (a note)",
    examine=_examine,
)
