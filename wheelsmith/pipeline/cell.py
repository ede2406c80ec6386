"""One build as tasks: what it waits for, its pieces, and what is made of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from wheelsmith.beneath import WorkFolder
from wheelsmith.engine import Command, Ending, Exit
from wheelsmith.errors import OutputError
from wheelsmith.events import CellStarted, Notice
from wheelsmith.model import BuildPlan, BuildResult, Failure, Status
from wheelsmith.pipeline.command import (
    build_command,
    compile_steps,
    lay_out,
    without_compiling,
)
from wheelsmith.pipeline.diary import Diary, Page
from wheelsmith.pipeline.failures import command_failed, told
from wheelsmith.pipeline.finishing import Finisher, only_wheel, says_checking
from wheelsmith.pipeline.pieces import Piece
from wheelsmith.pipeline.workshop import Workshop, log_name
from wheelsmith.smoke import smoke_test, why_untested
from wheelsmith.store import StoredWheel
from wheelsmith.tasks import MIB, Again, Demand, Task
from wheelsmith.wheel import check_edition

_PACK_SECONDS = 3.0
_PACK_MEMORY = 1024 * MIB
# What one compiler process needs at its worst, where nobody counts it: measured with torch/all.h of torch 2.11.
_COMPILER_MEMORY = 2_700 * MIB


class CellBuild:
    """The build of one plan, in pieces that may run at the same time as those of others.

    :param needs: names of tasks that make its toolchains.
    """

    def __init__(self, plan: BuildPlan, workshop: Workshop, needs: tuple[str, ...]) -> None:
        self.plan = plan
        self.name = plan.cell.id
        self._workshop = workshop
        self._needs = needs
        self._cancel = threading.Event()
        self._diary = Diary(self.name, workshop.logs / log_name(plan), workshop.listen)
        # What the build can write to is apart from where its wheel is worked on: it may leave links behind.
        self._work = workshop.folder / self.name / "work"
        self._pieces: tuple[Piece, ...] = ()
        # What is built in one sandbox at the end; an engine that does not isolate gets the whole of it.
        self._last = without_compiling(plan) if workshop.engine.isolates else plan
        self._is_written_to = False
        self._stored: StoredWheel | None = None
        self._status = Status.BUILT

    def tasks(self) -> tuple[Task, ...]:
        """Give the task to begin with, which knows what follows."""
        start = Task(
            name=f"{self.name}:start",
            group=self.name,
            run=self._start,
            needs=self._needs,
            demand=Demand(cores=0),
            rank=1.0,  # before downloads, which have none: those of others must not keep it from its compilers
        )
        return (start,)

    def stop(self) -> None:
        """Kill what runs of it."""
        self._cancel.set()

    def result(self, error: BaseException | None) -> BuildResult:
        """Give what came of it."""
        plan = self.plan
        status, failure = self._status, None
        if error is not None:
            failure, status = told(error, self._diary.stage)
        elif self._stored is None:
            failure, status = Failure(stage=self._diary.stage, message="cancelled"), Status.CANCELLED
        self._diary.close()
        return BuildResult(
            cell=plan.cell,
            plan_digest=plan.build_digest,
            status=status,
            wheel=self._stored.wheel if self._stored and failure is None else None,
            failure=failure,
            timings=self._diary.timings,
            built_in=self._stored.timings if self._stored and status is Status.CACHED else (),
            log=log_name(plan) if (self._workshop.logs / log_name(plan)).exists() else None,
        )

    def _start(self, memory: int) -> tuple[Task, ...]:
        del memory
        shop, plan = self._workshop, self.plan
        shop.listen(CellStarted(cell_id=self.name))
        if stored := None if shop.force else shop.store.find(plan.build_digest):
            self._status = Status.CACHED
            if stored.checked != check_edition():
                return (self._task("check", partial(self._recheck, stored), cores=1, memory=_PACK_MEMORY),)
            self._stored = stored
            return self._test_task()
        self._diary.enter("fetch")
        lay_out(self._last, shop.source, self._work)
        steps = compile_steps(plan)
        if not shop.engine.isolates or not steps:
            return (self._task("build", self._build_whole, cores=shop.cores, memory=_whole_memory(plan, shop)),)
        self._pieces = tuple(
            Piece(
                step=step,
                plan=plan,
                workshop=shop,
                work=self._work,
                diary=self._diary,
                cancel=self._cancel,
                tail=_PACK_SECONDS,
            )
            for step in steps
        )
        tasks = tuple(task for piece in self._pieces for task in piece.tasks())
        objects = tuple(piece.name for piece in self._pieces)
        self._diary.enter("compile")
        return (*tasks, self._task("build", self._pack, needs=objects, cores=1, memory=_PACK_MEMORY))

    def _task(
        self,
        name: str,
        run: Callable[[int], tuple[Task, ...]],
        *,
        cores: int,
        memory: int,
        needs: tuple[str, ...] = (),
    ) -> Task:
        return Task(
            name=f"{self.name}:{name}",
            group=self.name,
            run=run,
            needs=needs,
            demand=Demand(cores=cores, memory=self._workshop.most_memory(memory)),
            rank=_PACK_SECONDS,
            seconds=_PACK_SECONDS,
        )

    def _build_whole(self, memory: int) -> tuple[Task, ...]:
        """Build in one sandbox what has its own ways, or what nothing may be shared with."""
        return self._finish(build_command(self._last, self._workshop, self._work), memory)

    def _pack(self, memory: int) -> tuple[Task, ...]:
        """Link and pack the objects that are there."""
        command = build_command(self._last, self._workshop, self._work)
        return self._finish(replace(command, limits=replace(command.limits, cpus=1.0)), memory)

    def _finish(self, command: Command, memory: int) -> tuple[Task, ...]:
        self._diary.enter("build")
        self._make_fresh(memory)
        self._run(replace(command, limits=replace(command.limits, reserved=memory)), memory)
        shop = self._workshop
        finisher = Finisher(plan=self.plan, engine=shop.own_engine, folder=shop.folder / self.name / "finish")
        with WorkFolder(self._work) as left:
            name = only_wheel(left)
            finisher.lay_out(name, left.chunks(f"dist/{name}", command.limits.disk))
        self._diary.enter("repair")
        self._run_finisher(finisher, memory, "repair and check")
        wheel = finisher.answer()
        self._diary.enter("store")
        path = finisher.collect(wheel, shop.folder / self.name)
        self._stored = shop.store.put(
            self.plan.build_digest, path, wheel, checked=check_edition(), timings=self._diary.timings
        )
        return self._test_task()

    def _recheck(self, stored: StoredWheel, memory: int) -> tuple[Task, ...]:
        """Have a wheel that passed another check pass this one; it is not built again, its bytes would be the same."""
        shop = self._workshop
        self._diary.enter("check")
        folder = shop.folder / self.name / "finish"
        finisher = Finisher(plan=self.plan, engine=shop.own_engine, folder=folder, program="wheelsmith.wheel.recheck")
        finisher.lay_out(stored.wheel.filename, _chunks(stored.path))
        self._run_finisher(finisher, memory, "check again")
        if finisher.answer() != stored.wheel:
            raise OutputError("the wheel in the store changed while it was checked")
        self._stored = shop.store.note_checked(self.plan.build_digest, replace(stored, checked=check_edition()))
        return self._test_task()

    def _run_finisher(self, finisher: Finisher, memory: int, what: str) -> None:
        command = finisher.command(self._workshop.limits, memory)
        with self._diary.command(what) as page:

            def read(line: str) -> None:
                if says_checking(line):
                    self._diary.enter("check")
                else:
                    page.read(line)

            exit_ = finisher.engine.run(command, read, self._cancel)
        self._judge(exit_, command, memory, "the reading of what it left", page)

    def _make_fresh(self, memory: int) -> None:
        """Lay out anew what a build was killed in: half of an object that it left must not be taken for a whole one."""
        if self._is_written_to:
            lay_out(self._last, self._workshop.source, self._work)
            for piece in self._pieces:
                piece.put_object(memory)
        self._is_written_to = True

    def _run(self, command: Command, memory: int) -> None:
        with self._diary.command("link and pack" if self.plan.project is None else "build") as page:
            exit_ = self._workshop.engine.run(command, page.read, self._cancel)
        self._judge(exit_, command, memory, "the build", page)

    def _judge(self, exit_: Exit, command: Command, memory: int, what: str, page: Page) -> None:
        """Raise where a command did not come to its end; one that had too little memory is tried with more."""
        if exit_.ending is Ending.OUT_OF_MEMORY and (more := self._workshop.most_memory(2 * memory)) > memory:
            raise Again(memory=more)
        if not exit_.ok:
            raise command_failed(self._diary.stage, what, exit_, command.limits, page.tail)

    def _test_task(self) -> tuple[Task, ...]:
        if not self._workshop.test:
            return ()
        return (self._task("test", self._test, cores=1, memory=_PACK_MEMORY),)

    def _test(self, memory: int) -> tuple[Task, ...]:
        del memory
        shop, plan, stored = self._workshop, self.plan, self._stored
        assert shop.test is not None  # noqa: S101  # the task is made only for it
        assert stored is not None  # noqa: S101  # and only for a wheel
        self._diary.enter("test")
        toolchains = shop.toolchains.toolchains
        if reason := why_untested(plan, shop.engine, toolchains):
            shop.listen(Notice(level="warning", text=f"{self.name} is not tested: {reason}"))
            return ()
        with self._diary.command("test") as page:
            exit_: Exit = smoke_test(
                plan,
                stored.path,
                shop.test,
                shop.folder / f"test-{self.name}",
                engine=shop.engine,
                toolchains=toolchains,
                limits=shop.limits,
                on_line=page.read,
                cancel=self._cancel,
            )
        if not exit_.ok:
            raise command_failed("test", "the test", exit_, shop.limits, page.tail)
        return ()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(MIB):
            yield chunk


def _whole_memory(plan: BuildPlan, workshop: Workshop) -> int:
    compilers = max(1, min(workshop.cores, len(compile_steps(plan)) if plan.project is None else workshop.cores))
    return compilers * _COMPILER_MEMORY if plan.toolset else _PACK_MEMORY
