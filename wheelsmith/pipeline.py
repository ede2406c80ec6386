"""One cell from plan to result: fetch → build → repair → check → store."""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event as Flag
from typing import Literal, TextIO

from wheelsmith import layout
from wheelsmith.engine import Command, Ending, Engine, Exit, Limits, Mount, visible
from wheelsmith.errors import WheelsmithError
from wheelsmith.events import CellLine, CellProgress, CellStage, CellStarted, Listener, Notice
from wheelsmith.model import BuildPlan, BuildResult, Failure, Status, Timing, WheelFile
from wheelsmith.smoke import smoke_test, why_untested
from wheelsmith.source import SourceTree, copy_into
from wheelsmith.store import Store, StoredWheel
from wheelsmith.toolchain import Toolchains
from wheelsmith.wheel import CheckReport, check_wheel, repair, wheel_file

TAIL_LINES = 30
# The backend sets NINJA_STATUS to this shape.
_NINJA_STATUS = re.compile(r"\[wheelsmith (\d+)/(\d+)\] (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What every cell of a run is built with.

    :param jobs: compile steps at once within one cell.
    :param folder: a scratch folder of this run alone.
    :param logs: where one log per cell is written.
    :param test: a command that must succeed with each wheel installed, or None.
    :param force: build also what the store has.
    """

    source: SourceTree
    engine: Engine
    toolchains: Toolchains
    store: Store
    limits: Limits
    jobs: int
    folder: Path
    logs: Path
    listen: Listener
    test: str | None = None
    force: bool = False


class StageFailed(Exception):  # it carries a Failure, and never leaves this module
    """A stage ended without what the next one needs."""

    def __init__(self, failure: Failure, status: Status = Status.FAILED) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.status = status


@dataclass(slots=True, kw_only=True)
class _Stages:
    """The clock and the voice of one cell: names each stage as it begins and keeps how long it took."""

    cell_id: str
    listen: Listener
    timings: list[Timing] = field(default_factory=list)
    current: str = "fetch"

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.current = name
        self.listen(CellStage(cell_id=self.cell_id, stage=name))
        start = time.monotonic()
        try:
            yield
        finally:
            self.timings.append(Timing(stage=name, seconds=round(time.monotonic() - start, 3)))


def build_cell(plan: BuildPlan, workshop: Workshop, cancel: Flag) -> BuildResult:
    """Make the wheel of one plan and keep it in the store; a failure is a result, not an exception."""
    cell_id = plan.cell.id
    stages = _Stages(cell_id=cell_id, listen=workshop.listen)
    workshop.listen(CellStarted(cell_id=cell_id))
    wheel: WheelFile | None = None
    failure: Failure | None = None
    stored = None if workshop.force else workshop.store.find(plan.build_digest)
    status = Status.CACHED if stored else Status.BUILT
    try:
        stored = stored or _make(plan, workshop, stages, cancel)
        if workshop.test:
            with stages.stage("test"):
                _test(plan, stored, workshop.test, workshop, cancel)
        wheel = stored.wheel
    except StageFailed as stop:
        failure, status = stop.failure, stop.status
    except WheelsmithError as error:
        failure = Failure(stage=stages.current, message=str(error), remedy=error.remedy)
        status = Status.FAILED
    except OSError as error:
        failure = Failure(stage=stages.current, message=_os_error(error), remedy=_os_remedy(error))
        status = Status.FAILED
    return BuildResult(
        cell=plan.cell,
        plan_digest=plan.build_digest,
        status=status,
        wheel=wheel,
        failure=_printable(failure) if failure else None,
        timings=tuple(stages.timings),
        log=log_name(plan) if (workshop.logs / log_name(plan)).exists() else None,
    )


def _printable(failure: Failure) -> Failure:
    """Make control characters visible: names that a hostile build chose end up in messages, and those in terminals."""
    return replace(
        failure,
        message=visible(failure.message),
        remedy=visible(failure.remedy) if failure.remedy else None,
        tail=tuple(visible(line) for line in failure.tail),
    )


def log_name(plan: BuildPlan) -> str:
    """Give the file name of a cell's log."""
    return f"{plan.cell.id}.log"


def lay_out(plan: BuildPlan, source: SourceTree, work: Path) -> None:
    """Write a cell's work folder: the source, what is generated, and the plan."""
    for name in ("src", "build", "dist"):
        (work / name).mkdir(parents=True)
    copy_into(source, work / "src")
    for name, text in plan.recipe.generated.items():
        path = work / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (work / "plan.json").write_text(json.dumps(plan.to_json()), encoding="utf-8")


def build_command(plan: BuildPlan, workshop: Workshop, work: Path) -> Command:
    """Give the one command that builds a laid-out cell, fetching the toolchains it mounts."""
    toolchains = workshop.toolchains
    mounts = [
        Mount(source=work, target=layout.WORK, writable=True),
        Mount(source=toolchains.tools(), target=layout.TOOLS),
    ]
    if plan.torch:
        mounts.append(Mount(source=toolchains.prepare(plan.torch), target=layout.TORCH))
    if plan.cuda and plan.cuda.kind == "cuda":
        mounts.append(Mount(source=toolchains.prepare(plan.cuda), target=layout.CUDA))
    importable, variables = [f"{layout.TOOLS}/site"], {"WHEELSMITH_JOBS": str(workshop.jobs)}
    project = plan.project
    if project:
        folder = toolchains.environment(project.environment, project.python, plan.cell.arch)
        mounts.append(Mount(source=folder, target=layout.ENVIRONMENT))
        importable.append(layout.ENVIRONMENT)
        variables = {"MAX_JOBS": str(workshop.jobs), **project.variables}
    return Command(
        name=f"wheelsmith-{plan.cell.id}-{plan.build_digest[:12]}",
        argv=(
            f"python{project.python if project else 3}",
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            "--outdir",
            layout.DIST,
            layout.SOURCE,
        ),
        mounts=tuple(mounts),
        env={
            **plan.environment,
            **variables,
            "PYTHONPATH": ":".join(importable),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        workdir=layout.WORK,
        limits=workshop.limits,
        path=(f"{layout.TOOLS}/bin",),
        python=project.python if project else None,
        image=plan.image,
    )


def _make(plan: BuildPlan, workshop: Workshop, stages: _Stages, cancel: Flag) -> StoredWheel:
    # What the build can write to is apart from where its wheel is worked on: it may leave links behind.
    work, bench = workshop.folder / plan.cell.id / "work", workshop.folder / plan.cell.id / "repair"
    with stages.stage("fetch"):
        lay_out(plan, workshop.source, work)
        command = build_command(plan, workshop, work)
    with stages.stage("build"):
        _run_build(command, plan, workshop, cancel)
        raw = _only_wheel(work / "dist")
    with stages.stage("repair"):
        # A project's contents are its own; a kernel's were planned, file by file.
        members = None if plan.project else frozenset(plan.recipe.contents)
        wheel = repair(raw, plan.wheel, bench, members=members)
    with stages.stage("check"):
        report = check_wheel(wheel, plan.wheel)
        if not report.ok:
            raise StageFailed(_check_failure(report))
    with stages.stage("store"):
        return workshop.store.put(plan.build_digest, wheel, wheel_file(wheel))


def _test(plan: BuildPlan, stored: StoredWheel, command: str, workshop: Workshop, cancel: Flag) -> None:
    if reason := why_untested(plan, workshop.engine, workshop.toolchains):
        workshop.listen(Notice(level="warning", text=f"{plan.cell.id} is not tested: {reason}"))
        return
    work = workshop.folder / f"test-{plan.cell.id}"
    work.mkdir()
    with _log(plan, workshop, "a") as (on_line, tail):
        exit_ = smoke_test(
            plan,
            stored.path,
            command,
            work,
            engine=workshop.engine,
            toolchains=workshop.toolchains,
            limits=workshop.limits,
            on_line=on_line,
            cancel=cancel,
        )
    if not exit_.ok:
        raise _failed("test", exit_, workshop.limits, tuple(tail))


def _run_build(command: Command, plan: BuildPlan, workshop: Workshop, cancel: Flag) -> None:
    with _log(plan, workshop, "w") as (on_line, tail):
        exit_ = workshop.engine.run(command, on_line, cancel)
    if not exit_.ok:
        raise _failed("build", exit_, command.limits, tuple(tail))


@contextmanager
def _log(
    plan: BuildPlan, workshop: Workshop, mode: Literal["w", "a"]
) -> Iterator[tuple[Callable[[str], None], deque[str]]]:
    """Give a reader of lines that writes the cell's log, and the last lines it read."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    workshop.logs.mkdir(parents=True, exist_ok=True)
    with (workshop.logs / log_name(plan)).open(mode, encoding="utf-8") as log:
        yield _line_reader(plan.cell.id, log, tail, workshop.listen), tail


def _line_reader(cell_id: str, log: TextIO, tail: deque[str], listen: Listener) -> Callable[[str], None]:
    def read(line: str) -> None:
        log.write(line + "\n")
        if match := _NINJA_STATUS.match(line):
            listen(CellProgress(cell_id=cell_id, done=int(match[1]), total=int(match[2]), step=match[3]))
            return
        tail.append(line)
        listen(CellLine(cell_id=cell_id, line=line))

    return read


def _failed(stage: str, exit_: Exit, limits: Limits, tail: tuple[str, ...]) -> StageFailed:
    message, remedy = _explain(stage, exit_, limits)
    status = Status.CANCELLED if exit_.ending is Ending.CANCELLED else Status.FAILED
    return StageFailed(Failure(stage=stage, message=message, remedy=remedy, tail=tail), status)


def _explain(stage: str, exit_: Exit, limits: Limits) -> tuple[str, str | None]:
    gib = f"{(limits.memory or 0) / 2**30:.3g} GiB"
    return {
        Ending.EXITED: (f"the {stage} ended with exit code {exit_.code}", None),
        Ending.TIMEOUT: (
            f"the {stage} ran longer than {limits.seconds:g} s",
            "raise engine.timeout in matrix.yaml",
        ),
        Ending.OUT_OF_MEMORY: (
            f"out of memory: the limit is {gib}",
            "raise engine.memory in matrix.yaml, or build with fewer jobs (-j 1)",
        ),
        Ending.TOO_MUCH_OUTPUT: (f"the {stage} printed more than {limits.output} bytes", None),
        Ending.DISK_FULL: (
            f"the {stage} wrote more than {limits.disk / 2**30:.3g} GiB, or the disk is full",
            "free some disk, or raise engine.disk in matrix.yaml",
        ),
        Ending.CANCELLED: ("cancelled", None),
        Ending.KILLED: (f"the {stage} was killed (code {exit_.code})", None),
    }[exit_.ending]


def _only_wheel(dist: Path) -> Path:
    if dist.is_symlink() or not dist.is_dir():
        raise StageFailed(Failure(stage="build", message="the build replaced its dist folder by something else"))
    found = [p for p in dist.iterdir() if p.suffix == ".whl"]
    if len(found) != 1 or found[0].is_symlink() or not found[0].is_file():
        message = f"the build left {len(found)} wheels in its dist folder, not one regular file"
        raise StageFailed(Failure(stage="build", message=message))
    return found[0]


def _check_failure(report: CheckReport) -> Failure:
    wrong = [f"{finding.rule}: {finding.message}" for finding in report.findings if not finding.ok]
    return Failure(stage="check", message=f"the wheel would lie: {wrong[0]}", tail=tuple(wrong))


def _os_error(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"


def _os_remedy(error: OSError) -> str | None:
    import errno

    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "free some disk, or move the cache with WHEELSMITH_CACHE"
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return "make the folder writable, or choose another with --out or WHEELSMITH_CACHE"
    return None
