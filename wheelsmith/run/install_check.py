"""Test the wheel that an index has for this machine, installed in a fresh environment."""

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
from wheelsmith.engine import last_words
from wheelsmith.engine.process_tree import ProcessTree
from wheelsmith.engine.processes import SupervisedProcess
from wheelsmith.engine.protocol import Ending, Exit, Limits
from wheelsmith.index.entries.catalogue import Catalogue
from wheelsmith.index.entries.entry import IndexEntry, WheelOutcome, WheelTest
from wheelsmith.index.pick.machine import Machine
from wheelsmith.index.publish.record_tests import RecordedTest
from wheelsmith.index.resolve.install_commands import Template
from wheelsmith.index.resolve.target import Target
from wheelsmith.model.wheel_name import same_version
from wheelsmith.run.release import built

_ENVIRONMENT_PATIENCE = 300.0  # seconds in which a virtual environment is there, on a slow disk
_PIP_PATIENCE = 3600.0  # seconds in which torch is fetched and installed, on a slow line
_MOST_OUTPUT = 16 << 20  # bytes that a command may print
_MOST_PROCESSES = 1 << 20  # threads, too: a library may have some for each core
_LONGEST_WHERE = 300  # characters
_NOTHING_SAID = "nothing is said of the wheel; test it again where there is more"
_ASK = "does the index say the same everywhere? wheelsmith index doctor URL"
# Of SIGKILL and SIGTERM, which are sent where memory or a job of CI comes to its end: a program that crashes has other
# signals. Of a command that it ran, a shell tells 128 more.
_KILLED = {-9, -15, 137, 143}
# What would have a Python find packages elsewhere than in its own environment.
_ELSEWHERE = {"PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE"}
# What pip may be told by variables: where packages come from, and how to get there. Others would have it install
# something else than anybody gets, or somewhere else.
_OF_PIP = {
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_TRUSTED_HOST", "PIP_CERT"),
    *("PIP_CLIENT_CERT", "PIP_PROXY", "PIP_KEYRING_PROVIDER", "PIP_CONFIG_FILE", "PIP_CACHE_DIR"),
}


