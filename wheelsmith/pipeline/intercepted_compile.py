"""A compiler's call of a project's build system, as phases.

The source is preprocessed where the call was made, in the project's own sandbox, where it and all that was generated
lies. Everything after that reads nothing but text, so it is done as a kernel's phases are: in sandboxes of their own,
by compilers that no build could change, and found again by what they read. What such a phase refuses is run once more
by the compiler itself, as it was called: its word counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from wheelsmith.base.errors import OutputError
from wheelsmith.base.sanitize import visible
from wheelsmith.engine import Ending, Exit
from wheelsmith.model import Status
from wheelsmith.pipeline.compile_step import CompileStep
from wheelsmith.pipeline.compiler_ipc import BuildEndedError, WaitingCall
from wheelsmith.pipeline.failures import StageError
from wheelsmith.pipeline.jobs import Job, has_an_age, jobs_after_preprocessing
from wheelsmith.pipeline.passthrough_call import WholeCall
from wheelsmith.pipeline.quota import Allowance
from wheelsmith.pipeline.tasks import Task
from wheelsmith.plan.recipe.compiler_call import CompilerCall, located
from wheelsmith.plan.recipe.phases import Phase, PhaseKind, whole


@dataclass(kw_only=True)
class LaunchedStep(CompileStep):
    """One call of a compiler that compiles one source.

    :param waiting: who waits for the object.
    :param call: what it is called with.
    :param allowance: of the build that it is a call of.
    """

    waiting: WaitingCall
    call: CompilerCall
    allowance: Allowance
    _over: bool = False
    _lines: list[str] = field(default_factory=list)
    _texts: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def source(self) -> str:
        """Return the source file, in the words of whoever called, made harmless."""
        return visible(self.call.source)

    def _jobs(self, phases: tuple[Phase, ...]) -> tuple[Job, ...]:
        if not any(phase.kind is PhaseKind.PREPROCESS for phase in phases):
            return ()
        return jobs_after_preprocessing(phases, together=not self.context.engine.starts_at_once)

    def _phases(self, lines: Iterable[str]) -> tuple[Phase, ...]:
        source = self.call.source
        place = self.waiting.request.places.get(source, source)
        phases = located(super()._phases(lines), source, place)
        # Elsewhere it could not be shown with an age, and cudafe++ would name what is internal after the hour.
        return phases if has_an_age(phases) else whole(self.step)

    def _tasks(self, phases: tuple[Phase, ...]) -> tuple[Task, ...]:
        return super()._tasks(phases) or self._whole()

    def _split(self, memory: int) -> tuple[Task, ...]:
        try:
            return super()._split(memory)
        except StageError as error:
            return self._answer_to(error)

    def _run(self, job: Job, task: str, memory: int) -> tuple[Task, ...]:
        if self._over:
            return ()
        if self.allowance.is_spent:
            return self._whole()
        try:
            return super()._run(job, task, memory)
        except BuildEndedError:
            self._over = True
            return ()
        except StageError as error:
            return self._answer_to(error)
        except OutputError:
            return self._whole()

    def _answer_to(self, error: StageError) -> tuple[Task, ...]:
        """Leave to the compiler itself what a phase refused; what it was not given enough for fails the build.

        Else it would be chance by which of the two an object is made, whose internal names are not the same.
        """
        if error.status is Status.CANCELLED:
            self._over = True
            return ()
        if error.by_itself:
            return self._whole()
        raise error

    def _do(self, job: Job, known: str | None, memory: int) -> None:
        if job.kind is not PhaseKind.PREPROCESS:
            super()._do(job, known, memory)
            return
        if self._over:  # a text was to be made again
            raise BuildEndedError
        began = time.monotonic()
        code = self.waiting.run(tuple(self._command_there(phase, n) for n, phase in enumerate(job.phases)))
        if code:
            # It said why.
            self._over = True
            self.waiting.end(code)
            return
        for n, name in enumerate(job.writes):
            self._outputs.put(None, {name: self.allowance.counted(self.waiting.read(f"text-{n}"))}, ())
            self._texts[name] = self._outputs.size(name)
        self._done(job, Exit(ending=Ending.EXITED, code=0, seconds=time.monotonic() - began), ())

    def _command_there(self, phase: Phase, number: int) -> tuple[str, ...]:
        """Return a preprocessing as it is run where the source is; the host's, which every source has, lists files."""
        place = phase.argv.index("-o") + 1
        text = (*phase.argv[:place], self.waiting.path(f"text-{number}"), *phase.argv[place + 1 :])
        return text if phase.target else (*text, *self.call.listing)

    def _keep_object(self, job: Job) -> None:
        if self.step.output in job.writes:
            with self.waiting.create_object() as file:
                self._outputs.copy(self.step.output, file)

    def _done(self, job: Job, exit_: Exit | None, lines: tuple[str, ...]) -> None:
        super()._done(job, exit_, lines)
        self._forget(job.reads.values())
        if job.kind is not PhaseKind.PREPROCESS:
            self.allowance.take(sum(self._outputs.size(name) for name in job.writes))
        self._lines += lines
        if self.step.output in job.writes:
            self._over = True
            self.waiting.end(0, output=self.call.output, lines=tuple(self._lines))

    def _forget(self, names: Iterable[str]) -> None:
        """Keep texts no longer."""
        for name in names:
            if size := self._texts.pop(name, 0):
                self._outputs.drop(name)
                self.allowance.take(-size)

    def _whole(self) -> tuple[Task, ...]:
        """Leave it to the compiler itself, once: several phases may have been refused at the same time."""
        with self._lock:
            was_over, self._over = self._over, True
        if was_over:
            return ()
        self._forget(tuple(self._texts))
        whole = WholeCall(
            name=f"{self.name}:whole",
            what=self.source,
            waiting=self.waiting,
            cell=self.plan.cell.id,
            context=self.context,
            log=self.log,
            tail=self.tail,
        )
        return (whole.task(),)
