"""A sandbox in which a script calls compilers as a project's build system does, and the board that answers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

from plans import plan

from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder
from wheelsmith.engine import Command, Exit, Limits, Mount, available_memory, engines
from wheelsmith.model import BuildPlan, BuildResult, Failure, Project, Status, StepFinished, Toolset, WheelRecord
from wheelsmith.pipeline import BuildContext, ToolchainPrefetcher
from wheelsmith.pipeline.cell_log import CellLog
from wheelsmith.pipeline.compiler_proxy import CompilerProxy
from wheelsmith.pipeline.tasks import MIB, Resources, Task
from wheelsmith.run.schedule import Capacity, run_builds
from wheelsmith.store import Costs, Objects, Store
from wheelsmith.toolchain import Toolchains

_LAUNCHER = f"{sandbox_paths.TOOLS}/site/wheelsmith/engine/backend/launcher.py"
_WHEEL = WheelRecord(filename="w", sha256="s", size=1, metadata_sha256="m", requires_python=None)


@dataclass
class Caller:
    """One build: a script in the place of a project's build system.

    :param script: for the shell, in the source's folder.
    :param files: the source, by path.
    :param steps: every compile step of it, as a run tells of them.
    """

    script: str
    files: dict[str, str]
    plan: BuildPlan
    context: BuildContext
    steps: list[StepFinished] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    exit: Exit | None = None
    error: BaseException | None = None
    _cancel: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self):
        return self.plan.cell.id

    @property
    def work(self):
        return self.context.folder / self.name / "work"

    @property
    def kinds(self):
        """Return what was done, and whether it was made before."""
        return [(step.kind, step.reused) for step in self.steps]

    def read(self, name):
        return (self.work / "src" / name).read_bytes()

    def tasks(self, adder):
        def run(memory):
            del memory
            self._build(adder)
            return ()

        return (Task(name=f"{self.name}:build", group=self.name, run=run, demand=Resources(memory=64 * MIB)),)

    def stop(self):
        self._cancel.set()

    def result(self, error):
        self.error = error
        failure = Failure(stage="build", message=str(error)) if error else None
        status = Status.FAILED if error else Status.BUILT
        wheel = None if error else _WHEEL
        return BuildResult(cell=self.plan.cell, plan_digest="d", status=status, wheel=wheel, failure=failure)

    def _build(self, adder):
        with WorkFolder.make(self.work) as folder:
            for name, text in self.files.items():
                with folder.create(f"src/{name}", mode=0o777) as file:
                    file.write(text.encode())
        launcher = CompilerProxy(
            plan=self.plan,
            context=self.context,
            log=CellLog(self.name, self.context.logs / f"{self.name}.log", self.context.listen),
            cancel=self._cancel,
            adder=adder,
            task=f"{self.name}:build",
        )
        with launcher.answering(self.work):
            self.exit = self.context.engine.run(self._command(), self.lines.append, self._cancel)

    def _command(self):
        toolchains = self.context.toolchains
        mounts = [Mount(source=self.work, target=sandbox_paths.WORK, writable=True)]
        mounts.append(Mount(source=toolchains.toolchains.tools(), target=sandbox_paths.TOOLS))
        if self.plan.toolkit:
            mounts.append(Mount(source=toolchains.prepare(self.plan.toolkit), target=sandbox_paths.CUDA))
        return Command(
            name=f"wheelsmith-calls-{self.name}",
            argv=("/bin/sh", "-c", self.script),
            mounts=tuple(mounts),
            env={"WHEELSMITH_LAUNCH": sandbox_paths.CALLS, "WHEELSMITH_LAUNCHER": _LAUNCHER},
            workdir=sandbox_paths.SOURCE,
            limits=replace(self.context.limits, seconds=600),
            path=(sandbox_paths.LAUNCH,),
        )


@dataclass
class Calls:
    """Runs scripts, each in a sandbox of its own, with one cache and one board.

    :param cache: with the toolchains, which may be another's.
    :param linker_options: the builds' LDFLAGS.
    """

    folder: Path
    cache: Path
    cores: int = 2
    memory: int = field(default_factory=lambda: available_memory() // 2)
    limits: Limits = field(default_factory=lambda: Limits(seconds=120, memory=4096 * MIB))
    reuse: bool = True
    linker_options: str = ""
    _runs: int = 0

    def run(self, script, files, *, toolkit=None):
        """Return what came of one script; it must end, well or not."""
        (made,) = self.run_all([(script, files)], toolkit=toolkit)
        if made.error:
            raise made.error
        return made

    def run_all(self, scripts, *, toolkit=None):
        """Return what came of several that run at the same time."""
        self._runs += 1
        events = []
        context = self._context(events.append)
        toolset = Toolset(arch="x86_64", cxx="g++", version="v", digest="d")
        project = Project(python="3.12", environment=(), variables={"LDFLAGS": self.linker_options})
        callers = [
            Caller(script, files, replace(plan(n), toolset=toolset, toolkit=toolkit, project=project), context)
            for n, (script, files) in enumerate(scripts)
        ]
        run_builds(
            callers,
            (),
            machine=Capacity(cores=self.cores, memory=self.memory),
            on_result=lambda *_: None,
            fail_fast=False,
            cancel=threading.Event(),
        )
        for caller in callers:
            own = [each for each in events if isinstance(each, StepFinished) and each.cell_id == caller.name]
            caller.steps += own
        return callers

    def _context(self, listen):
        folder = self.folder / f"run-{self._runs}"
        engine = engines(self.cache)["bwrap"]
        return BuildContext(
            sources={},
            engine=engine,
            own_engine=engine,
            toolchains=ToolchainPrefetcher(Toolchains(self.cache, lambda _: None)),
            store=Store(self.folder / "store"),
            objects=Objects(self.folder / "objects"),
            costs=Costs(self.folder / "costs.sqlite"),
            limits=self.limits,
            memory=self.memory,
            cores=self.cores,
            all_cores=self.cores,
            folder=folder,
            logs=folder / "logs",
            listen=listen,
            reuse=self.reuse,
        )
