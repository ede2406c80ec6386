"""The compilers that a project's build system calls, while it runs: the board decides which of them, and when."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from wheelsmith.base.sanitize import visible
from wheelsmith.engine import Ending, Exit
from wheelsmith.model import BuildPlan
from wheelsmith.pipeline.cell_log import CellLog
from wheelsmith.pipeline.compiler_ipc import BuildOverdueError, CallExchange, WaitingCall
from wheelsmith.pipeline.context import BuildContext
from wheelsmith.pipeline.failures import StageError, command_failed
from wheelsmith.pipeline.intercepted_compile import LaunchedStep
from wheelsmith.pipeline.passthrough_call import WholeCall
from wheelsmith.pipeline.quota import Allowance
from wheelsmith.pipeline.tasks import Task, TaskAdder
from wheelsmith.plan.recipe.compiler_call import compiler_call
from wheelsmith.plan.recipe.phases import NotSplittableError
from wheelsmith.platforms import platforms

_TAIL = 3.0  # seconds of a link, and of packing


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
            whole = WholeCall(
                name=name,
                what=_made(request.words),
                waiting=waiting,
                cell=plan.cell.id,
                context=context,
                log=self.log,
                tail=_TAIL,
            )
            return (whole.task(),)
        return LaunchedStep(
            name=name,
            step=call.step,
            plan=plan,
            context=context,
            work=context.folder / plan.cell.id / "work",
            folder=context.folder / plan.cell.id / "calls" / str(number),
            log=self.log,
            cancel=self._ended,
            tail=_TAIL,
            waiting=waiting,
            call=call,
            allowance=self._allowance,
        ).tasks()

    def _nvcc(self) -> str | None:
        """Return where nvcc lies; None where there is none, or an image's own, before which nothing of ours stands."""
        toolkit = self.plan.toolkit
        if toolkit is None or toolkit.in_image:
            return None
        return f"{platforms()[self.plan.cell.platform].place}/bin/nvcc"


def _made(words: tuple[str, ...]) -> str:
    """Say what a call makes, for people."""
    output = next((word for before, word in itertools.pairwise(words) if before == "-o"), "")
    return visible(PurePosixPath(output).name) or "a compiler's call"
