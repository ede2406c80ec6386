"""One run on a cluster: which worker builds what, and what comes back."""

from __future__ import annotations

import json
import platform
import queue
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from wheelsmith.base.errors import EngineError, WheelsmithError
from wheelsmith.base.files import sha256_file
from wheelsmith.model import (
    BuildPlan,
    BuildResult,
    CellStarted,
    Failure,
    Listener,
    Load,
    Notice,
    Preparing,
    Status,
    StepFinished,
    WheelRecord,
)
from wheelsmith.pipeline.command import compile_steps
from wheelsmith.plan.planned_run import Build
from wheelsmith.plan.shards import estimate_seconds
from wheelsmith.run.executors.dask import worker as on_worker
from wheelsmith.run.executors.dask.worker import Answer, WorkerFacts
from wheelsmith.run.executors.protocol import BuildRequest
from wheelsmith.run.schedule import BuildCosts
from wheelsmith.run.schedule.board import MOST_LOSSES, Board, BoardPart
from wheelsmith.store import Costs, Store
from wheelsmith.wheel.checker_version import checker_digest

_NO_WORKER = 60.0  # seconds without a worker that end a run
_SILENCE = 60.0  # seconds without a sign of life after which a worker counts as lost
_TICK = 0.2  # seconds between looks at the cancel flag
_SURVEY = 2.0  # seconds between looks for new workers
_CHUNK = 16 << 20  # bytes in one message
_CALLS_AT_ONCE = 64
_WAITING = "waiting for workers of the Dask cluster"
_SHOWN = 3  # names in a message
_IDLE = Load(cores=0, all_cores=0, memory=0, all_memory=0)


@dataclass(slots=True)
class _Session:
    """The session of a worker.

    :param facts: its facts, with the cores that it may use.
    :param future: the task of the session, which ends with it.
    :param inbox: the queue of its plans.
    :param folder: its scratch folder; None until it has started.
    :param heard: when it sent something, on the clock of ``time.monotonic``.
    """

    facts: WorkerFacts
    future: Any
    inbox: Any
    heard: float
    folder: str | None = None
    load: Load = _IDLE


class WorkerLostError(Exception):
    """A worker does not answer."""


