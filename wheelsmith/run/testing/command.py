"""Run a test command in a virtual environment, several times if it fails."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from importlib.resources import files
from pathlib import Path
from threading import Event

from packaging.version import Version

from wheelsmith.base.errors import MachineError, WheelTestError
from wheelsmith.base.units import show_binary_size
from wheelsmith.engine import last_line
from wheelsmith.engine.process_tree import ProcessTree
from wheelsmith.engine.processes import SupervisedProcess
from wheelsmith.engine.protocol import Exit, ExitReason, Limits
from wheelsmith.index.entries.entry import WheelOutcome, WheelTest
from wheelsmith.index.pick.machine import Machine
from wheelsmith.model.wheel_name import same_version

NO_RESULT = "no result is recorded; test again with more memory, disk space or time"
_VENV_TIMEOUT = 300.0  # seconds to create a virtual environment on a slow disk
_MAX_OUTPUT = 16 << 20  # bytes that a command may print
_MAX_PROCESSES = 1 << 20  # including threads: a library may start some for each core
_MAX_DESCRIPTION = 300  # characters
# Exit codes for SIGKILL and SIGTERM, which mean that memory ran out or that a CI job was stopped. A crash has other
# signals. A shell adds 128 to the signal of a command that it ran.
_KILL_CODES = {-9, -15, 137, 143}
# Variables that stay set: of the user and the machine, of its network, and pip's indexes. Others could make pip install
# different packages from those that users get, or decide how a test ends, as PYTHONOPTIMIZE and PYTEST_ADDOPTS do.
_KEPT = re.compile(
    r"HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|(CUDA|NVIDIA|HIP|ROCR)_VISIBLE_DEVICES|CUDA_DEVICE_ORDER"
    r"|(HTTPS?|ALL|NO|https?|all|no)_(PROXY|proxy)|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE|NETRC"
    r"|PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|KEYRING_PROVIDER|CONFIG_FILE"
    r"|CACHE_DIR)"
)


def make_environment(python: str, folder: Path) -> None:
    """Create an empty virtual environment, without pip.

    :param python: the interpreter to create it with.
    :raises MachineError: it cannot be created.
    """
    # -I: the current folder may be untrusted and contain a venv.py.
    argv = (python, "-I", "-m", "venv", "--without-pip", str(folder))
    try:
        made = subprocess.run(argv, capture_output=True, text=True, timeout=_VENV_TIMEOUT, check=False)
        reason = last_line(made.stderr) if made.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    if reason is not None:
        raise MachineError(
            f"{python} cannot create a virtual environment: {reason}", remedy="choose another Python: --python PATH"
        )


def site_packages(environment: Path) -> list[Path]:
    """Return the folders with the packages of a virtual environment."""
    return sorted(environment.glob("lib*/python*/site-packages"))


def has_installed(environment: Path, project: str, version: Version) -> bool:
    """Return True if an environment has a version of a project."""
    found = distributions(name=project, path=[str(folder) for folder in site_packages(environment)])
    return any(same_version(each.version, version) for each in found)


def prefer_installed(environment: Path, project: str) -> None:
    """Make an environment import the modules of an installed project, even if a test adds a source folder to the path.

    Call it after the project was installed.
    """
    packages, *_ = site_packages(environment)  # lib64 may be a link to lib
    found = (file for each in distributions(name=project, path=[str(packages)]) for file in each.files or ())
    names = {file.parts[0].partition(".")[0] for file in found if not file.parts[0].endswith((".dist-info", ".data"))}
    module = packages / "_wheelsmith_installed_imports.py"
    source = files(__package__).joinpath("installed_imports.py").read_text(encoding="utf-8")
    module.write_text(source, encoding="utf-8")
    module.with_suffix(".json").write_text(json.dumps(sorted(names - {"", "__pycache__"})), encoding="utf-8")
    module.with_suffix(".pth").write_text(f"import {module.stem}\n", encoding="utf-8")


def activated_variables(environment: Path) -> dict[str, str]:
    """Return the variables of an activated environment. Of this process it has only those that decide no test."""
    kept = {name: text for name, text in os.environ.items() if _KEPT.fullmatch(name)}
    path = os.pathsep.join((str(environment / "bin"), os.environ.get("PATH", os.defpath)))
    # Without PYTHONSAFEPATH, Python would import the source in the current folder instead of the wheel.
    return {**kept, "PATH": path, "VIRTUAL_ENV": str(environment), "PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"}


def run_command(
    argv: Sequence[str],
    variables: Mapping[str, str],
    folder: Path,
    *,
    seconds: float,
    say: Callable[[str], None],
    cancel: Event,
) -> Exit:
    """Run a command, and kill what it leaves running.

    :param seconds: its time limit.
    :param say: receives each line of output, made safe for a terminal.
    :raises MachineError: it cannot be run or was killed, which says nothing about a wheel.
    :raises KeyboardInterrupt: it was cancelled.
    """
    limits = Limits(seconds=seconds, output=_MAX_OUTPUT, pids=_MAX_PROCESSES)
    group = ProcessTree(limits=limits)
    process = SupervisedProcess(argv=argv, env=dict(variables), cwd=str(folder), limits=limits, folders=(), group=group)
    try:
        ended = process.run(say, cancel)
    except OSError as error:
        why = f"{argv[0]} cannot be run: {error.strerror}"
        raise MachineError(why, remedy="use a program that is installed here") from None
    if ended.reason is ExitReason.CANCELLED:
        raise KeyboardInterrupt
    killed = ended.reason in {ExitReason.EXITED, ExitReason.KILLED} and ended.code in _KILL_CODES
    if killed or ended.reason in {ExitReason.OUT_OF_MEMORY, ExitReason.DISK_FULL}:
        raise MachineError(f"{argv[0]} was stopped: {describe_exit(ended)}", remedy=NO_RESULT)
    return ended


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedCommand:
    """A test command.

    :param argv: the command; its program is searched for on the PATH of its variables.
    :param attempts: maximum number of runs until it passes.
    :param seconds: time limit of one attempt.
    :param cancel: stops it once it is set.
    """

    argv: tuple[str, ...]
    attempts: int
    seconds: float
    cancel: Event

    def run(self, variables: Mapping[str, str], say: Callable[[str], None]) -> WheelOutcome:
        """Run it in the current folder until it passes.

        :raises MachineError: see ``run_command``.
        """
        for attempt in range(1, self.attempts + 1):
            ended = run_command(self.argv, variables, Path(), seconds=self.seconds, say=say, cancel=self.cancel)
            if ended.ok and attempt == 1:
                return WheelOutcome.PASSED
            say(f"attempt {attempt} of {self.attempts}: {'passed' if ended.ok else describe_exit(ended)}")
            if ended.ok:
                return WheelOutcome.FLAKY
        return WheelOutcome.FAILED


def describe_exit(ended: Exit) -> str:
    """Return the exit code, or why a command was stopped."""
    match ended.reason:
        case ExitReason.TIMEOUT:
            return "it exceeded the time limit (--timeout)"
        case ExitReason.TOO_MUCH_OUTPUT:
            return f"it printed more than {show_binary_size(_MAX_OUTPUT)}"
        case ExitReason.KILLED if ended.code < 0:
            return f"killed by {signal.Signals(-ended.code).name}"
    return f"exit code {ended.code}" if ended.code > 0 else str(ended.reason)


def machine_label(machine: Machine) -> str:
    """Describe a machine in one line."""
    names = [f"{gpu.name} ({gpu.capability})" for gpu in machine.gpus]
    gpus = [f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    parts = (machine.driver_text, machine.arch, f"glibc {machine.glibc}", f"Python {machine.minor}")
    words = ", ".join([*(gpus or ["no GPU"]), *parts])
    shown = "".join(letter if letter.isprintable() else " " for letter in words)
    return " ".join(shown.split())[:_MAX_DESCRIPTION].rstrip()


def check_description(where: str, details: str | None) -> None:
    """Reject texts that a page cannot show.

    :raises WheelTestError: a text is invalid.
    """
    try:
        WheelTest(outcome=WheelOutcome.PASSED, where=where, details=details)
    except ValueError as error:
        raise WheelTestError(
            f"the description of the test is invalid: {error}", remedy="change --on or --details"
        ) from None
