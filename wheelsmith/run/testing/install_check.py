"""Install an index's wheel for this machine in a fresh environment with pip, and run a command there."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import MachineError, PackageIndexError, ReleaseError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import read_json
from wheelsmith.engine.protocol import Exit, ExitReason
from wheelsmith.index.entries.catalogue import Catalogue
from wheelsmith.index.entries.entry import IndexEntry, WheelOutcome
from wheelsmith.index.publish.record_tests import RecordedTest
from wheelsmith.index.resolve.install_commands import Template, join_url
from wheelsmith.index.resolve.target import Target
from wheelsmith.model.wheel_name import same_version
from wheelsmith.run.release import read_built_versions
from wheelsmith.run.testing.command import (
    NO_RESULT,
    RepeatedCommand,
    activated_variables,
    describe_exit,
    has_installed,
    make_environment,
    prefer_installed,
    run_command,
)

_PIP_TIMEOUT = 3600.0  # seconds to fetch and install torch over a slow connection
_MAX_REPORT = 16 << 20  # bytes of pip's report
_DOCTOR = "check that all pages of the index agree: wheelsmith index doctor URL"


@contextmanager
def fresh_environment(python: str) -> Iterator[Path]:
    """Create an empty virtual environment in a temporary folder.

    :param python: the interpreter to create it with.
    :raises MachineError: it cannot be created.
    """
    with tempfile.TemporaryDirectory(prefix="wheelsmith-test-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch, "environment")
        make_environment(python, folder)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTester:
    """Installs a wheel in a fresh environment and runs a command there.

    :param environment: the fresh environment.
    :param base: the index's address, with a trailing slash.
    :param command: the command; its program is searched for in the environment's ``bin`` first.
    :param say: receives each line of output, made safe for a terminal.
    """

    environment: Path
    base: str
    command: RepeatedCommand
    say: Callable[[str], None]

    def test(self, wheel: IndexEntry, install: Template) -> WheelOutcome:
        """Install the chosen wheel and run the command.

        :param install: pick's install command for the environment.
        :raises PackageIndexError: pip installed another wheel.
        :raises MachineError: the wheel cannot be installed here, or the command cannot be run or was killed.
        :raises KeyboardInterrupt: the test was cancelled.
        """
        self._install(wheel, install)
        return self.command.run(activated_variables(self.environment), self.say)

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
                shown = f"{' '.join(line[1:4])} ended with {describe_exit(ended)}"
                raise MachineError(shown, remedy="fix pip's error above; no result is recorded")
        self._require_chosen(wheel, report)
        self._require_installed(wheel)
        prefer_installed(self.environment, _project_name(wheel))

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
        if not has_installed(self.environment, _project_name(wheel), wheel.version):
            raise MachineError(
                "pip did not install the wheel in its environment", remedy="check pip's settings: pip config list"
            )

    def _pip(self, line: Sequence[str], report: Path | None) -> Exit:
        """Run pip. A variable requests the report, because an old pip ignores a variable that it does not know."""
        report_variable = {"PIP_REPORT": str(report)} if report else {}
        variables = {**activated_variables(self.environment), **report_variable}
        cancel = self.command.cancel
        ended = run_command(line, variables, self.environment, seconds=_PIP_TIMEOUT, say=self.say, cancel=cancel)
        if ended.reason is ExitReason.TIMEOUT:
            raise MachineError(f"{' '.join(line[1:4])} did not finish within an hour", remedy=NO_RESULT)
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


def _project_name(wheel: IndexEntry) -> str:
    return str(canonicalize_name(wheel.filename.partition("-")[0]))


def _read_report(report: Path, name: str) -> tuple[str | None, str | None]:
    """Return the version and the sha256 that pip's report has for a project, each None if it is missing."""
    try:
        items = read_json(read_bounded(report, _MAX_REPORT))["install"]
        found = next(item for item in items if canonicalize_name(item["metadata"]["name"]) == name)
        hashes = found["download_info"].get("archive_info", {}).get("hashes", {})
        return str(found["metadata"]["version"]), hashes.get("sha256")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return None, None
