"""Run the cases of a test matrix, several at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.index.entries.entry import WheelOutcome
from wheelsmith.index.publish.record_tests import RecordedTest
from wheelsmith.platforms import Gpu, platform_of, platforms
from wheelsmith.run.testing.cases import WheelCase
from wheelsmith.run.testing.command import RepeatedCommand, activated_variables, machine_label
from wheelsmith.run.testing.environments import FreshEnvironments, framework_version, require_import, verify_environment
from wheelsmith.run.testing.gpus import GpuPool
from wheelsmith.run.testing.kept_results import KeptResult, KeptResults


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The result of a case.

    :param where: the machine of a test that ran.
    :param kept: True if an earlier run tested the same.
    :param seconds: of the whole test; 0 if none ran.
    :param log: file with the output of the command.
    :param error: why the case could not be tested.
    """

    case: WheelCase
    outcome: WheelOutcome = WheelOutcome.UNTESTED
    where: str = ""
    kept: bool = False
    seconds: float = 0.0
    log: Path | None = None
    error: WheelsmithError | None = None

    def record(self, details: str | None) -> RecordedTest:
        """Return the record of a test that ran.

        :param details: URL with details.
        """
        wheel, cell = self.case.wheel, self.case.cell
        return RecordedTest(
            wheel=wheel.filename,
            sha256=wheel.sha256,
            outcome=self.outcome,
            where=self.where,
            cell=cell.id,
            details=details,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixTester:
    """Runs cases.

    :param jobs: maximum number of tests at a time.
    :param logs: a folder for the output of each test.
    """

    command: RepeatedCommand
    environments: FreshEnvironments
    pool: GpuPool
    results: KeptResults
    jobs: int
    logs: Path

    def run(
        self,
        cases: Iterable[WheelCase],
        on_start: Callable[[WheelCase], None],
        on_result: Callable[[CaseResult], None],
    ) -> tuple[CaseResult, ...]:
        """Run all cases that this machine can run, and return the results in the order of the cases.

        :param on_start: is called before each test that runs.
        :param on_result: is called after each case.
        :raises KeyboardInterrupt: the run was cancelled.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(self.jobs) as threads:
            numbered = enumerate(cases, start=1)
            running = [threads.submit(self._result_of, case, number, on_start) for number, case in numbered]
            try:
                for each in as_completed(running):
                    on_result(each.result())
            except BaseException:
                self.command.cancel.set()
                for each in running:
                    each.cancel()
                raise
        return tuple(each.result() for each in running)

    def _result_of(self, case: WheelCase, number: int, on_start: Callable[[WheelCase], None]) -> CaseResult:
        if case.obstacle:
            return CaseResult(case=case, error=case.obstacle)
        if known := self.results.find(case):
            return CaseResult(case=case, outcome=known.outcome, where=known.where, kept=True)
        on_start(case)
        start = time.monotonic()
        log = self.logs / f"{number}-{case.cell.id.replace('/', '-')}-{case.wheel.sha256[:8]}.log"
        log.unlink(missing_ok=True)  # of an earlier run
        try:
            found = self._test(case, log)
        except WheelsmithError as error:
            if self.command.cancel.is_set():
                raise KeyboardInterrupt from None
            return CaseResult(case=case, error=error, log=log if log.exists() else None)
        self.results.keep(case, found)
        seconds = time.monotonic() - start
        return CaseResult(case=case, outcome=found.outcome, where=found.where, seconds=seconds, log=log)

    def _test(self, case: WheelCase, log: Path) -> KeptResult:
        assert case.environment is not None  # noqa: S101  # the case has no obstacle
        assert case.target is not None  # noqa: S101
        lease = self.pool.lease(case.gpu) if case.gpu else nullcontext(None)
        with self.environments.environment(case.wheel, case.environment) as environment, lease as gpu:
            variables = activated_variables(environment)
            variables |= case.environment.variables(self.environments.scratch)
            variables |= _show_only(gpu, case.target.compute)
            machine = verify_environment(environment, variables, case.wheel, case.target, gpu)
            with log.open("w", encoding="utf-8") as file:
                outcome = self.command.run(variables, lambda line: print(line, file=file, flush=True))
            if outcome is WheelOutcome.FAILED:
                require_import(environment, variables, case.cell.framework)
        version = framework_version(machine, case.cell.framework)
        where = machine_label(machine) + (f", {case.cell.framework} {version}" if version else "")
        return KeptResult(outcome=outcome, where=where)


def _show_only(gpu: Gpu | None, compute: str) -> dict[str, str]:
    """Return the environment variables that hide all other GPUs of all platforms."""
    found = platform_of(compute)
    own = found[0] if found else None
    return {
        name: value
        for platform in platforms().values()
        for name, value in platform.devices.variables(gpu if platform is own else None).items()
    }


def count_outcomes(results: Iterable[CaseResult]) -> str:
    """Return the number of results of each kind, e.g. ``4 passed, 1 failed, 2 not tested``."""
    counts = Counter(result.outcome for result in results)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in WheelOutcome if counts[outcome]) or "no test"