@contextmanager
def fresh_environment(python: str) -> Iterator[Path]:
    """Make a virtual environment with nothing in it, in a temporary folder.

    :param python: the interpreter that it is made from.
    :raises MachineError: there can be none.
    """
    with tempfile.TemporaryDirectory(prefix="wheelsmith-test-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch, "environment")
        # -I: the folder that this was started in may be a stranger's, and hold a venv.py.
        argv = (python, "-I", "-m", "venv", "--without-pip", str(folder))
        try:
            made = subprocess.run(argv, capture_output=True, text=True, timeout=_ENVIRONMENT_PATIENCE, check=False)
            wrong = last_words(made.stderr) if made.returncode else None
        except (OSError, subprocess.TimeoutExpired) as error:
            wrong = str(error)
        if wrong is not None:
            raise MachineError(
                f"{python} makes no virtual environment: {wrong}", remedy="name another Python: --python PATH"
            )
        yield folder


def only_built(catalogue: Catalogue, out: Path) -> Catalogue:
    """Return what an index offers of what a run or join left, and nothing else.

    :param out: its output folder.
    :raises ReleaseError: it has another project, or the index has none of its wheels.
    """
    left = built(out)
    if left.state.project != catalogue.project:
        project = left.state.project
        raise ReleaseError(f"{out} has wheels of {project}", remedy=f"test that: wheelsmith test {project}")
    there = {(entry.filename, entry.sha256) for entry in left.entries}
    wheels = tuple(wheel for wheel in catalogue.wheels if (wheel.filename, wheel.sha256) in there)
    if not wheels:
        raise ReleaseError(
            f"the index lists no wheel that is in {out}", remedy="publish it first; if something caches the index, wait"
        )
    return replace(catalogue, wheels=wheels)


def where_of(machine: Machine) -> str:
    """Describe a machine in one line."""
    names = [f"{gpu.name} ({gpu.capability})" for gpu in machine.gpus]
    gpus = [f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    driver = f"driver for CUDA {machine.driver}" if machine.driver else "no NVIDIA driver"
    python = ".".join(machine.python_version.split(".")[:2]) + ("t" if machine.free_threaded else "")
    words = ", ".join([*(gpus or ["no GPU"]), driver, machine.arch, f"glibc {machine.glibc}", f"Python {python}"])
    shown = "".join(letter if letter.isprintable() else " " for letter in words)
    return " ".join(shown.split())[:_LONGEST_WHERE].rstrip()


def check_words(where: str, details: str | None) -> None:
    """Refuse words that no page could show.

    :raises WheelTestError: it says which.
    """
    try:
        WheelTest(outcome=WheelOutcome.PASSED, where=where, details=details)
    except ValueError as error:
        raise WheelTestError(
            f"this cannot be said of a test: {error}", remedy="say it otherwise: --on, --details"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTester:
    """Installs a wheel in a fresh environment, and runs a command there.

    :param environment: a fresh one.
    :param base: the index's address, with a slash at its end.
    :param command: its first word is looked for beside the environment's Python first.
    :param attempts: how often it may be run until it passes.
    :param seconds: that one attempt may take.
    :param say: takes each line that is printed meanwhile, made harmless.
    :param cancel: ends it.
    """

    environment: Path
    base: str
    command: tuple[str, ...]
    attempts: int
    seconds: float
    say: Callable[[str], None]
    cancel: Event

    def test(self, wheel: IndexEntry, install: Template) -> WheelOutcome:
        """Install the wheel that was chosen, and run the command.

        :param install: pick's command for that environment.
        :raises PackageIndexError: another wheel was installed than the one that was chosen.
        :raises MachineError: the wheel cannot be installed here, or the command not run, or somebody killed it.
        :raises KeyboardInterrupt: it was cancelled.
        """
        self._install(wheel, install)
        for attempt in range(1, self.attempts + 1):
            ended = self._run(self.command, activated(self.environment), Path(), self.seconds)
            if ended.ok:
                return WheelOutcome.PASSED if attempt == 1 else WheelOutcome.FLAKY
            self.say(f"attempt {attempt} of {self.attempts}: {_ending(ended)}")
        return WheelOutcome.FAILED

    def _install(self, wheel: IndexEntry, install: Template) -> None:
        """Install the wheel with its requirements, and see that it is this one, and there.

        A failure of pip is no failure of the wheel: a server, a disk or a proxy may be the reason.
        """
        name = _project(wheel)
        report = self.environment.with_name("pip.json")
        for line in install.lines:
            names_it = any(re.match(rf"{re.escape(name)} ?(==|@)", word) for word in line)
            ended = self._pip(line, report if names_it else None)
            if not ended.ok:
                shown = f"{' '.join(line[1:4])} ended with {_ending(ended)}"
                raise MachineError(shown, remedy="mend what pip says above; nothing is said of the wheel")
        self._require_chosen(wheel, report)
        self._require_there(wheel)

    def _require_chosen(self, wheel: IndexEntry, report: Path) -> None:
        """Refuse to test another wheel than the chosen one."""
        name = _project(wheel)
        version, found = _reported(report, name)
        if version is not None and not same_version(version, wheel.version):
            raise PackageIndexError(f"{name} {version} was installed, and not {wheel.version}", remedy=_ASK)
        if found is None:
            # An old pip tells nothing, and a new one only what the page had: it looks at the bytes itself.
            address = f"{name} @ {self.base}{wheel.url}#sha256={wheel.sha256}"
            again = (str(self.environment / "bin" / "python"), "-m", "pip", "install", "--force-reinstall", "--no-deps")
            found = wheel.sha256 if self._pip((*again, address), None).ok else None
        if found != wheel.sha256:
            raise PackageIndexError(f"another {wheel.filename} was installed than the index tells of", remedy=_ASK)

    def _require_there(self, wheel: IndexEntry) -> None:
        """Refuse an installation that pip was configured to make elsewhere, or not at all."""
        folders = {str(folder) for folder in self.environment.glob("lib*/python*/site-packages")}
        there = distributions(name=_project(wheel), path=sorted(folders))
        if not any(same_version(each.version, wheel.version) for each in there):
            raise MachineError("pip installed the wheel nowhere in its environment", remedy="see: pip config list")

    def _pip(self, line: Sequence[str], report: Path | None) -> Exit:
        """Run pip, which reads its options from variables, too, and leaves one alone that it does not know."""
        told = {"PIP_REPORT": str(report)} if report else {}
        ended = self._run(line, {**activated(self.environment), **told}, self.environment, _PIP_PATIENCE)
        if ended.ending is Ending.TIMEOUT:
            raise MachineError(f"{' '.join(line[1:4])} has not ended in an hour", remedy=_NOTHING_SAID)
        return ended

    def _run(self, argv: Sequence[str], variables: dict[str, str], folder: Path, seconds: float) -> Exit:
        limits = Limits(seconds=seconds, output=_MOST_OUTPUT, pids=_MOST_PROCESSES)
        group = ProcessTree(limits=limits)
        process = SupervisedProcess(argv=argv, env=variables, cwd=str(folder), limits=limits, folders=(), group=group)
        try:
            ended = process.run(self.say, self.cancel)
        except OSError as error:
            why = f"{argv[0]} cannot be run: {error.strerror}"
            raise MachineError(why, remedy="name a program that is here") from None
        if ended.ending is Ending.CANCELLED:
            raise KeyboardInterrupt
        killed = ended.ending in {Ending.EXITED, Ending.KILLED} and ended.code in _KILLED
        if killed or ended.ending in {Ending.OUT_OF_MEMORY, Ending.DISK_FULL}:
            raise MachineError(f"{argv[0]} was ended: {ended.ending}", remedy=_NOTHING_SAID)
        return ended


def recorded(target: Target, wheel: IndexEntry, outcome: WheelOutcome, where: str, details: str | None) -> RecordedTest:
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


def activated(environment: Path) -> dict[str, str]:
    """Return this process's variables, as if the environment had been activated, and nothing else were to be found."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if name not in _ELSEWHERE and (name in _OF_PIP or not name.startswith("PIP_"))
    }
    path = f"{environment / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Python would otherwise import from the folder that it is started in: the source in the place of the wheel.
    return {**kept, "PATH": path, "VIRTUAL_ENV": str(environment), "PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"}


def _project(wheel: IndexEntry) -> str:
    return str(canonicalize_name(wheel.filename.partition("-")[0]))


def _ending(ended: Exit) -> str:
    return f"exit code {ended.code}" if ended.code > 0 else str(ended.ending)


def _reported(report: Path, name: str) -> tuple[str | None, str | None]:
    """Return the version and the sha256 of what pip installed, as it says itself; None where it does not."""
    try:
        items = read_json(read_bounded(report, _MOST_OUTPUT))["install"]
        found = next(item for item in items if canonicalize_name(item["metadata"]["name"]) == name)
        hashes = found["download_info"].get("archive_info", {}).get("hashes", {})
        return str(found["metadata"]["version"]), hashes.get("sha256")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return None, None
