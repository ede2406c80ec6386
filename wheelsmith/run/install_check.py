"""Test an index's wheel for this machine in a fresh environment."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from threading import Event

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import MachineError, PackageIndexError, ReleaseError, WheelTestError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import read_json
from wheelsmith.engine import last_line
from wheelsmith.engine.process_tree import ProcessTree
from wheelsmith.engine.processes import SupervisedProcess
from wheelsmith.engine.protocol import Exit, ExitReason, Limits
from wheelsmith.index.entries.catalogue import Catalogue
from wheelsmith.index.entries.entry import IndexEntry, WheelOutcome, WheelTest
from wheelsmith.index.pick.machine import Machine
from wheelsmith.index.publish.record_tests import RecordedTest
from wheelsmith.index.resolve.install_commands import Template, join_url
from wheelsmith.index.resolve.target import Target
from wheelsmith.model.wheel_name import same_version
from wheelsmith.run.release import read_built_versions

_VENV_TIMEOUT = 300.0  # seconds to create a virtual environment on a slow disk
_PIP_TIMEOUT = 3600.0  # seconds to fetch and install torch over a slow connection
_MAX_OUTPUT = 16 << 20  # bytes that a command may print
_MAX_PROCESSES = 1 << 20  # including threads: a library may start some for each core
_MAX_DESCRIPTION = 300  # characters
_NO_RESULT = "no result is recorded; test again with more memory, disk space or time"
_DOCTOR = "check that all pages of the index agree: wheelsmith index doctor URL"
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


@contextmanager
def fresh_environment(python: str) -> Iterator[Path]:
    """Create an empty virtual environment in a temporary folder.

    :param python: the interpreter to create it with.
    :raises MachineError: it cannot be created.
    """
    with tempfile.TemporaryDirectory(prefix="wheelsmith-test-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch, "environment")
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
        yield folder


def only_built_wheels(catalogue: Catalogue, out: Path) -> Catalogue:
    """Return a catalogue with only the wheels that a run or join built.

    :param out: the output folder of the run or join.
    :raises ReleaseError: the folder has another project, or the index has none of its wheels.
    """
    versions = {version.state.project: version for version in read_built_versions(out)}
    if catalogue.project not in versions:
        remedy = f"test one of its projects: wheelsmith test {next(iter(versions))}"
        raise ReleaseError(f"{out} has wheels of {', '.join(versions)}", remedy=remedy)
    built = {(entry.filename, entry.sha256) for entry in versions[catalogue.project].entries}
    wheels = tuple(wheel for wheel in catalogue.wheels if (wheel.filename, wheel.sha256) in built)
    if not wheels:
        raise ReleaseError(
            f"the index lists no wheel from {out}", remedy="publish the wheels first; if the index is cached, wait"
        )
    return replace(catalogue, wheels=wheels)


def describe_machine(machine: Machine) -> str:
    """Describe a machine in one line."""
    names = [f"{gpu.name} ({gpu.capability})" for gpu in machine.gpus]
    gpus = [f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    driver = f"driver for CUDA {machine.driver}" if machine.driver else "no NVIDIA driver"
    python = ".".join(machine.python_version.split(".")[:2]) + ("t" if machine.free_threaded else "")
    words = ", ".join([*(gpus or ["no GPU"]), driver, machine.arch, f"glibc {machine.glibc}", f"Python {python}"])
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTester:
    """Installs a wheel in a fresh environment and runs a command there.

    :param environment: the fresh environment.
    :param base: the index's address, with a trailing slash.
    :param command: the command; its program is searched for in the environment's ``bin`` first.
    :param attempts: maximum number of runs until the command passes.
    :param seconds: time limit of one attempt.
    :param say: receives each line of output, made safe for a terminal.
    :param cancel: stops the test once it is set.
    """

    environment: Path
    base: str
    command: tuple[str, ...]
    attempts: int
    seconds: float
    say: Callable[[str], None]
    cancel: Event

    def test(self, wheel: IndexEntry, install: Template) -> WheelOutcome:
        """Install the chosen wheel and run the command.

        :param install: pick's install command for the environment.
        :raises PackageIndexError: pip installed another wheel.
        :raises MachineError: the wheel cannot be installed here, or the command cannot be run or was killed.
        :raises KeyboardInterrupt: the test was cancelled.
        """
        self._install(wheel, install)
        for attempt in range(1, self.attempts + 1):
            ended = self._run(self.command, activated_variables(self.environment), Path(), self.seconds)
            if ended.ok:
                return WheelOutcome.PASSED if attempt == 1 else WheelOutcome.FLAKY
            self.say(f"attempt {attempt} of {self.attempts}: {_describe_exit(ended)}")
        return WheelOutcome.FAILED

    def _install(self, wheel: IndexEntry, install: Template) -> None:
        """Install the wheel and its requirements, and verify that the environment has this wheel.

        A failure of pip is not a failure of the wheel: the cause may be a server, a disk or a proxy.
        """
        name = _project_name(wheel)
        report = self.environment.with_name("pip.json")
        for line in install.lines:
            names_it = any(re.match(rf"{re.escape(name)} ?(==|@)", word) for word in line)
            ended = self._pip(line, report if names_it else None)
            if not ended.ok:
                shown = f"{' '.join(line[1:4])} ended with {_describe_exit(ended)}"
                raise MachineError(shown, remedy="fix pip's error above; no result is recorded")
        self._require_chosen(wheel, report)
        self._require_installed(wheel)

    def _require_chosen(self, wheel: IndexEntry, report: Path) -> None:
        """Require that pip installed the chosen wheel."""
        name = _project_name(wheel)
        version, found = _read_report(report, name)
        if version is not None and not same_version(version, wheel.version):
            raise PackageIndexError(f"pip installed {name} {version} instead of {wheel.version}", remedy=_DOCTOR)
        if found is None:
            # An old pip writes no report, and a new one reports only a hash from the page. Install the wheel again with
            # its hash, so that pip verifies the file.
            address = f"{name} @ {join_url(self.base, wheel.url)}#sha256={wheel.sha256}"
            again = (str(self.environment / "bin" / "python"), "-m", "pip", "install", "--force-reinstall", "--no-deps")
            found = wheel.sha256 if self._pip((*again, address), None).ok else None
        if found != wheel.sha256:
            raise PackageIndexError(
                f"pip installed {wheel.filename} with another hash than on the index", remedy=_DOCTOR
            )

    def _require_installed(self, wheel: IndexEntry) -> None:
        """Require the wheel in the environment. pip may be configured to install elsewhere, or not at all."""
        folders = {str(folder) for folder in self.environment.glob("lib*/python*/site-packages")}
        installed = distributions(name=_project_name(wheel), path=sorted(folders))
        if not any(same_version(each.version, wheel.version) for each in installed):
            raise MachineError(
                "pip did not install the wheel in its environment", remedy="check pip's settings: pip config list"
            )

    def _pip(self, line: Sequence[str], report: Path | None) -> Exit:
        """Run pip. A variable requests the report, because an old pip ignores a variable that it does not know."""
        report_variable = {"PIP_REPORT": str(report)} if report else {}
        ended = self._run(
            line, {**activated_variables(self.environment), **report_variable}, self.environment, _PIP_TIMEOUT
        )
        if ended.reason is ExitReason.TIMEOUT:
            raise MachineError(f"{' '.join(line[1:4])} did not finish within an hour", remedy=_NO_RESULT)
        return ended

    def _run(self, argv: Sequence[str], variables: dict[str, str], folder: Path, seconds: float) -> Exit:
        limits = Limits(seconds=seconds, output=_MAX_OUTPUT, pids=_MAX_PROCESSES)
        group = ProcessTree(limits=limits)
        process = SupervisedProcess(argv=argv, env=variables, cwd=str(folder), limits=limits, folders=(), group=group)
        try:
            ended = process.run(self.say, self.cancel)
        except OSError as error:
            why = f"{argv[0]} cannot be run: {error.strerror}"
            raise MachineError(why, remedy="use a program that is installed here") from None
        if ended.reason is ExitReason.CANCELLED:
            raise KeyboardInterrupt
        killed = ended.reason in {ExitReason.EXITED, ExitReason.KILLED} and ended.code in _KILL_CODES
        if killed or ended.reason in {ExitReason.OUT_OF_MEMORY, ExitReason.DISK_FULL}:
            raise MachineError(f"{argv[0]} was stopped: {ended.reason}", remedy=_NO_RESULT)
        return ended


def make_test_record(
    target: Target, wheel: IndexEntry, outcome: WheelOutcome, where: str, details: str | None
) -> RecordedTest:
    """Return the record of a test of the wheel that was chosen for a target."""
    known = (target.framework, target.release, target.compute, target.arch)
    cells = (
        cell.id
        for cell in wheel.cells
        if (cell.framework, cell.release, cell.compute, cell.arch) == known
        and cell.python in {None, target.python_minor}
    )
    return RecordedTest(
        wheel=wheel.filename,
        sha256=wheel.sha256,
        outcome=outcome,
        where=where,
        cell=next(cells, None),
        details=details,
    )


def activated_variables(environment: Path) -> dict[str, str]:
    """Return the variables of an activated environment. Of this process it has only those that decide no test."""
    kept = {name: text for name, text in os.environ.items() if _KEPT.fullmatch(name)}
    path = f"{environment / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Without PYTHONSAFEPATH, Python would import the source in the current folder instead of the wheel.
    return {**kept, "PATH": path, "VIRTUAL_ENV": str(environment), "PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"}


def _project_name(wheel: IndexEntry) -> str:
    return str(canonicalize_name(wheel.filename.partition("-")[0]))


def _describe_exit(ended: Exit) -> str:
    return f"exit code {ended.code}" if ended.code > 0 else str(ended.reason)


def _read_report(report: Path, name: str) -> tuple[str | None, str | None]:
    """Return the version and the sha256 that pip's report has for a project, each None if it is missing."""
    try:
        items = read_json(read_bounded(report, _MAX_OUTPUT))["install"]
        found = next(item for item in items if canonicalize_name(item["metadata"]["name"]) == name)
        hashes = found["download_info"].get("archive_info", {}).get("hashes", {})
        return str(found["metadata"]["version"]), hashes.get("sha256")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return None, None
