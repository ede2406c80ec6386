"""Divide one build into tasks that the scheduler can run in parallel with those of other builds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from wheelsmith.base.beneath import WorkFolder
from wheelsmith.base.errors import OutputError, WheelsmithError
from wheelsmith.engine import Command, Exit, ExitReason, available_cores
from wheelsmith.model import BuildPlan, BuildResult, CellStarted, Failure, Notice, Status, Step
from wheelsmith.pipeline.build_host import check_build_host
from wheelsmith.pipeline.cell_log import CellLog, CommandOutput
from wheelsmith.pipeline.command import build_command, compile_steps, lay_out, without_compiling
from wheelsmith.pipeline.compile_step import CompileStep
from wheelsmith.pipeline.compiler_proxy import COMPILER_MEMORY, CompilerProxy
from wheelsmith.pipeline.context import BuildContext, log_name
from wheelsmith.pipeline.failures import command_failed, failure_of
from wheelsmith.pipeline.repair_job import RepairJob, only_wheel
from wheelsmith.pipeline.smoke import smoke_test, why_untested
from wheelsmith.pipeline.tasks import MIB, PACK_SECONDS, Resources, RetryTask, Task, TaskAdder
from wheelsmith.plan.recipe.remedies import failure_remedy, read_project_code
from wheelsmith.store import StoredWheel
from wheelsmith.wheel import CHECKING
from wheelsmith.wheel.checker_version import checker_digest

_PACK_MEMORY = 1024 * MIB
# Memory of a setup.py that imports torch.
_SETUP_MEMORY = 768 * MIB
_LONGEST_BUILD = 86_400.0  # seconds of a project's build, including the time that it waits for compile tasks


class CellBuild:
    """The build of one plan as tasks.

    :param needs: names of the tasks that prepare its toolchains.
    :param part: number and count: compile only every ``count``-th step from step ``number`` on, and make no wheel. None
        for a whole build.
    """

    def __init__(
        self, plan: BuildPlan, context: BuildContext, needs: tuple[str, ...], part: tuple[int, int] | None = None
    ) -> None:
        self.plan = plan
        self.part = part
        # A part and the whole build may run at the same time.
        self.name = plan.cell.id if part is None else f"{plan.cell.id}.{part[0]}of{part[1]}"
        self._context = context
        self._needs = needs
        self._cancel = threading.Event()
        self._log = CellLog(plan.cell.id, context.logs / f"{self.name}.log", context.listen)
        # The repair uses another folder than the build, because the build may leave links in its own.
        self._work = context.folder / self.name / "work"
        self._steps: tuple[CompileStep, ...] = ()
        # The plan of the last sandbox. Without isolation, one command also compiles everything.
        self._final_plan = without_compiling(plan) if context.engine.isolates else plan
        self._has_run = False
        self._adder: TaskAdder | None = None
        self._stored: StoredWheel | None = None
        self._status = Status.UPSTREAM if plan.repacked else Status.BUILT
        self._untested: str | None = None

    def tasks(self, adder: TaskAdder) -> tuple[Task, ...]:
        """Return the first task, which returns the following ones."""
        self._adder = adder
        start = Task(
            name=f"{self.name}:start",
            group=self.name,
            run=self._start,
            needs=self._needs,
            demand=Resources(cores=0),
            rank=1.0,  # above downloads, whose rank is 0: downloads of other builds must not delay this task
        )
        return (start,)

    def stop(self) -> None:
        """Kill the running commands of this build."""
        self._cancel.set()

    def result(self, error: BaseException | None) -> BuildResult:
        """Return the result of the build.

        :param error: the exception that a task raised, or None.
        """
        plan = self.plan
        status, failure = self._status, None
        if error is not None:
            failure, status = failure_of(error, self._log.stage)
            failure = self._with_remedy(failure) if plan.project and status is Status.FAILED else failure
        elif self._stored is None:
            failure, status = Failure(stage=self._log.stage, message="cancelled"), Status.CANCELLED
        self._log.close()
        return BuildResult(
            cell=plan.cell,
            plan_digest=plan.build_digest,
            status=status,
            wheel=self._stored.wheel if self._stored and failure is None else None,
            failure=failure,
            timings=self._log.timings,
            built_in=self._stored.timings if self._stored and status is Status.CACHED else (),
            log=log_name(plan) if (self._context.logs / log_name(plan)).exists() else None,
            untested=self._untested,
        )

    def _with_remedy(self, failure: Failure) -> Failure:
        """Return a project's failure with the remedy for a common mistake in its code, if there is one."""
        if failure.remedy:
            return failure
        source = self._context.source(self.plan)
        try:
            code = read_project_code(source.paths, source.read_bytes)
        except WheelsmithError:  # the source has changed since
            return failure
        remedy = failure_remedy(code, self.plan, failure.message, failure.tail)
        return replace(failure, remedy=remedy).escaped()

    def _start(self, memory: int) -> tuple[Task, ...]:
        del memory
        context, plan = self._context, self.plan
        context.listen(CellStarted(cell_id=plan.cell.id))
        stored = None if context.force else context.store.find(plan.build_digest)
        if stored and not (stored.of_machine and context.engine.isolates):
            self._status = Status.UPSTREAM if plan.repacked else Status.CACHED
            if stored.checked != checker_digest():
                return (self._task("check", partial(self._recheck, stored)),)
            self._stored = stored
            return self._test_task()
        self._log.enter("fetch")
        check_build_host(plan, context.engine)
        self._lay_out()
        steps = compile_steps(plan)
        if self.part is not None:
            number, count = self.part
            steps = steps[number::count] if context.engine.isolates and not plan.project else ()
            return tuple(task for step in self._compile(steps) for task in step.tasks())
        if context.engine.isolates and plan.project:
            return (self._task("build", self._build_project, memory=_SETUP_MEMORY),)
        if not context.engine.isolates or not steps:
            return (self._task("build", self._build, cores=context.cores, memory=_build_memory(plan, context)),)
        tasks = tuple(task for step in self._compile(steps) for task in step.tasks())
        objects = tuple(step.name for step in self._steps)
        return (*tasks, self._task("build", self._build, needs=objects))

    def _compile(self, steps: Iterable[Step]) -> tuple[CompileStep, ...]:
        """Enter the stage of compiling."""
        self._steps = tuple(
            CompileStep(
                name=f"{self.name}:{step.output}",
                group=self.name,
                step=step,
                plan=self.plan,
                context=self._context,
                work=self._work,
                folder=self._work.parent,
                log=self._log,
                cancel=self._cancel,
            )
            for step in steps
        )
        self._log.enter("compile")
        return self._steps

    def _lay_out(self) -> None:
        plan, context = self._final_plan, self._context
        lay_out(plan, context.source(plan), self._work, context.required_wheels(plan) if plan.project else ())

    def _task(
        self,
        name: str,
        run: Callable[[int], tuple[Task, ...]],
        *,
        cores: int = 1,
        memory: int = _PACK_MEMORY,
        needs: tuple[str, ...] = (),
    ) -> Task:
        return Task(
            name=f"{self.name}:{name}",
            group=self.name,
            run=run,
            needs=needs,
            demand=Resources(cores=cores, memory=self._context.cap_memory(memory)),
            rank=PACK_SECONDS,
            seconds=PACK_SECONDS,
        )

    def _build_project(self, memory: int) -> tuple[Task, ...]:
        """Run the build system of a project. Its compiler calls become tasks of this build."""
        assert self._adder is not None  # noqa: S101  # set by `tasks`
        self._log.enter("build")
        self._reset_work_folder(memory)
        context, made = self._context, build_command(self._final_plan, self._context, self._work)
        # The sandbox may use everything that a cell may. The scheduler reserves memory for each compiler call.
        cpus = float(min(context.all_cores, available_cores()))
        seconds = max(made.limits.seconds, _LONGEST_BUILD)
        command = replace(made, limits=replace(made.limits, cpus=cpus, seconds=seconds))
        proxy = CompilerProxy(
            plan=self.plan,
            context=self._context,
            log=self._log,
            cancel=self._cancel,
            adder=self._adder,
            task=f"{self.name}:build",
        )
        with proxy.answering(self._work):
            self._run(command, self._context.cap_memory(sys.maxsize))
        return (self._task("finish", self._repair),)

    def _build(self, memory: int) -> tuple[Task, ...]:
        """Link and pack the compiled objects, or build everything in one sandbox."""
        command = build_command(self._final_plan, self._context, self._work)
        cpus = 1.0 if self._steps else command.limits.cpus
        self._log.enter("build")
        self._reset_work_folder(memory)
        self._run(replace(command, limits=replace(command.limits, cpus=cpus, reserved=memory)), memory)
        return (self._task("finish", self._repair),)

    def _repair(self, memory: int) -> tuple[Task, ...]:
        """Repair, check and store the wheel of the build."""
        context = self._context
        job = RepairJob(plan=self.plan, engine=context.own_engine, folder=context.folder / self.name / "finish")
        with WorkFolder(self._work) as left:
            name = only_wheel(left)
            job.lay_out(name, left.chunks(f"dist/{name}", context.limits.disk))
        self._log.enter("repair")
        self._run_repair_job(job, memory, "repair and check")
        wheel = job.answer()
        self._log.enter("store")
        path = job.collect(wheel, context.folder / self.name)
        compiled = bool(self.plan.project or self.plan.recipe.steps)
        self._stored = context.store.put(
            self.plan.build_digest,
            path,
            wheel,
            checked=checker_digest(),
            timings=self._log.timings,
            of_machine=compiled and not context.engine.isolates,
        )
        return self._test_task()

    def _recheck(self, stored: StoredWheel, memory: int) -> tuple[Task, ...]:
        """Check a stored wheel again that passed another version of the checker, without building it again."""
        context = self._context
        self._log.enter("check")
        folder = context.folder / self.name / "finish"
        again = "wheelsmith.wheel.operations:check_again"
        job = RepairJob(plan=self.plan, engine=context.own_engine, folder=folder, operation=again)
        with stored.path.open("rb") as file:
            job.lay_out(stored.wheel.filename, iter(partial(file.read, MIB), b""))
        self._run_repair_job(job, memory, "check again")
        found = job.answer()
        # An older checker may not have read the GPU architectures.
        if replace(found, gpu_archs=()) != replace(stored.wheel, gpu_archs=()):
            raise OutputError("the wheel in the store changed while it was checked")
        checked = replace(stored, wheel=found, checked=checker_digest())
        self._stored = context.store.mark_checked(self.plan.build_digest, checked)
        return self._test_task()

    def _run_repair_job(self, job: RepairJob, memory: int, what: str) -> None:
        command = job.command(self._context.limits, memory)
        with self._log.command(what, command.argv) as output:

            def read(line: str) -> None:
                if line == CHECKING:
                    self._log.enter("check")
                else:
                    output.read(line)

            exit_ = job.engine.run(command, read, self._cancel)
        self._check_exit(exit_, command, memory, "the repair and check", output)

    def _reset_work_folder(self, memory: int) -> None:
        """Recreate the work folder if an earlier attempt was killed, because it may contain incomplete objects."""
        if self._has_run:
            self._lay_out()
            for step in self._steps:
                step.put_object(memory)
        self._has_run = True

    def _run(self, command: Command, memory: int) -> None:
        with self._log.command("link and pack" if self.plan.project is None else "build", command.argv) as output:
            exit_ = self._context.engine.run(command, output.read, self._cancel)
        self._check_exit(exit_, command, memory, "the build", output)

    def _check_exit(self, exit_: Exit, command: Command, memory: int, what: str, output: CommandOutput) -> None:
        """Raise if a command failed.

        :raises RetryTask: it ran out of memory and may have more.
        :raises StageError: it failed for another reason.
        """
        if exit_.reason is ExitReason.OUT_OF_MEMORY and (more := self._context.cap_memory(2 * memory)) > memory:
            raise RetryTask(memory=more)
        if not exit_.ok:
            raise command_failed(self._log.stage, what, exit_, command.limits, output.tail, output.excerpt)

    def _test_task(self) -> tuple[Task, ...]:
        return (self._task("test", self._test),) if self._context.test(self.plan) else ()

    def _test(self, memory: int) -> tuple[Task, ...]:
        del memory
        context, plan, stored = self._context, self.plan, self._stored
        test = context.test(plan)
        assert test is not None  # noqa: S101  # see `_test_task`
        assert stored is not None  # noqa: S101  # set before the test task is created
        self._log.enter("test")
        self._untested = why_untested(plan, context.engine, context.toolchains.toolchains)
        if self._untested:
            context.listen(Notice(level="warning", text=f"{plan.cell.id} is not tested: {self._untested}"))
            return ()
        with self._log.command("test", ("sh", "-c", test)) as output:
            exit_: Exit = smoke_test(
                plan,
                stored.path,
                test,
                context.folder / self.name / "test",
                context=context,
                on_line=output.read,
                cancel=self._cancel,
            )
        if not exit_.ok:
            raise command_failed("test", "the test", exit_, context.limits, output.tail)
        return ()


def _build_memory(plan: BuildPlan, context: BuildContext) -> int:
    compilers = max(1, min(context.cores, len(compile_steps(plan)) if plan.project is None else context.cores))
    return compilers * COMPILER_MEMORY if plan.toolset else _PACK_MEMORY
