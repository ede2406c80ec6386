"""Answer the compiler calls of a project's build system while it runs.

The scheduler decides which calls run, and when. A source is preprocessed where the call was made, in the project's own
sandbox, where it and all generated files lie. Every later phase reads nothing but text. So it runs as a kernel's phases
do: in a sandbox of its own, with compilers that no build could change, and its result is cached by what it reads. If
such a phase fails, the compiler itself runs the call as it was made, and its result counts.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from wheelsmith.base.errors import OutputError
from wheelsmith.base.sanitize import visible
from wheelsmith.engine import Ending, Exit
from wheelsmith.model import BuildPlan, Status, StepFinished
from wheelsmith.pipeline.cell_log import CellLog
from wheelsmith.pipeline.compile_step import CompileStep
from wheelsmith.pipeline.compiler_ipc import BuildEndedError, BuildOverdueError, CallExchange, WaitingCall
from wheelsmith.pipeline.context import BuildContext
from wheelsmith.pipeline.failures import StageError, command_failed
from wheelsmith.pipeline.jobs import Job, has_an_age, jobs_of
from wheelsmith.pipeline.tasks import MIB, PACK_SECONDS, Resources, Task, TaskAdder
from wheelsmith.plan.recipe.compiler_call import CompilerCall, compiler_call, located
from wheelsmith.plan.recipe.phases import NotSplittableError, Phase, PhaseKind, whole
from wheelsmith.platforms import platforms


class Allowance:
    """Bytes that may be kept, shared by all calls of a build.

    :param most: of them.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    @property
    def is_spent(self) -> bool:
        """Say whether nothing more may be kept."""
        return self._left < 0

    def take(self, size: int) -> None:
        """Count bytes that are kept from now on."""
        with self._lock:
            self._left -= size

    def counted(self, content: Iterable[bytes]) -> Iterator[bytes]:
        """Yield content that is kept.

        :raises OutputError: it is too much.
        """
        for chunk in content:
            self.take(len(chunk))
            if self.is_spent:
                raise OutputError("what the build has compiled is more than it may write")
            yield chunk


# What one compiler process needs at its worst, where nobody counts it: measured with torch/all.h of torch 2.11.
COMPILER_MEMORY = 2_700 * MIB
_SECONDS = 60.0
_COMPILES = {"-c", "-dc", "--compile", "--device-c"}


def whole_call(name: str, what: str, waiting: WaitingCall, cell: str, context: BuildContext, log: CellLog) -> Task:
    """Return the task that has a call run as it was made, where it was made, while what it needs is set aside for it.

    :param name: of the task.
    :param what: it works on, for people.
    """

    def run(memory: int) -> tuple[Task, ...]:
        del memory
        began = time.monotonic()
        try:
            waiting.end(waiting.run(None))
        except BuildEndedError:
            return ()
        log.step(what)
        if _COMPILES & set(waiting.request.words):  # of what is linked, nothing could have been made before
            kind, seconds = str(PhaseKind.WHOLE), time.monotonic() - began
            done = StepFinished(
                cell_id=cell, step=what, kind=kind, seconds=seconds, cpu=0.0, peak_memory=None, reused=False
            )
            context.listen(done)
        return ()

    log.expect(1)
    return Task(
        name=name,
        group=cell,
        run=run,
        demand=Resources(memory=context.most_memory(COMPILER_MEMORY)),
        rank=PACK_SECONDS + _SECONDS,
        seconds=_SECONDS,
    )


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
        return jobs_of(phases, together=not self.context.engine.starts_at_once, in_place=True)

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
        name = f"{self.name}:whole"
        return (whole_call(name, self.source, self.waiting, self.plan.cell.id, self.context, self.log),)


@dataclass(kw_only=True)
class CompilerLauncher:
    """Answers the calls of one build, until it ends.

    :param cancel: ends the build's own command, once it is set.
    :param task: the name of the one that this is used in, which waits from the first call on.
    """

    plan: BuildPlan
    context: BuildContext
    log: CellLog
    cancel: threading.Event
    adder: TaskAdder
    task: str
    _ended: threading.Event = field(default_factory=threading.Event)
    _error: Exception | None = None
    _is_overdue: bool = False
    _allowance: Allowance = field(init=False)

    def __post_init__(self) -> None:
        self._allowance = Allowance(self.context.limits.disk)

    @contextlib.contextmanager
    def answering(self, work: Path) -> Iterator[None]:
        """Answer calls while this is entered.

        :param work: the build's folder, laid out.
        :raises WheelsmithError: what the build left there cannot be read.
        :raises StageError: the build took longer than it may, what it waited for compilations not counted.
        """
        exchange = CallExchange(work, self._ended, self.context.limits.seconds)
        thread = threading.Thread(target=self._answer, args=(exchange,), daemon=True)
        thread.start()
        tail: tuple[str, ...] = ()
        try:
            yield
        except StageError as error:
            tail = error.failure.tail
            if not self._is_overdue:
                raise
        finally:
            self._ended.set()
            thread.join()
            if self._error:
                raise self._error
        if self._is_overdue:
            raise self._overdue(tail)

    def _answer(self, exchange: CallExchange) -> None:
        try:
            for number, call in enumerate(exchange.calls()):
                if number == 0:
                    self.adder.wait(self.task)
                self.adder.add(self.plan.cell.id, self._tasks(call, number))
        except BuildOverdueError:
            self._is_overdue = True
            self.cancel.set()
        except Exception as error:  # noqa: BLE001  # it is raised where the build is waited for
            self._error = error
            self.cancel.set()

    def _overdue(self, tail: tuple[str, ...]) -> StageError:
        limits = self.context.limits
        late = Exit(ending=Ending.TIMEOUT, code=-1, seconds=limits.seconds)
        return command_failed(self.log.stage, "the build", late, limits, tail)

    def _tasks(self, waiting: WaitingCall, number: int) -> tuple[Task, ...]:
        plan, context = self.plan, self.context
        request = waiting.request
        name = f"{plan.cell.id}:call-{number}"
        try:
            call = compiler_call(request.program, request.words, nvcc=self._nvcc())
        except NotSplittableError:
            return (whole_call(name, _made(request.words), waiting, plan.cell.id, context, self.log),)
        return LaunchedStep(
            name=name,
            step=call.step,
            plan=plan,
            context=context,
            work=context.folder / plan.cell.id / "work",
            folder=context.folder / plan.cell.id / "calls" / str(number),
            log=self.log,
            cancel=self._ended,
            waiting=waiting,
            call=call,
            allowance=self._allowance,
        ).tasks()

    def _nvcc(self) -> str | None:
        """Return where nvcc lies; None where there is none, or an image's own, before which nothing of ours stands."""
        toolkit = self.plan.toolkit
        if toolkit is None or toolkit.in_image:
            return None
        return f"{platforms()[self.plan.cell.platform].mount_point}/bin/nvcc"


def _made(words: tuple[str, ...]) -> str:
    """Say what a call makes, for people."""
    output = next((word for before, word in itertools.pairwise(words) if before == "-o"), "")
    return visible(PurePosixPath(output).name) or "a compiler's call"