class ClusterRun:
    """A run on a cluster. The calling thread gives builds to workers and takes their answers.

    :param client: a client of the cluster.
    :param work: the plans to build.
    """

    def __init__(
        self,
        client: Any,
        work: BuildRequest,
        listen: Listener,
        on_result: Callable[[BuildResult], None],
    ) -> None:
        self._client = client
        self._work = work
        self._plans = {plan.cell.id: plan for plan in work.to_build}
        self._listen = listen
        self._on_result = on_result
        self._name = f"wheelsmith-{uuid.uuid4().hex}"
        known = BuildCosts(Costs.in_cache(work.cache), work.to_build).known()
        costs = estimate_seconds([Build(plans=(plan,)) for plan in work.to_build], known)
        # Parts of a build need a cache that all workers share.
        shared = bool(work.remote_cache.addresses and work.reuse)
        split = [plan for plan in work.to_build if shared and plan.project is None]
        self._board = Board(costs, {plan.cell.id: len(compile_steps(plan)) for plan in split})
        self._measured: dict[tuple[str, str], float] = {}  # worker and build → seconds of its phases
        self._sessions: dict[str, _Session] = {}
        self._unfit: dict[str, str] = {}
        self._surveys: dict[str, Future[Any]] = {}
        self._inbox = queue.SimpleQueue[dict[str, Any]]()
        self._store = Store(work.cache / "store")
        self._calls = ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="wheelsmith-call")
        self._stopped = False
        self._is_ending = False

    def run(self, cancel: Event) -> None:
        """Build all plans.

        :raises EngineError: there is no worker for a minute, or the scheduler is gone.
        """
        from distributed import Event as SharedEvent

        stop = SharedEvent(self._name, client=self._client)
        self._client.subscribe_topic(self._name, lambda event: self._inbox.put(json.loads(event[1])))
        surveyed, had_worker = 0.0, time.monotonic()
        self._listen(Preparing(what=_WAITING))
        try:
            while not (self._board.is_done or self._stopped or cancel.is_set()):
                if (now := time.monotonic()) - surveyed > _SURVEY:
                    self._survey()
                    surveyed = now
                had_worker = now if self._sessions else had_worker
                self._require_worker(now - had_worker)
                while given := self._board.take():
                    self._try_to_give(*given)
                self._receive()
        except BaseException:
            self._stopped = True  # the listener gets no more results
            raise
        finally:
            self._end(stop)
            self._calls.shutdown(wait=False, cancel_futures=True)

    def _end(self, stop: Any) -> None:
        """Stop all sessions, take their last answers, and wait until no build is running."""
        self._is_ending = True
        if self._client.status != "running":
            return
        with suppress(OSError, TimeoutError):
            stop.set()
            for session in self._sessions.values():
                session.inbox.put(json.dumps(None))
            deadline = time.monotonic() + _SILENCE
            while time.monotonic() < deadline and not all(each.future.done() for each in self._sessions.values()):
                self._receive()
            self._client.unsubscribe_topic(self._name)

    def _require_worker(self, missing: float) -> None:
        """Raise an error if there was no worker for too long.

        :param missing: seconds without a worker.
        """
        if missing <= _NO_WORKER:
            return
        why = "".join(f"; {name}: {problem}" for name, problem in list(self._unfit.items())[:_SHOWN])
        raise EngineError(
            f"the cluster had no worker that can build for {_NO_WORKER:.0f} seconds{why}",
            remedy="start `dask worker` on machines with this wheelsmith and this engine",
        )

    # --- workers

    def _survey(self) -> None:
        """Start a session on each new worker, and remove the workers that are gone.

        :raises EngineError: the scheduler is gone.
        """
        try:
            present = self._client.scheduler_info()["workers"] if self._client.status == "running" else None
        except (OSError, TimeoutError):
            present = None
        if present is None:
            raise EngineError(
                "the Dask scheduler is gone",
                remedy="start it and its workers, and run the command again: finished wheels are kept",
            )
        now = time.monotonic()
        for name, session in list(self._sessions.items()):
            if name not in present:
                self._lose(name, "it has left the cluster")
            elif session.future.status == "error":
                self._discard(name, _reason(session.future.exception()))
            elif session.future.status in {"cancelled", "lost"}:
                self._lose(name, "its session was cancelled")
            elif now - session.heard > _SILENCE:
                self._discard(name, f"it has not answered for {_SILENCE:.0f} seconds")
        for name in present.keys() - self._sessions.keys() - self._unfit.keys() - self._surveys.keys():
            self._surveys[name] = self._calls.submit(self._ask, name, on_worker.describe_worker, self._work.engine)
        for name, survey in [(name, survey) for name, survey in self._surveys.items() if survey.done()]:
            del self._surveys[name]
            with suppress(WorkerLostError):  # it has left meanwhile
                self._start(name, survey.result(), present.get(name))

    def _ask(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on a worker. Return its result, or the exception that it raised.

        :raises WorkerLostError: the worker is gone.
        """
        try:
            answers = self._client.run(function, *arguments, workers=[name], on_error="return")
        except (OSError, TimeoutError, ValueError) as error:
            raise WorkerLostError(str(error)) from error
        return answers.get(name)

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on a worker, which may hang, and return its result.

        :raises WorkerLostError: the worker is gone, does not answer, or the function raised an exception.
        """
        try:
            answer = self._calls.submit(self._ask, name, function, *arguments).result(timeout=_SILENCE)
        except TimeoutError:
            raise WorkerLostError(f"it has not answered for {_SILENCE:.0f} seconds") from None
        if isinstance(answer, BaseException):
            raise WorkerLostError(str(answer)) from answer
        return answer

    def _problem(self, facts: Any) -> str | None:
        """Return why a worker cannot build for this run, or None."""
        own = on_worker.wheelsmith_version()
        if isinstance(facts, BaseException):
            return f"it cannot run wheelsmith {own}: {facts}"
        found = WorkerFacts.from_json(facts)
        if found.version != own:
            return f"it has wheelsmith {found.version}, not {own}"
        if found.arch != platform.machine():
            return f"it is a machine of {found.arch}, not {platform.machine()}"
        return f"engine {self._work.engine} does not work there: {found.problem}" if found.problem else None

    def _start(self, name: str, described: Any, info: Mapping[str, Any] | None) -> None:
        """Start a session on a worker, if it can build.

        :param described: its facts as plain data, or an exception.
        :param info: what the scheduler knows; None if the worker has left.
        """
        from distributed import Queue

        if info is None:
            return
        if problem := self._problem(described):
            self._unfit[name] = problem
            self._listen(Notice(level="warning", text=f"worker {name} is not used: {problem}"))
            return
        facts = WorkerFacts.from_json(described)
        cores = min(facts.cores, int(info["nthreads"]), self._work.jobs or facts.cores)
        same = next((each for each, session in self._sessions.items() if session.facts.host == facts.host), None)
        # Dask gives a worker a thread for each core of the machine, unless the user says otherwise.
        if same and cores == facts.cores > 1:
            text = f"workers {same} and {name} are on one machine, and each uses all of its cores"
            self._listen(Notice(level="warning", text=f"{text}: start one for each machine, or pass --nthreads"))
        limits = [limit for limit in (self._work.memory, info["memory_limit"]) if limit]
        settings = replace(self._work, to_build=(), jobs=cores, memory=min(limits, default=None), fail_fast=False)
        future = self._client.submit(
            on_worker.serve,
            self._name,
            json.dumps(settings.to_json()),
            key=f"{self._name}-{uuid.uuid4().hex}",
            workers=[name],
            retries=0,
        )
        inbox = Queue(f"{self._name} {name}", client=self._client)
        self._sessions[name] = _Session(replace(facts, cores=cores), future, inbox, time.monotonic())

    def _discard(self, name: str, why: str) -> None:
        """Stop using a worker that cannot build."""
        self._unfit[name] = why
        self._lose(name, why)

    def _lose(self, name: str, why: str) -> None:
        """Take the builds of a worker back, to give them to others."""
        self._sessions.pop(name).future.cancel()
        if name not in self._board.workers:
            return
        builds = sorted(self._board.builds_of(name))
        given_up = self._board.remove_worker(name)
        shown = ", ".join(builds[:_SHOWN]) + (f" and {len(builds) - _SHOWN} more" if len(builds) > _SHOWN else "")
        repeated = f"; other workers build {shown}" if builds else ""
        self._listen(Notice(level="warning", text=f"worker {name} was lost: {why}{repeated}"))
        for build in given_up:
            self._board.finish(build)
            if build not in self._plans:
                continue  # the build itself compiles what a part did not
            plan, text = self._plans[build], f"{MOST_LOSSES} workers were lost while they built it"
            failure = Failure(stage="internal", message=text).escaped()
            self._finish(
                BuildResult(cell=plan.cell, plan_digest=plan.build_digest, status=Status.FAILED, failure=failure)
            )

    # --- builds

    def _try_to_give(self, name: str, build: str) -> None:
        try:
            self._give(name, build)
        except WorkerLostError as error:
            self._lose(name, str(error))

    def _give(self, name: str, build: str) -> None:
        """Send a plan to a worker, with the wheels that it requires."""
        part = self._board.parts.get(build)
        plan = self._plans[part.build if part else build]
        self._send_required_wheels(name, plan)
        message = {"plan": plan.to_json(), "part": (part.number, part.count) if part else None}
        with suppress(OSError, TimeoutError):
            self._sessions[name].inbox.put(json.dumps(message))

    def _send_required_wheels(self, name: str, plan: BuildPlan) -> None:
        session = self._sessions[name]
        for digest in (each.digest for each in plan.requires):
            if stored := self._store.find(digest):  # otherwise the build reports it
                self._send_files(name, session, {stored.wheel.sha256: stored.path})
                self._call(name, on_worker.put_wheel, digest, stored.wheel.to_json(), session.folder)

    def _send_files(self, name: str, session: _Session, files: Mapping[str, Path]) -> None:
        """Send files to a worker that it does not have.

        :param files: sha256 → path on this machine.
        """
        parts, size = list[tuple[str, bytes]](), 0
        for sha256 in self._call(name, on_worker.missing_files, session.folder, list(files)):
            with files[sha256].open("rb") as file:
                for part in iter(partial(file.read, _CHUNK), b""):
                    parts.append((sha256, part))
                    size += len(part)
                    if size >= _CHUNK:
                        self._call(name, on_worker.append_files, session.folder, parts)
                        parts, size = [], 0
            parts.append((sha256, b""))
        self._call(name, on_worker.append_files, session.folder, parts)

    def _receive(self) -> None:
        """Process the messages of workers, if there are any soon."""
        with suppress(queue.Empty):
            message = self._inbox.get(timeout=_TICK)
            while not self._stopped:
                if message["worker"] in self._sessions:  # otherwise it was given up
                    self._process(message["worker"], message)
                message = self._inbox.get_nowait()

    def _process(self, name: str, message: Mapping[str, Any]) -> None:
        session = self._sessions[name]
        session.heard = time.monotonic()
        try:
            match message["kind"]:
                case "ready":
                    self._add(name, session, message["folder"])
                case "event":
                    self._forward(name, session, message)
                case "answer":
                    self._take(name, Answer.from_json(message["answer"]))
                case "compiled":
                    self._board.finish(BoardPart(message["cell"], *message["part"]).name)
                case "unfit":
                    self._discard(name, message["why"])
        except WorkerLostError as error:
            if not self._is_ending:  # a session that has ended has no more logs
                self._lose(name, str(error))

    def _add(self, name: str, session: _Session, folder: str) -> None:
        """Give a worker the sources, and let it build."""
        if not self._board.workers:
            self._listen(Preparing(what=_WAITING, done=True))
        session.folder = folder
        trees = (inputs.source for inputs in self._work.kernels.values())
        self._send_files(name, session, {file.sha256: file.real for tree in trees for file in tree.files})
        self._board.add_worker(name, session.facts.cores, session.facts.speed)

    def _forward(self, name: str, session: _Session, message: Mapping[str, Any]) -> None:
        """Pass an event on. The load is that of all workers."""
        event = on_worker.read_event(message)
        if isinstance(event, CellStarted):
            self._start_builds(name, event.cell_id)
        if isinstance(event, StepFinished) and (name, event.cell_id) in self._measured:
            self._measured[name, event.cell_id] += event.seconds
            if event.reused:  # this says nothing about the speed of the worker
                del self._measured[name, event.cell_id]
        if isinstance(event, Load):
            session.load = event
            self._board.set_idle(name, is_idle=event.cores < event.all_cores)
            loads = [each.load for each in self._sessions.values()]
            event = Load(
                cores=sum(load.cores for load in loads),
                all_cores=sum(load.all_cores for load in loads),
                memory=sum(load.memory for load in loads),
                all_memory=sum(load.all_memory for load in loads),
            )
        self._listen(event)

    def _start_builds(self, name: str, cell: str) -> None:
        """Note that a build or its parts have started."""
        for build in self._board.builds_of(name):
            part = self._board.parts.get(build)
            if cell == (part.build if part else build):
                self._board.start(name, build)
        if cell in self._board.builds_of(name):
            self._measured[name, cell] = 0.0

    def _take(self, name: str, answer: Answer) -> None:
        """Take the result of a build, with its wheel and its log."""
        result = answer.result
        if result.cell.id not in self._board.builds_of(name):
            return
        if answer.worker_failed:
            self._discard(name, f"its disk is full: {result.failure.message if result.failure else ''}")
            return
        if answer.log and result.log and result.status is not Status.CANCELLED:
            self._fetch(name, str(answer.log), self._work.logs / result.log)
        if answer.wheel and result.wheel:
            self._store_wheel(name, result.wheel, answer)
        self._board.measure(name, result.cell.id, self._measured.pop((name, result.cell.id), 0.0))
        self._board.finish(result.cell.id)
        self._finish(result)

    def _finish(self, result: BuildResult) -> None:
        self._on_result(result)
        self._stopped = self._stopped or (self._work.fail_fast and result.status is Status.FAILED)

    def _store_wheel(self, name: str, wheel: WheelRecord, answer: Answer) -> None:
        with tempfile.TemporaryDirectory(prefix="worker-", dir=self._work.folder) as folder:
            path = Path(folder) / wheel.filename
            self._fetch(name, str(answer.wheel), path)
            if sha256_file(path) != wheel.sha256:
                raise WorkerLostError(f"{wheel.filename} has arrived damaged")
            self._store.put(
                answer.result.plan_digest,
                path,
                wheel,
                checked=checker_digest(),
                timings=answer.result.timings,
                of_machine=answer.of_machine,
            )

    def _fetch(self, name: str, source: str, target: Path) -> None:
        """Copy a file of a worker."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            while True:
                part = self._call(name, on_worker.read_part, source, file.tell(), _CHUNK)
                file.write(part)
                if len(part) < _CHUNK:
                    return


def _reason(error: BaseException) -> str:
    return error.message if isinstance(error, WheelsmithError) else f"{type(error).__name__}: {error}"
