"""A compiler's call of a project's build system that is the compiler's own to make."""

from __future__ import annotations

import time
from dataclasses import dataclass

from wheelsmith.model import StepFinished
from wheelsmith.pipeline.cell_log import CellLog
from wheelsmith.pipeline.compiler_ipc import BuildEndedError, WaitingCall
from wheelsmith.pipeline.context import BuildContext
from wheelsmith.pipeline.tasks import MIB, Resources, Task
from wheelsmith.plan.recipe.phases import PhaseKind

# What one compiler process needs at its worst, where nobody counts it: measured with torch/all.h of torch 2.11.
COMPILER_MEMORY = 2_700 * MIB
_SECONDS = 60.0
_COMPILES = {"-c", "-dc", "--compile", "--device-c"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCall:
    """One call that is run as it was made, where it was made, while what it needs is set aside for it.

    :param name: of its task.
    :param what: it works on, for people.
    :param tail: seconds that the build takes after it.
    """

    name: str
    what: str
    waiting: WaitingCall
    cell: str
    context: BuildContext
    log: CellLog
    tail: float

    def task(self) -> Task:
        """Return the task that has it run."""
        self.log.expect(1)
        return Task(
            name=self.name,
            group=self.cell,
            run=self._run,
            demand=Resources(memory=self.context.most_memory(COMPILER_MEMORY)),
            rank=self.tail + _SECONDS,
            seconds=_SECONDS,
        )

    def _run(self, memory: int) -> tuple[Task, ...]:
        del memory
        began = time.monotonic()
        try:
            self.waiting.end(self.waiting.run(None))
        except BuildEndedError:
            return ()
        self.log.step(self.what)
        if _COMPILES & set(self.waiting.request.words):  # of what is linked, nothing could have been made before
            self.context.listen(
                StepFinished(
                    cell_id=self.cell,
                    step=self.what,
                    kind=str(PhaseKind.WHOLE),
                    seconds=time.monotonic() - began,
                    cpu=0.0,
                    peak_memory=None,
                    reused=False,
                )
            )
        return ()
