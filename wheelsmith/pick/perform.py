"""Write the command for one interpreter, and run it."""

from __future__ import annotations

import subprocess
from dataclasses import replace

from wheelsmith.errors import PackageIndexError
from wheelsmith.index import Installer, Template

_STDERR = 2  # the descriptor
_WITH_PYTHON = {Installer.PIP, Installer.UV}


def for_python(told: Template, installer: Installer, python: str) -> Template:
    """Say whose environment is meant: pip is called by its Python, uv is told of it."""
    if installer not in _WITH_PYTHON:
        return told
    return replace(told, lines=tuple(_for_python(line, python) for line in told.lines))


def perform(told: Template) -> None:
    """Run the commands one after the other. What they print goes to stderr: stdout has the command.

    :raises PackageIndexError: one of them failed.
    """
    for argv in told.lines:
        try:
            ended = subprocess.run(argv, stdout=_STDERR, check=False).returncode
        except OSError as error:
            raise PackageIndexError(f"{argv[0]} cannot be run: {error.strerror}") from None
        if ended:
            raise PackageIndexError(f"{' '.join(argv[:3])} ended with exit code {ended}; what it said is above")


def _for_python(line: tuple[str, ...], python: str) -> tuple[str, ...]:
    if line[0] == "pip":
        return (python, "-m", *line)
    return (*line[:3], "--python", python, *line[3:])
