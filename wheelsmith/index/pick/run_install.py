"""Write the command for one interpreter, and run it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace

from wheelsmith.base.errors import MachineError, PackageIndexError
from wheelsmith.index.pick.machine import Machine
from wheelsmith.index.resolve.install_commands import Installer, Template

_STDERR = 2  # the descriptor
_GET_UV = "install uv as https://docs.astral.sh/uv/ says"
_WITH_PYTHON = {Installer.PIP, Installer.UV}


def for_python(commands: Template, installer: Installer, machine: Machine) -> Template:
    """Say whose environment is meant: pip is called by its Python, and got first where there is none; uv is told of it.

    :raises MachineError: the machine has no such installer, nor a way to it that needs no other.
    """
    if installer not in _WITH_PYTHON:
        return commands
    lines = tuple(_for_python(line, machine.python) for line in commands.lines)
    if installer is Installer.UV and shutil.which("uv") is None:
        raise MachineError("there is no uv here", remedy=f"--installer pip, or {_GET_UV}")
    if installer is Installer.PIP and not machine.pip:
        if not machine.ensurepip:
            remedy = f"apt-get install python3-pip python3-venv, or {_GET_UV}, then --installer uv"
            raise MachineError(f"{machine.python} has no pip, and nothing to get it from", remedy=remedy)
        lines = ((machine.python, "-m", "ensurepip"), *lines)
    return replace(commands, lines=lines)


def perform(commands: Template) -> None:
    """Run the commands one after the other. What they print goes to stderr: stdout has the command.

    :raises PackageIndexError: one of them failed.
    """
    # Python would otherwise import from the folder that it is started in, a stranger's pip.py among it.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    for argv in commands.lines:
        try:
            ended = subprocess.run(argv, stdout=_STDERR, check=False, env=environment).returncode
        except OSError as error:
            raise PackageIndexError(f"{argv[0]} cannot be run: {error.strerror}") from None
        if ended:
            raise PackageIndexError(f"{' '.join(argv[:3])} ended with exit code {ended}; what it said is above")


def _for_python(line: tuple[str, ...], python: str) -> tuple[str, ...]:
    if line[0] == "pip":
        return (python, "-m", *line)
    return (*line[:3], "--python", python, *line[3:])
