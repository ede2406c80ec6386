"""What a wheel requires where it is installed."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.archive import Archive
from wheelsmith.wheel.archive.contents import info_folder
from wheelsmith.wheel.headers import LONGEST_TEXT, read_headers
from wheelsmith.wheel.marker_environments import environments, holds
from wheelsmith.wheel.requirements import read_requirements

_MOST = 500  # requirements; each is a word of a command line


def required_in(wheel: Path, python: str, arch: str) -> tuple[str, ...]:
    """Return the requirements of a wheel that hold for a Python of Linux, none of its extras asked for.

    :param python: ``major.minor``.
    :raises WheelError: they cannot be read, or had from an index.
    """
    with Archive(wheel) as archive:
        headers = read_headers(archive.read(f"{info_folder(archive)}/METADATA", LONGEST_TEXT))
    read = read_requirements(headers.get_all("requires-dist"))
    if wrong := (*headers.wrong, *read.wrong):
        raise WheelError(f"{wheel.name} cannot be installed: {wrong[0]}")
    tag = Tag(f"cp{python.replace('.', '')}", "none", f"linux_{arch}")
    environment = environments((tag,), SpecifierSet())[0]
    lines = [line for line in read.lines if holds(line, environment)]
    if named := [line.name for line in lines if line.url]:
        raise WheelError(f"{wheel.name} requires {named[0]} at an address, not from an index")
    if len(lines) > _MOST:
        raise WheelError(f"{wheel.name} requires more than {_MOST} projects")
    return tuple(dict.fromkeys(map(_without_marker, lines)))


def _without_marker(line: Requirement) -> str:
    plain = Requirement(str(line))
    plain.marker = None
    return str(plain)
