"""One compile step of one cell: its phases as tasks, each run in a sandbox of its own, or found in the store."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from wheelsmith import layout
from wheelsmith.engine import Command, Ending, Exit, Mount
from wheelsmith.events import StepFinished
from wheelsmith.files import remove_tree, sha256_file
from wheelsmith.model import BuildPlan, Failure, Step, StepKind
from wheelsmith.pipeline.command import command_name, toolchain_mounts
from wheelsmith.pipeline.diary import Diary, Page
from wheelsmith.pipeline.failures import StageFailed, command_failed
from wheelsmith.pipeline.workshop import Workshop
from wheelsmith.recipe import phases as trajectory
from wheelsmith.recipe.phases import Phase, PhaseKind, Unsplittable
from wheelsmith.record import canonical_digest
from wheelsmith.store import Cost, Damaged, Output
from wheelsmith.store.objects import FORMAT
from wheelsmith.tasks import MIB, Again, Demand, Task

# What a phase needs when nothing like it was ever run: measured with torch/all.h of torch 2.11.
_UNKNOWN = {
    PhaseKind.PREPROCESS: Cost(seconds=2.0, memory=400 * MIB),
    PhaseKind.CUDAFE: Cost(seconds=20.0, memory=2000 * MIB),
    PhaseKind.CICC: Cost(seconds=20.0, memory=2700 * MIB),
    PhaseKind.PTXAS: Cost(seconds=2.0, memory=500 * MIB),
    PhaseKind.FATBINARY: Cost(seconds=0.1, memory=200 * MIB),
    PhaseKind.HOST: Cost(seconds=12.0, memory=1400 * MIB),
    PhaseKind.WHOLE: Cost(seconds=60.0, memory=2700 * MIB),
}
_HEADROOM = 1.15  # over the memory that a phase needed before
_SPARE = 64 * MIB
_RUNNER = f"{layout.TOOLS}/site/wheelsmith/backend/phases.py"
_PHASES = "build/phases.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A file that a phase made: in the store, or at a path of this run."""

    sha256: str
    at: Path | Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Phases that are run in one sandbox, one after another.

    :param reads: file that it sees → file that an earlier job made.
    :param writes: files that later jobs read, or the object.
    """

    name: str
    kind: PhaseKind
    phases: tuple[Phase, ...]
    reads: dict[str, str]
    writes: tuple[str, ...]


def jobs_of(phases: tuple[Phase, ...], *, together: bool) -> tuple[Job, ...]:
    """Share phases out among sandboxes.

    :param together: in two of them, what preprocesses and what compiles, because starting one takes long.
    """
    if not together:
        return tuple(
            Job(name=phase.name, kind=phase.kind, phases=(phase,), reads=phase.reads, writes=phase.writes)
            for phase in phases
        )
    first = tuple(phase for phase in phases if phase.kind is PhaseKind.PREPROCESS)
    rest = tuple(phase for phase in phases if phase.kind is not PhaseKind.PREPROCESS)
    texts = tuple(name for phase in first for name in phase.writes)
    found = [Job(name="preprocess", kind=PhaseKind.PREPROCESS, phases=first, reads={}, writes=texts)] if first else []
    kind = PhaseKind.WHOLE if len(rest) > 1 else rest[0].kind
    compile_ = Job(name="compile", kind=kind, phases=rest, reads={name: name for name in texts}, writes=rest[-1].writes)
    return (*found, compile_)


@dataclass(slots=True, kw_only=True)
class Piece:
    """One compile step of one cell.

    :param work: the cell's folder, laid out.
    :param tail: seconds that the cell takes after its objects.
    """

    step: Step
    plan: BuildPlan
    workshop: Workshop
    work: Path
    diary: Diary
    cancel: threading.Event
    tail: float
    _jobs: dict[str, Job] = field(default_factory=dict)
    _made: dict[str, Made] = field(default_factory=dict)
    _makers: dict[str, Job] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Give the name of the task that makes the object."""
        return f"{self.plan.cell.id}:{self.step.output}"

    @property
    def source(self) -> str:
        """Give the source file."""
        return trajectory.source_of(self.step)

    def tasks(self) -> tuple[Task, ...]:
        """Give the tasks to begin with; nvcc must say first what its phases are."""
        try:
            trajectory.check_tame(self.step)
        except Unsplittable:
            return self._tasks(trajectory.whole(self.step))
        if self.step.kind is StepKind.CXX:
            return self._tasks(trajectory.host_phases(self.step))
        path = (PhaseKind.PREPROCESS, PhaseKind.CUDAFE, PhaseKind.CICC, PhaseKind.HOST)
        rank = self.tail + sum(self._cost(kind, "").seconds for kind in path)
        demand = Demand(memory=200 * MIB)
        group = self.plan.cell.id
        return (Task(name=f"{self.name}:phases", group=group, run=self._split, rank=rank, demand=demand, seconds=0.1),)

    # --- which phases ---------------------------------------------------------------------------------------

    def _split(self, memory: int) -> tuple[Task, ...]:
        """Ask nvcc what it would do."""
        job = Job(name="phases", kind=PhaseKind.FATBINARY, phases=(), reads={}, writes=())
        argv = trajectory.dry_run(self.step)
        key = self._key(argv, {})
        action = self.workshop.objects.find(key) if self.workshop.reuse else None
        if action is not None:
            return self._tasks(self._phases(action.lines))
        folder = self._folder(job)
        lines: list[str] = []
        try:
            command = self._command(job, argv, folder, memory)
            exit_ = self.workshop.engine.run(command, lines.append, self.cancel)
        finally:
            remove_tree(folder)
        if not exit_.ok:
            with self.diary.command(f"{self.source}: {job.name}") as page:
                for line in lines:
                    page.read(line)
            raise command_failed("compile", f"nvcc, asked about {self.source},", exit_, command.limits, page.tail)
        if self.workshop.reuse:
            self.workshop.objects.put(key, {}, tuple(lines))
        return self._tasks(self._phases(lines))

    def _phases(self, lines: Iterable[str]) -> tuple[Phase, ...]:
        try:
            return trajectory.device_phases(self.step, "\n".join(lines))
        except Unsplittable:
            return trajectory.whole(self.step)

    def _tasks(self, phases: tuple[Phase, ...]) -> tuple[Task, ...]:
        jobs = jobs_of(phases, together=not self.workshop.engine.starts_at_once)
        self.diary.expect(len(jobs))
        self._makers = {name: job for job in jobs for name in job.writes}
        self._jobs = {self._task_name(job): job for job in jobs}
        ranks: dict[str, float] = {}
        for job in reversed(jobs):
            later = (ranks[user.name] for user in jobs if set(user.reads.values()) & set(job.writes))
            ranks[job.name] = self._job_cost(job).seconds + max(later, default=self.tail)
        return tuple(self._task(job, ranks[job.name]) for job in jobs)

    def _task_name(self, job: Job) -> str:
        return self.name if self.step.output in job.writes else f"{self.name}:{job.name}"

    def _task(self, job: Job, rank: float) -> Task:
        name = self._task_name(job)
        cost = self._job_cost(job)
        return Task(
            name=name,
            group=self.plan.cell.id,
            run=lambda memory: self._run(job, name, memory),
            needs=tuple(dict.fromkeys(self._task_name(self._makers[made]) for made in job.reads.values())),
            demand=Demand(memory=self._most(int(cost.memory * _HEADROOM) + _SPARE)),
            rank=rank,
            seconds=cost.seconds,
        )

    # --- what it costs --------------------------------------------------------------------------------------

    def _most(self, memory: int) -> int:
        """Bound what a phase may take by what a cell may, and the whole run."""
        return min(memory, self.workshop.limits.memory or memory, self.workshop.memory)

    def _cost_keys(self, kind: PhaseKind, target: str) -> tuple[str, ...]:
        """Name a phase for its costs, as itself and as it is with any torch."""
        wheel, cell = self.plan.wheel, self.plan.cell
        own = f"{wheel.distribution} {self.step.output} {kind} {target} {cell.compute} {cell.arch}"
        return f"{own} torch{cell.torch}", own

    def _cost(self, kind: PhaseKind, target: str) -> Cost:
        return self.workshop.costs.find(self._cost_keys(kind, target)) or _UNKNOWN[kind]

    def _job_cost(self, job: Job) -> Cost:
        return self._cost(job.kind, job.phases[0].target if len(job.phases) == 1 else "together")

    # --- one job --------------------------------------------------------------------------------------------

    def _run(self, job: Job, task: str, memory: int) -> tuple[Task, ...]:
        if job.kind is PhaseKind.PREPROCESS:
            self._do(job, None, memory)
            return ()
        key = self._job_key(job)
        if self.workshop.reuse:
            if self._found(job, key):
                return ()
            if other := self.workshop.making.claim(key, task):
                raise Again(after=other)
        try:
            self._do(job, key, memory)
        finally:
            self.workshop.making.release(key)
        return ()

    def _found(self, job: Job, key: str) -> bool:
        action = self.workshop.objects.find(key)
        if action is None or not set(job.writes).issubset(action.outputs):
            return False
        made = {name: action.outputs[name] for name in job.writes}
        if self.step.output in made:
            try:
                self._keep_object(self.workshop.objects.read(made[self.step.output]))
            except Damaged:
                return False
        self._made.update({name: Made(sha256=output.sha256, at=output) for name, output in made.items()})
        self.diary.reuse(f"{self.source}: {job.name}", action.lines)
        self._drop_texts(job)
        self._tell(job, None)
        return True

    def _do(self, job: Job, key: str | None, memory: int) -> None:
        folder = self._folder(job)
        try:
            self._lay_out(job, folder, memory)
            with self.diary.command(f"{self.source}: {job.name}") as page:
                exit_ = self._run_in_sandbox(job, folder, memory, page)
            made = {name: _regular(folder / name) for name in job.writes}
            if key is None:
                # Texts are large, and made anew each time: it is by them that all else is found.
                self._made.update({name: self._keep_text(path, name) for name, path in made.items()})
            else:
                self._keep(key, {name: path.read_bytes() for name, path in made.items()}, page)
        finally:
            remove_tree(folder)
        self._drop_texts(job)
        self._tell(job, exit_)

    def _run_in_sandbox(self, job: Job, folder: Path, memory: int, page: Page) -> Exit:
        one = job.phases[0].argv if len(job.phases) == 1 else ("python3", _RUNNER, _PHASES)
        command = self._command(job, one, folder, memory)
        exit_ = self.workshop.engine.run(command, page.read, self.cancel)
        target = job.phases[0].target if len(job.phases) == 1 else "together"
        if exit_.ending is Ending.OUT_OF_MEMORY and (more := self._most(2 * memory)) > memory:
            raise Again(memory=more)
        if not exit_.ok:
            limits = command.limits
            raise command_failed("compile", f"{self.source} does not compile: {job.name}", exit_, limits, page.tail)
        cost = Cost(seconds=exit_.seconds, memory=exit_.peak_memory or memory)
        self.workshop.costs.learn(self._cost_keys(job.kind, target), cost)
        return exit_

    def _lay_out(self, job: Job, folder: Path, memory: int) -> None:
        for name in {*job.writes, *job.reads, *(name for phase in job.phases for name in phase.writes)}:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        for seen, name in job.reads.items():
            # A copy: whatever runs in the sandbox must not reach the file that others read.
            (folder / seen).write_bytes(self._content(name, memory))
        if len(job.phases) > 1:
            commands = [list(phase.argv) for phase in job.phases]
            (folder / _PHASES).write_text(json.dumps(commands), encoding="utf-8")

    def _content(self, name: str, memory: int) -> bytes:
        """Give what a file holds, making it again when it is gone."""
        made = self._made[name]
        try:
            return made.at.read_bytes() if isinstance(made.at, Path) else self.workshop.objects.read(made.at)
        except (Damaged, FileNotFoundError):
            maker = self._makers[name]
            self._do(maker, None if maker.kind is PhaseKind.PREPROCESS else self._job_key(maker), memory)
            return self._content(name, memory)

    def _command(self, job: Job, argv: tuple[str, ...], folder: Path, memory: int) -> Command:
        mounts = [Mount(source=folder / "build", target=layout.BUILD, writable=True)]
        sees_source = any(trajectory.needs_source(phase) for phase in job.phases)
        mounts += toolchain_mounts(self.plan, self.workshop, headers=sees_source)
        if sees_source:
            mounts.append(Mount(source=self.work / "src", target=layout.SOURCE))
        if len(job.phases) > 1:
            mounts.append(Mount(source=self.workshop.toolchains.toolchains.tools(), target=layout.TOOLS))
        return Command(
            name=f"{command_name(self.plan)}-{canonical_digest(self._task_name(job))[:8]}",
            argv=argv,
            mounts=tuple(mounts),
            env={**self.plan.environment, **_QUICK_MEMORY},
            workdir=layout.WORK,
            limits=replace(self.workshop.limits, cpus=1.0, reserved=memory),
            image=self.plan.image,
        )

    def _folder(self, job: Job) -> Path:
        folder = self.work.parent / "phases" / canonical_digest(self._task_name(job))[:16]
        remove_tree(folder)
        (folder / "build").mkdir(parents=True)
        return folder

    # --- what it gives --------------------------------------------------------------------------------------

    def _job_key(self, job: Job) -> str:
        if job.phases[0].kind is PhaseKind.WHOLE:
            # It may read anything that it sees.
            seen = {"source": self.plan.source.tree, "generated": canonical_digest(self.plan.recipe.generated)}
            seen["torch"] = self.plan.torch.digest if self.plan.torch else ""
            return self._key(job.phases[0].argv, seen)
        reads = {seen: self._made[name].sha256 for seen, name in job.reads.items()}
        return self._key([list(phase.argv) for phase in job.phases], reads)

    def _key(self, commands: object, reads: dict[str, str]) -> str:
        """Name a command by all that decides its result: itself, its inputs and every program that may run."""
        cuda = self.plan.cuda if self.step.kind is StepKind.NVCC else None
        return canonical_digest(
            {
                "format": FORMAT,
                "commands": commands,
                "reads": reads,
                "compilers": self.plan.toolset.digest if self.plan.toolset else "",
                "cuda": cuda.digest if cuda else "",
                "programs": self.workshop.toolchains.toolchains.programs(cuda) if cuda else {},
                "environment": self.plan.environment,
            }
        )

    def _keep_text(self, path: Path, name: str) -> Made:
        kept = self.work.parent / "texts" / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        path.rename(kept)
        return Made(sha256=sha256_file(kept), at=kept)

    def _drop_texts(self, job: Job) -> None:
        """Remove the texts that a job read: nobody else does, and a large kernel's are gigabytes."""
        for name in job.reads.values():
            made = self._made[name]
            if self._makers[name].kind is PhaseKind.PREPROCESS and isinstance(made.at, Path):
                made.at.unlink(missing_ok=True)

    def _keep(self, key: str, made: dict[str, bytes], page: Page) -> None:
        if self.workshop.reuse:
            action = self.workshop.objects.put(key, made, page.head)
            outputs = action.outputs.items()
            self._made.update({name: Made(sha256=output.sha256, at=output) for name, output in outputs})
        else:
            self._made.update({name: self._keep_private(name, content) for name, content in made.items()})
        if content := made.get(self.step.output):
            self._keep_object(content)

    def _keep_private(self, name: str, content: bytes) -> Made:
        kept = self.work.parent / "texts" / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(content)
        return Made(sha256=sha256_file(kept), at=kept)

    def _keep_object(self, content: bytes) -> None:
        path = self.work / self.step.output
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def _tell(self, job: Job, exit_: Exit | None) -> None:
        self.diary.step(f"{self.source}: {job.name}")
        self.workshop.listen(
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


# cudafe++ and cicc take a gigabyte from malloc in small steps; asking for more at once saves a tenth of their time.
# https://www.gnu.org/software/libc/manual/html_node/Memory-Allocation-Tunables.html
_QUICK_MEMORY = {
    "GLIBC_TUNABLES": ":".join(
        f"glibc.malloc.{name}={value}"
        for name, value in {
            "hugetlb": 1,
            "top_pad": 256 * MIB,
            "mmap_threshold": 1024 * MIB,
            "trim_threshold": 4096 * MIB,
        }.items()
    )
}


def _regular(path: Path) -> Path:
    """Give a file that a sandbox left, when it is a file indeed: a link would be followed out here."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        mode = 0
    if not stat.S_ISREG(mode):
        raise StageFailed(Failure(stage="compile", message=f"the compiler left no regular file {path.name}"))
    return path
