"""Test, on the machine where this runs, the wheel that an index has for it: installed afresh, as anybody would."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MachineError, PackageIndexError, ReleaseError, WheelTestError
from wheelsmith.base.programs import answer_of
from wheelsmith.engine import last_words
from wheelsmith.engine.process_tree import ProcessTree
from wheelsmith.engine.processes import SupervisedProcess
from wheelsmith.engine.protocol import Ending, Exit, Limits
from wheelsmith.index.entries import Catalogue, WheelOutcome, WheelTest
from wheelsmith.index.entries.recorded_tests import RecordedTest
from wheelsmith.index.entries.validity import check_test
from wheelsmith.index.pick import Decision, Machine
from wheelsmith.index.resolve import Choice, Target, Template
from wheelsmith.run.releasing import built

_ENVIRONMENT_PATIENCE = 300.0  # seconds in which a virtual environment is there, on a slow disk
_PIP_PATIENCE = 3600.0  # seconds in which torch is fetched and installed, on a slow line
_MOST_OUTPUT = 16 << 20  # bytes that a command may print
_MOST_PROCESSES = 1 << 20  # threads, too: a library may have some for each core
_LONGEST_WHERE = 300  # characters
_VERSION = "import json, sys, importlib.metadata as m; print(json.dumps(m.version(sys.argv[1])))"
# What would have a Python find packages elsewhere than in its own environment, or pip put them there.
_ELSEWHERE = {"PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTrial:
    """What is to be run.

    :param command: its words; the first is looked for beside the fresh environment's Python first.
    :param attempts: how often it may be run until it passes.
    :param seconds: that one attempt may take.
    """

    command: tuple[str, ...]
    attempts: int = 1
    seconds: float = 3600.0


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
    left = built(out).state
    if left.project != catalogue.project:
        raise ReleaseError(f"{out} has wheels of {left.project}", remedy=f"test that: wheelsmith test {left.project}")
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
    words = [*(gpus or ["no GPU"]), driver, machine.arch, f"glibc {machine.glibc}", f"Python {python}"]
    shown = "".join(letter if letter.isprintable() else " " for letter in ", ".join(words))
    return " ".join(shown.split())[:_LONGEST_WHERE].rstrip()


def check_words(where: str, details: str | None) -> None:
    """Refuse words that no page could show.

    :raises WheelTestError: it says which.
    """
    try:
        check_test(WheelTest(outcome=WheelOutcome.PASSED, where=where, details=details))
    except ValueError as error:
        raise WheelTestError(
            f"this cannot be said of a test: {error}", remedy="say it otherwise: --on, --details"
        ) from None


def try_wheel(
    decision: Decision, install: Template, environment: Path, trial: WheelTrial, say: Callable[[str], None]
) -> WheelOutcome:
    """Install the wheel that was chosen, and run the command; a wheel that cannot be installed has failed.

    :param install: what pick's command is for that environment.
    :param say: takes each line that is printed meanwhile, made harmless.
    :raises PackageIndexError: another wheel was installed than the one that was chosen.
    :raises MachineError: the command cannot be run at all, or pip comes to no end.
    """
    report = environment.with_name("pip.json")
    variables = _variables(environment)
    # pip reads its options from there, too, and leaves one alone that it does not know.
    told = {**variables, "PYTHONSAFEPATH": "1", "PIP_REPORT": str(report)}
    for line in install.lines:
        ended = _run(line, told, environment, _PIP_PATIENCE, say)
        if ended.ending is Ending.TIMEOUT:
            raise MachineError(f"{' '.join(line[:4])} has not ended in an hour", remedy="nothing is said of the wheel")
        if not ended.ok:
            say(f"it cannot be installed: {_ending(ended)}")
            return WheelOutcome.FAILED
    _check_installed(decision, environment, report)
    for attempt in range(1, trial.attempts + 1):
        ended = _run(trial.command, variables, Path(), trial.seconds, say)
        if ended.ok:
            return WheelOutcome.PASSED if attempt == 1 else WheelOutcome.FLAKY
        say(f"attempt {attempt} of {trial.attempts}: {_ending(ended)}")
    return WheelOutcome.FAILED


def recorded(decision: Decision, outcome: WheelOutcome, where: str, details: str | None) -> RecordedTest:
    """Return what is to be said of the wheel that was chosen."""
    wheel = _choice(decision).wheel
    cells = (cell for cell in wheel.cells if _is_cell(decision.target, cell.framework, cell.release, cell.compute))
    found = (cell.id for cell in cells if cell.arch == decision.target.arch and _runs(decision.target, cell.python))
    return RecordedTest(
        wheel=wheel.filename,
        sha256=wheel.sha256,
        outcome=outcome,
        where=where,
        cell=next(found, None),
        details=details,
    )


def _is_cell(target: Target, framework: str, release: str, compute: str) -> bool:
    return (target.framework, target.release, target.compute) == (framework, release, compute)


def _runs(target: Target, python: str | None) -> bool:
    return python in {None, target.python_minor}


def _choice(decision: Decision) -> Choice:
    assert isinstance(decision.answer, Choice)  # noqa: S101  # who calls has told of a refusal
    return decision.answer


def _variables(environment: Path) -> dict[str, str]:
    """Return this process's variables, as if the environment had been activated."""
    kept = {name: text for name, text in os.environ.items() if name not in _ELSEWHERE}
    path = f"{environment / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Python would otherwise import from the folder that it is started in: the source in the place of the wheel.
    return {**kept, "PATH": path, "VIRTUAL_ENV": str(environment), "PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"}


def _run(
    argv: Sequence[str], variables: dict[str, str], folder: Path, seconds: float, say: Callable[[str], None]
) -> Exit:
    limits = Limits(seconds=seconds, output=_MOST_OUTPUT, pids=_MOST_PROCESSES)
    process = SupervisedProcess(
        argv=argv, env=variables, cwd=str(folder), limits=limits, folders=(), group=ProcessTree(limits=limits)
    )
    try:
        return process.run(say, Event())
    except OSError as error:
        raise MachineError(f"{argv[0]} cannot be run: {error.strerror}", remedy="name a program that is here") from None


def _ending(ended: Exit) -> str:
    return f"exit code {ended.code}" if ended.code > 0 else str(ended.ending)


def _check_installed(decision: Decision, environment: Path, report: Path) -> None:
    """Refuse to test another wheel than the one of which it will be said."""
    wheel = _choice(decision).wheel
    name = str(canonicalize_name(wheel.filename.partition("-")[0]))
    there = answer_of([str(environment / "bin" / "python"), "-I", "-c", _VERSION, name])
    if not isinstance(there, str) or Version(there) != Version(wheel.version):
        raise PackageIndexError(f"{name} {there or 'nothing'} was installed, and not {wheel.version}", remedy=_ASK)
    if (found := _reported_hash(report, name)) and found != wheel.sha256:
        raise PackageIndexError(f"another {wheel.filename} was installed than the index tells of", remedy=_ASK)


_ASK = "does the index say the same everywhere? wheelsmith index doctor URL"


def _reported_hash(report: Path, name: str) -> str | None:
    """Return the sha256 of what pip installed, as it says itself; None where it is too old to."""
    try:
        items = json.loads(report.read_bytes())["install"]
        found = [item for item in items if canonicalize_name(item["metadata"]["name"]) == name]
        return str(found[0]["download_info"]["archive_info"]["hashes"]["sha256"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
