"""Collect one verified result for each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from wheelsmith.model import BuildPlan, BuildResult, Failure, Status
from wheelsmith.plan.planned_run import Build
from wheelsmith.store import Store


class ResultCollector:
    """Receives results from an executor and reports one result per cell.

    The run, not the executor, guarantees that every cell gets exactly one result and that every reported wheel exists.

    :param builds: the builds that the executor was given.
    :param store: the store that must contain their wheels.
    :param on_result: called once for each cell.
    """

    def __init__(self, builds: Iterable[Build], store: Store, on_result: Callable[[BuildResult], None]) -> None:
        self._open = {build.plan.cell.id: build for build in builds}
        self._store = store
        self._on_result = on_result
        self.some_failed = False

    def take(self, result: BuildResult) -> None:
        """Record the result of a build. Later results for the same build are ignored."""
        build = self._open.pop(result.cell.id, None)
        if build is None:
            return
        verified = self._verify(build.plan, result)
        self.some_failed = self.some_failed or verified.status is Status.FAILED
        for each in build.answers(verified):
            self._on_result(each)

    def cancel_rest(self) -> None:
        """Report every unfinished build as cancelled."""
        self._finish_rest(Status.CANCELLED, Failure(stage="fetch", message="cancelled"))

    def fail_rest(self, executor: str) -> None:
        """Report every build without a result as failed."""
        failure = Failure(stage="internal", message=f"executor {executor} reported no result")
        self._finish_rest(Status.FAILED, failure)

    def _finish_rest(self, status: Status, failure: Failure) -> None:
        for build in tuple(self._open.values()):
            plan = build.plan
            self.take(BuildResult(cell=plan.cell, plan_digest=plan.build_digest, status=status, failure=failure))

    def _verify(self, plan: BuildPlan, result: BuildResult) -> BuildResult:
        """Return the result if its wheel is in the store, otherwise a failure."""
        if result.wheel is None:
            return replace(result, plan_digest=plan.build_digest)
        stored = self._store.find(plan.build_digest)
        if result.plan_digest == plan.build_digest and stored and stored.wheel == result.wheel:
            return result
        return BuildResult(
            cell=plan.cell,
            plan_digest=plan.build_digest,
            status=Status.FAILED,
            failure=Failure(
                stage="store",
                message=f"the wheel of this result is not in the store: {result.wheel.filename}",
                remedy="use the same wheelsmith and the same cache for all builds",
            ),
            timings=result.timings,
            log=result.log,
        )
