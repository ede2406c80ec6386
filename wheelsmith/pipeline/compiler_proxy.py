"""Answer the compiler calls of a project's build system while it runs.

The calls become tasks of the scheduler. A source is preprocessed in the sandbox of the project, which contains the
source and all generated files. Every later phase reads only text. So it runs as for a kernel: in a new sandbox, with
compilers that no build can change, and with its result in the cache. If such a phase fails, the original call runs
instead, and its result counts.
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
from wheelsmith.engine import Exit, ExitReason
from wheelsmith.model import BuildPlan, Status, StepFinished
from wheelsmith.pipeline.cell_log import CellLog
from wheelsmith.pipeline.compile_step import CompileStep
from wheelsmith.pipeline.compiler_ipc import BuildEndedError, BuildOverdueError, CallExchange, PendingCall, RefusedError
from wheelsmith.pipeline.context import BuildContext
from wheelsmith.pipeline.failures import StageError, command_failed
from wheelsmith.pipeline.jobs import Job, group_phases, has_fixed_time
from wheelsmith.pipeline.tasks import MIB, PACK_SECONDS, Resources, Task, TaskAdder
from wheelsmith.plan.recipe.compiler_call import (
    CompilerCall,
    compiler_call,
    with_source_path,
    without_debug_information,
)
from wheelsmith.plan.recipe.phases import NotSplittableError, Phase, PhaseKind, single_phase
from wheelsmith.platforms import platforms


class Quota:
    """A limit on the bytes that all calls of a build may store together.

    :param limit: the limit in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = threading.Lock()

    @property
    def is_spent(self) -> bool:
        """Return True if the limit is exceeded."""
        return self._left < 0

    def take(self, size: int) -> None:
        """Add stored bytes. A negative number releases bytes."""
        with self._lock:
            self._left -= size

    def counted(self, content: Iterable[bytes]) -> Iterator[bytes]:
        """Yield chunks of content and add their sizes.

        :raises OutputError: the limit is exceeded.
        """
        for chunk in content:
            self.take(len(chunk))
            if self.is_spent:
                raise OutputError("the build compiled more than the disk limit")
            yield chunk


# Peak memory of one compiler process without an estimate, measured with torch/all.h of torch 2.11.
COMPILER_MEMORY = 2_700 * MIB
_DEFAULT_SECONDS = 60.0
_MAX_SHOWN = 200  # characters of a name in messages and reports
_COMPILE_OPTIONS = {"-c", "-dc", "--compile", "--device-c"}


def passthrough_call(
    name: str, what: str, pending: PendingCall, cell: str, context: BuildContext, log: CellLog
) -> Task:
    """Return a task that lets the proxy run the original call, with reserved memory.

    :param name: name of the task.
    :param what: the source or the output, for messages.
    """

    def run(memory: int) -> tuple[Task, ...]:
        del memory
        began = time.monotonic()
        log.start_command((pending.request.program, *pending.request.words))
        try:
            pending.end(pending.run(None))
        except BuildEndedError:
            return ()
        log.step(what)
        if _COMPILE_OPTIONS & set(pending.request.words):  # not for linking, which has no cached phases
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
        demand=Resources(memory=context.cap_memory(COMPILER_MEMORY)),
        rank=PACK_SECONDS + _DEFAULT_SECONDS,
        seconds=_DEFAULT_SECONDS,
    )


