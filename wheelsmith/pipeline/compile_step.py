"""Run the phases of one compile step as tasks. Each takes its result from the cache or runs in a new sandbox."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder, remove_tree
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.engine import Command, Exit, ExitReason, Mount
from wheelsmith.model import BuildPlan, Step, StepFinished, StepKind
from wheelsmith.pipeline.cell_log import CellLog, CommandOutput
from wheelsmith.pipeline.command import compile_command, host_compiler_mounts, toolchain_mounts
from wheelsmith.pipeline.context import BuildContext
from wheelsmith.pipeline.failures import command_failed, lacks_declaration
from wheelsmith.pipeline.jobs import NAMED, Estimates, Job, all_inputs, group_phases, job_key
from wheelsmith.pipeline.outputs import OutputLostError, StepOutputs
from wheelsmith.pipeline.tasks import MIB, PACK_SECONDS, Resources, RetryTask, Task
from wheelsmith.plan.recipe import phases as trajectory
from wheelsmith.plan.recipe.phases import NotSplittableError, Phase, PhaseKind
from wheelsmith.store import Cost

_HEADROOM = 1.1  # factor over the memory that a phase needed before
_SPARE = 64 * MIB
_TRANSLATED = "lines below build/hip are those of the source after torch's hipify, which adds an include at the start"
_DRY_RUN_MEMORY = 200 * MIB


@dataclass(kw_only=True)
class CompileStep:
    """One compile step of one cell.

    :param name: name of the task that creates the object.
    :param group: name of the build, for the scheduler.
    :param work: the work folder of the cell, which gets the object.
    :param folder: a folder that no sandbox can access.
    """

    name: str
    group: str
    step: Step
    plan: BuildPlan
    context: BuildContext
    work: Path
    folder: Path
    log: CellLog
    cancel: threading.Event
    _producers: dict[str, Job] = field(default_factory=dict)
    _outputs: StepOutputs = field(init=False)
    _estimates: Estimates = field(init=False)
    _depends_on_machine: bool = field(init=False)

    def __post_init__(self) -> None:
        self._outputs = StepOutputs(self.folder / "texts", self.context.objects if self.context.reuse else None)
        self._estimates = Estimates(self.step, self.plan, self.context)
        self._depends_on_machine = trajectory.depends_on_machine(self.step)

    @property
    def source(self) -> str:
        """Return the source file, relative to the kernel's folder."""
        return self.step.source or self.step.output

    def tasks(self) -> tuple[Task, ...]:
        """Return the first tasks. For nvcc it is a dry run, which lists the phases."""
        try:
            trajectory.check_splittable(self.step)
        except NotSplittableError:
            return self._tasks(trajectory.single_phase(self.step))
        if self.step.kind is StepKind.CXX:
            return self._tasks(trajectory.host_phases(self.step))
        path = self._estimates.path((PhaseKind.PREPROCESS, PhaseKind.CUDAFE, PhaseKind.CICC, PhaseKind.HOST))
        return (
            Task(
                name=f"{self.name}:phases",
                group=self.group,
                run=self._dry_run,
                demand=Resources(memory=_DRY_RUN_MEMORY),
                rank=PACK_SECONDS + path,
                seconds=0.1,
            ),
        )

    def put_object(self, memory: int) -> None:
        """Write the object to the work folder again after the folder was recreated.

        :param memory: bytes that may be used to compile it again if it is lost.
        """
        with WorkFolder(self.work) as work:
            self._copy(self.step.output, work, self.step.output, memory)

    # --- phases and jobs ------------------------------------------------------------------------------------

    def _dry_run(self, memory: int) -> tuple[Task, ...]:
        """Run nvcc with ``--dryrun`` and return the tasks of its phases."""
        argv = trajectory.dry_run(self.step)
        cache_key = job_key(self.step, self.plan, self.context, argv, {})
        action = self.context.objects.find(cache_key) if self.context.reuse else None
        if action is not None:
            return self._tasks(self._phases(action.lines))
        ask = Job(name="phases", kind=PhaseKind.FATBINARY, phases=(), reads={}, writes=())
        lines: list[str] = []
        folder = self._folder(ask)
        try:
            command = self._command(ask, argv, folder, memory)
            exit_ = self.context.engine.run(command, lines.append, self.cancel)
        finally:
            remove_tree(folder)
        if not exit_.ok:
            with self.log.command(f"{self.source}: {ask.name}", argv) as output:
                for line in lines:
                    output.read(line)
            raise command_failed(
                "compile", f"nvcc --dryrun for {self.source}", exit_, command.limits, output.tail, output.excerpt
            )
        if self.context.reuse:
            self.context.objects.put(cache_key, {}, tuple(lines))
        return self._tasks(self._phases(lines))

    def _phases(self, lines: Iterable[str]) -> tuple[Phase, ...]:
        try:
            return trajectory.device_phases(self.step, "\n".join(lines))
        except NotSplittableError:
            return trajectory.single_phase(self.step)

    def _tasks(self, phases: tuple[Phase, ...]) -> tuple[Task, ...]:
        jobs = self._jobs(phases)
        self.log.expect(len(jobs))
        self._producers = {name: job for job in jobs for name in job.writes}
        ranks: dict[str, float] = {}
        for job in reversed(jobs):
            later = (ranks[user.name] for user in jobs if set(user.reads.values()) & set(job.writes))
            ranks[job.name] = self._estimates.seconds(job) + max(later, default=PACK_SECONDS)
        return tuple(self._task(job, ranks[job.name]) for job in jobs)

    def _jobs(self, phases: tuple[Phase, ...]) -> tuple[Job, ...]:
        return group_phases(phases, together=not self.context.engine.starts_fast)

    def _task_name(self, job: Job) -> str:
        return self.name if self.step.output in job.writes else f"{self.name}:{job.name}"

    def _task(self, job: Job, rank: float) -> Task:
        name = self._task_name(job)
        return Task(
            name=name,
            group=self.group,
            run=lambda memory: self._run(job, name, memory),
            needs=tuple(dict.fromkeys(self._task_name(self._producers[made]) for made in job.reads.values())),
            estimate=lambda: self._estimate(job),
            rank=rank,
        )

    def _estimate(self, job: Job) -> tuple[Resources, float]:
        """Estimate memory and time of a job, with the sizes of its inputs."""
        recorded = self._estimates.find(job)
        cost = recorded or self._estimates.guess(job, self._size(job))
        memory = self.context.cap_memory(int(cost.memory * _HEADROOM) + _SPARE)
        return Resources(memory=memory, is_guess=recorded is None), cost.seconds

    def _size(self, job: Job) -> int | None:
        """Return the bytes of a job's inputs, or None if unknown."""
        return sum(self._outputs.size(name) for name in job.reads.values()) or None

    # --- one job --------------------------------------------------------------------------------------------

    def _run(self, job: Job, task: str, memory: int) -> tuple[Task, ...]:
        cache_key = self._cache_key(job)
        if cache_key is None or not self.context.reuse:
            self._execute(job, cache_key, memory)
            return ()
        if other := self.context.claims.claim(cache_key, task):
            raise RetryTask(after=other)
        try:
            if not self._restore(job, cache_key):
                self._execute(job, cache_key, memory)
        finally:
            self.context.claims.release(cache_key)
        return ()

    def _cache_key(self, job: Job) -> str | None:
        """Return the cache key of a job, or None if its output must not be cached.

        Preprocessed text is not cached. It is large, and the keys of the later jobs contain its hash.
        """
        if job.kind is PhaseKind.PREPROCESS or self._depends_on_machine:
            return None
        reads = {seen: self._outputs.digest(name) for seen, name in job.reads.items()}
        reads = all_inputs(self.plan) if job.reads_anything else reads
        commands = [list(phase.argv) for phase in job.phases]
        if job.named_source:
            commands.append(["of", sandbox_paths.SOURCE_DATE_EPOCH])
        return job_key(self.step, self.plan, self.context, commands, reads, job.writes)

    def _restore(self, job: Job, cache_key: str) -> bool:
        action = self.context.objects.find(cache_key)
        if action is None or not set(job.writes).issubset(action.outputs):
            return False
        self._outputs.add_stored(action, job.writes)
        try:
            self._write_object(job)
        except OutputLostError:
            return False
        self.log.reuse(f"{self.source}: {job.name}", action.lines)
        self._report_done(job, None, action.lines)
        return True

    def _execute(self, job: Job, cache_key: str | None, memory: int) -> None:
        # Other jobs of the project may have raised the estimate since.
        if self._estimate(job)[0].memory > memory:
            raise RetryTask
        folder = self._folder(job)
        try:
            with WorkFolder(folder) as work:
                job.lay_out(work)
                for seen, name in job.reads.items():
                    # Copy the file, because the sandbox must not be able to change the original.
                    self._copy(name, work, seen, memory)
                with self.log.command(f"{self.source}: {job.name}", job.argv) as output:
                    exit_ = self._run_in_sandbox(job, folder, memory, output)
                made = {name: work.chunks(name, self.context.limits.disk) for name in job.writes}
                self._outputs.put(cache_key, made, output.head)
        finally:
            remove_tree(folder)
        self._write_object(job)
        self._report_done(job, exit_, output.head)

    def _copy(self, name: str, work: WorkFolder, seen: str, memory: int) -> None:
        """Copy a file to the folder of a command. If the file is lost, create it again."""
        try:
            with work.create(seen) as file:
                self._outputs.copy(name, file)
        except OutputLostError:
            producer = self._producers[name]
            # The job that creates it may need more memory than this one.
            if (needed := self._estimate(producer)[0].memory) > memory:
                raise RetryTask(memory=needed) from None
            self._execute(producer, self._cache_key(producer), memory)
            with work.create(seen) as file:
                self._outputs.copy(name, file)

    def _run_in_sandbox(self, job: Job, folder: Path, memory: int, output: CommandOutput) -> Exit:
        command = self._command(job, job.argv, folder, memory)
        exit_ = self.context.engine.run(command, output.read, self.cancel)
        if exit_.reason is ExitReason.OUT_OF_MEMORY and (more := self.context.cap_memory(2 * memory)) > memory:
            self._estimates.record_shortfall(job, self._size(job), _without_headroom(memory), _without_headroom(more))
            raise RetryTask(memory=more)
        if not exit_.ok:
            limits = command.limits
            failed = command_failed("compile", f"{self.source}: {job.name}", exit_, limits, output.tail, output.excerpt)
            light = self.plan.cell.settings.torch_headers == "light"
            if light and exit_.reason is ExitReason.EXITED and lacks_declaration((*output.head, *output.tail)):
                failed.failure = replace(failed.failure, remedy="light headers may lack it; set torch-headers: whole")
            if self.step.kind is StepKind.HIP and exit_.reason is ExitReason.EXITED and not failed.failure.remedy:
                failed.failure = replace(failed.failure, remedy=_TRANSLATED)
            raise failed
        self._estimates.learn(job, self._size(job), Cost(seconds=exit_.seconds, memory=exit_.peak_memory or memory))
        return exit_

    def _command(self, job: Job, argv: tuple[str, ...], folder: Path, memory: int) -> Command:
        # A job must not see files that its key does not cover. For example, .incbin in assembler code reads files whose
        # content is not in the preprocessed text.
        is_seen = job.sees_source or self.step.kind is StepKind.NVCC
        mounts = toolchain_mounts(self.plan, self.context, headers=job.sees_source) if is_seen else ()
        mounts = (*host_compiler_mounts(self.plan, self.context), *mounts)
        mounts = (Mount(source=folder / "build", target=sandbox_paths.BUILD, writable=True), *mounts)
        if job.sees_source:
            mounts = (*mounts, Mount(source=self.work / "src", target=sandbox_paths.SOURCE))
        elif job.named_source:
            mounts = (*mounts, Mount(source=folder / NAMED, target=sandbox_paths.SOURCE))
        if len(job.phases) > 1 or self.step.kind is StepKind.HIP:
            mounts = (*mounts, Mount(source=self.context.toolchains.toolchains.tools(), target=sandbox_paths.TOOLS))
        return compile_command(self.plan, self.context.limits, argv, mounts, name=folder.name, memory=memory)

    def _folder(self, job: Job) -> Path:
        folder = self.folder / "phases" / canonical_digest(self._task_name(job))[:16]
        remove_tree(folder)
        with WorkFolder.make(folder) as work:
            work.make_folder("build")
        return folder

    def _write_object(self, job: Job) -> None:
        """Write the object to the work folder."""
        if self.step.output in job.writes:
            with WorkFolder(self.work) as work, work.create(self.step.output) as file:
                self._outputs.copy(self.step.output, file)

    def _report_done(self, job: Job, exit_: Exit | None, lines: tuple[str, ...]) -> None:
        del lines  # a subclass passes them to the caller of the compiler
        for name in job.reads.values():
            # Only this job reads the preprocessed text. The texts of a large kernel have gigabytes.
            if self._producers[name].kind is PhaseKind.PREPROCESS:
                self._outputs.drop(name)
        self.log.step(f"{self.source}: {job.name}")
        self.context.listen(
            StepFinished(
                cell_id=self.plan.cell.id,
                step=f"{self.source}: {job.name}",
                kind=str(job.kind),
                seconds=exit_.seconds if exit_ else 0.0,
                cpu=exit_.cpu if exit_ else 0.0,
                peak_memory=exit_.peak_memory if exit_ else None,
                reused=exit_ is None,
            )
        )


def _without_headroom(memory: int) -> int:
    """Return the estimate for which a job gets this memory."""
    return int((memory - _SPARE) / _HEADROOM)
