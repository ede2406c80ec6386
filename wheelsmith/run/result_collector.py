"""An answer for every cell, and a proven one, whoever made the builds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from wheelsmith.model import BuildPlan, BuildResult, Failure, Status
from wheelsmith.plan.fold import Build
from wheelsmith.store import Store


class ResultCollector:
    """Takes what an executor brings, and passes every cell's answer on, once.

    :param builds: those that the executor was given.
    :param store: where their wheels are.
    :param on_answer: is called with each cell's answer.
    """

    def __init__(self, builds: Iterable[Build], store: Store, on_answer: Callable[[BuildResult], None]) -> None:
        self._open = {build.plan.cell.id: build for build in builds}
        self._store = store
        self._on_answer = on_answer
        self._failed = False

    @property
    def some_failed(self) -> bool:
        """Say whether a build has failed."""
        return self._failed

    def take(self, result: BuildResult) -> None:
        """Take what came of a build; another answer, when it was made more than once, is passed over."""
        build = self._open.pop(result.cell.id, None)
        if build is None:
            return
        proven = self._proven(build.plan, result)
        self._failed = self._failed or proven.status is Status.FAILED
        for answer in build.answers(proven):
            self._on_answer(answer)

    def cancel_rest(self) -> None:
        """Answer for the builds that were not begun, or were ended."""
        for build in tuple(self._open.values()):
            failure = Failure(stage="fetch", message="cancelled")
            self.take(_no_wheel(build.plan, Status.CANCELLED, failure))

    def fail_rest(self, executor: str) -> None:
        """Answer for the builds of which nothing is known."""
        for build in tuple(self._open.values()):
            failure = Failure(stage="internal", message=f"executor {executor} brought no answer")
            self.take(_no_wheel(build.plan, Status.FAILED, failure))

    def _proven(self, plan: BuildPlan, result: BuildResult) -> BuildResult:
        """Return a result whose wheel is in the store: an index is made of what is there."""
        if result.wheel is None:
            return replace(result, plan_digest=plan.build_digest)
        stored = self._store.find(plan.build_digest)
        if result.plan_digest == plan.build_digest and stored and stored.wheel == result.wheel:
            return result
        message = f"the wheel of this answer is not in the store: {result.wheel.filename}"
        remedy = "build with the same wheelsmith everywhere, and the same cache"
        failure = Failure(stage="store", message=message, remedy=remedy)
        return replace(_no_wheel(plan, Status.FAILED, failure), timings=result.timings, log=result.log)


def _no_wheel(plan: BuildPlan, status: Status, failure: Failure) -> BuildResult:
    return BuildResult(cell=plan.cell, plan_digest=plan.build_digest, status=status, failure=failure)