@dataclass(kw_only=True)
class InterceptedCompile(CompileStep):
    """A compiler call that compiles one source.

    :param pending: the call that waits for the object.
    :param call: its parsed arguments.
    :param quota: the limit of stored bytes of the build.
    """

    pending: PendingCall
    call: CompilerCall
    quota: Quota
    _is_over: bool = False
    _lines: list[str] = field(default_factory=list)
    _texts: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def source(self) -> str:
        """Return the end of the source's path as the caller named it, with control characters escaped."""
        return visible(self.call.source[-_MAX_SHOWN:])

    def _jobs(self, phases: tuple[Phase, ...]) -> tuple[Job, ...]:
        if not any(phase.kind is PhaseKind.PREPROCESS for phase in phases):
            return ()
        return group_phases(phases, together=not self.context.engine.starts_fast, in_place=True)

    def _phases(self, lines: Iterable[str]) -> tuple[Phase, ...]:
        source = self.call.source
        place = self.pending.request.places.get(source, source)
        phases = with_source_path(super()._phases(lines), source, place)
        # cudafe++ puts the modification time of the source into the names of internal symbols, or the current time if
        # the source does not exist. Only a source in the source folder can have a fixed time.
        return phases if has_fixed_time(phases) else single_phase(self.step)

    def _tasks(self, phases: tuple[Phase, ...]) -> tuple[Task, ...]:
        return super()._tasks(phases) or self._passthrough()

    def _dry_run(self, memory: int) -> tuple[Task, ...]:
        try:
            return super()._dry_run(memory)
        except StageError as error:
            return self._handle_failure(error)

    def _run(self, job: Job, task: str, memory: int) -> tuple[Task, ...]:
        if self._is_over:
            return ()
        if self.quota.is_spent:
            return self._passthrough()
        try:
            return super()._run(job, task, memory)
        except BuildEndedError:
            self._is_over = True
            return ()
        except StageError as error:
            return self._handle_failure(error)
        except RefusedError:
            raise
        except OutputError:
            return self._passthrough()

    def _handle_failure(self, error: StageError) -> tuple[Task, ...]:
        """Run the original call if the compiler reported an error. Raise the error if it exceeded a limit.

        The object of the original call has other internal names. A limit that is exceeded only sometimes must not
        decide which of the two is built.
        """
        if error.status is Status.CANCELLED:
            self._is_over = True
            return ()
        if error.reported:
            return self._passthrough()
        raise error

    def _execute(self, job: Job, cache_key: str | None, memory: int) -> None:
        if job.kind is not PhaseKind.PREPROCESS:
            super()._execute(job, cache_key, memory)
            return
        if self._is_over:  # the text was lost after the call had ended
            raise BuildEndedError
        began = time.monotonic()
        commands = tuple(self._preprocess_command(phase, n) for n, phase in enumerate(job.phases))
        for argv in commands:
            self.log.start_command(argv)
        code = self.pending.run(commands)
        if code:
            # The preprocessor printed the error in the sandbox.
            self._is_over = True
            self.pending.end(code)
            return
        for n, name in enumerate(job.writes):
            self._outputs.put(None, {name: self.quota.counted(self.pending.read(f"text-{n}"))}, ())
            self._texts[name] = self._outputs.size(name)
        self._report_done(job, Exit(reason=ExitReason.EXITED, code=0, seconds=time.monotonic() - began), ())

    def _preprocess_command(self, phase: Phase, number: int) -> tuple[str, ...]:
        """Return the command that preprocesses in the project's sandbox.

        The phase for the host, which every source has, also lists the included files.
        """
        place = phase.argv.index("-o") + 1
        text = (*phase.argv[:place], self.pending.path(f"text-{number}"), *phase.argv[place + 1 :])
        return text if phase.target else (*text, *self.call.dependency_options)

    def _write_object(self, job: Job) -> None:
        if self.step.output in job.writes:
            with self.pending.create_object() as file:
                self._outputs.copy(self.step.output, file)

    def _report_done(self, job: Job, exit_: Exit | None, lines: tuple[str, ...]) -> None:
        super()._report_done(job, exit_, lines)
        self._drop_texts(job.reads.values())
        if job.kind is not PhaseKind.PREPROCESS:
            self.quota.take(sum(self._outputs.size(name) for name in job.writes))
        self._lines += lines
        if self.step.output in job.writes:
            self._is_over = True
            self.pending.end(0, output=self.call.output, lines=tuple(self._lines))

    def _drop_texts(self, names: Iterable[str]) -> None:
        """Remove preprocessed texts and release their bytes."""
        for name in names:
            if size := self._texts.pop(name, 0):
                self._outputs.drop(name)
                self.quota.take(-size)

    def _passthrough(self) -> tuple[Task, ...]:
        """Return the task for the original call, but only once, because several phases may fail at the same time."""
        with self._lock:
            was_over, self._is_over = self._is_over, True
        if was_over:
            return ()
        self._drop_texts(tuple(self._texts))
        name = f"{self.name}:whole"
        return (passthrough_call(name, self.source, self.pending, self.plan.cell.id, self.context, self.log),)


@dataclass(kw_only=True)
class CompilerProxy:
    """Answers the compiler calls of one build until it ends.

    :param cancel: stops the command of the build when set.
    :param adder: the scheduler, which gets a task for each call.
    :param task: name of the task that runs the build. It counts as waiting after the first call.
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
    _quota: Quota = field(init=False)

    def __post_init__(self) -> None:
        self._quota = Quota(self.context.limits.disk)

    @contextlib.contextmanager
    def answering(self, work: Path) -> Iterator[None]:
        """Answer calls while the block runs.

        :param work: work folder of the build.
        :raises WheelsmithError: the files of the calls cannot be read.
        :raises StageError: the build failed or exceeded its time limit, not counting the time that it waited.
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
        except Exception as error:  # noqa: BLE001  # `answering` raises it
            self._error = error
            self.cancel.set()

    def _overdue(self, tail: tuple[str, ...]) -> StageError:
        limits = self.context.limits
        late = Exit(reason=ExitReason.TIMEOUT, code=-1, seconds=limits.seconds)
        return command_failed(self.log.stage, "the build", late, limits, tail)

    def _tasks(self, pending: PendingCall, number: int) -> tuple[Task, ...]:
        plan, context = self.plan, self.context
        request = pending.request
        name = f"{plan.cell.id}:call-{number}"
        try:
            call = compiler_call(request.program, request.words, nvcc=self._nvcc())
        except NotSplittableError:
            return (passthrough_call(name, _output_name(request.words), pending, plan.cell.id, context, self.log),)
        if self._strips():
            call = without_debug_information(call)
        return InterceptedCompile(
            name=name,
            step=call.step,
            group=plan.cell.id,
            plan=plan,
            context=context,
            work=context.folder / plan.cell.id / "work",
            folder=context.folder / plan.cell.id / "calls" / str(number),
            log=self.log,
            cancel=self._ended,
            pending=pending,
            call=call,
            quota=self._quota,
        ).tasks()

    def _strips(self) -> bool:
        """Return True if linkers remove debug information, which `env` in matrix.yaml can change."""
        project = self.plan.project
        return project is not None and "-s" in project.variables.get("LDFLAGS", "").split()

    def _nvcc(self) -> str | None:
        """Return the path of nvcc in the sandbox, or None without a pinned toolkit, whose calls are not intercepted."""
        toolkit = self.plan.toolkit
        if toolkit is None or toolkit.in_image:
            return None
        return f"{platforms()[self.plan.cell.platform].mount_point}/bin/nvcc"


def _output_name(words: tuple[str, ...]) -> str:
    """Return the name of a call's output, for messages."""
    output = next((word for before, word in itertools.pairwise(words) if before == "-o"), "")
    return visible(PurePosixPath(output).name[-_MAX_SHOWN:]) or "a compiler call"
