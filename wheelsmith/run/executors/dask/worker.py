"""The part of the Dask executor that runs in the process of a worker."""

from __future__ import annotations

import json
import platform
import shutil
import timeit
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from wheelsmith import __version__
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.files import default_cache
from wheelsmith.base.json_dataclass import Record
from wheelsmith.engine import Readiness, available_cores, available_memory, engines
from wheelsmith.model import BuildPlan, BuildResult, Notice, Preparing, Status, Transfer, WheelRecord
from wheelsmith.model import Event as RunEvent
from wheelsmith.run.executors.local import Arrival, LocalExecutor
from wheelsmith.run.executors.protocol import BuildRequest
from wheelsmith.run.scratch import scratch
from wheelsmith.source.tree import SourceTree
from wheelsmith.store import Store, in_use
from wheelsmith.wheel.checker_version import checker_digest

BEAT = 5.0  # seconds between signs of life
_LEAST_DISK = 1 << 30  # bytes
_EVENTS: dict[str, type[RunEvent]] = {each.__name__: each for each in RunEvent.__args__}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts(Record):
    """What the worker's machine has.

    :param version: the version of wheelsmith and of its checks.
    :param arch: the architecture as ``uname -m`` prints it.
    :param host: identifies the running machine.
    :param cores: cores that this process may use.
    :param speed: how often a core compresses a sample in a second.
    :param problem: why the engine cannot run here; None if it can.
    """

    version: str
    arch: str
    host: str
    cores: int
    speed: float
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Record):
    """The result of a build, and where its files are on the worker.

    :param result: the result; its log has the path ``log``.
    :param of_machine: the wheel may contain paths of the worker's machine.
    :param worker_failed: the build failed because the worker has no disk space left.
    """

    result: BuildResult
    wheel: Path | None
    log: Path | None
    of_machine: bool
    worker_failed: bool


def wheelsmith_version() -> str:
    """Return the version of wheelsmith with the digest of its checks."""
    return f"{__version__} ({checker_digest()[:12]})"


def describe_worker(engine: str) -> dict[str, Any]:
    """Return the facts of this worker as plain data.

    :param engine: the name of the engine that builds need.
    """
    made = engines(default_cache()).get(engine)
    probe = made.probe() if made else None
    problem = (probe.detail or str(probe.readiness)) if probe else f"there is no engine {engine}"
    return WorkerFacts(
        version=wheelsmith_version(),
        arch=platform.machine(),
        host=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        cores=available_cores(),
        speed=_measure_speed(),
        problem=None if probe and probe.readiness is Readiness.READY else problem,
    ).to_json()


def _measure_speed() -> float:
    """Return how often a core compresses a sample in a second, which takes branches and memory as compilers do."""
    sample = b"".join(b"%d" % (number * number) for number in range(50_000))
    best = min(timeit.repeat(lambda: zlib.compress(sample), number=1, repeat=5))
    return 1.0 / best


def missing_files(folder: str, hashes: Sequence[str]) -> list[str]:
    """Return those hashes of which a session has no file.

    :param folder: the session's scratch folder.
    """
    return [sha256 for sha256 in hashes if not Path(folder, "files", sha256).exists()]


def append_files(folder: str, parts: Sequence[tuple[str, bytes]]) -> None:
    """Write the next parts of files of a session. An empty part is the last one of its file.

    A build compares each file with its hash.

    :param parts: hash of the whole file, and bytes.
    """
    for sha256, part in parts:
        path = Path(folder, "files", f"{sha256}.part")
        with path.open("ab") as file:
            file.write(part)
        if not part:
            path.rename(path.with_suffix(""))


def read_part(path: str, start: int, size: int) -> bytes:
    """Return bytes of a file."""
    with Path(path).open("rb") as file:
        file.seek(start)
        return file.read(size)


def put_wheel(build_digest: str, wheel: dict[str, Any], folder: str) -> None:
    """Store a wheel that later builds require, from a file that the session has."""
    record = WheelRecord.from_json(wheel)
    Store(default_cache() / "store").put(build_digest, Path(folder, "files", record.sha256), record)


def read_event(message: Mapping[str, Any]) -> RunEvent:
    """Return an event that a worker sent."""
    return _EVENTS[message["event"]].from_json(message["data"])


def serve(run: str, settings: str) -> None:
    """Build what arrives in the queue of this worker until the run ends.

    :param run: the name of the run, which is that of its topic and of the event that stops it.
    :param settings: a request without plans, as JSON.
    """
    from distributed import Event as SharedEvent
    from distributed import Queue, get_client, get_worker

    worker, client = get_worker(), get_client()
    cache = default_cache()

    def send(kind: str, **data: Any) -> None:
        worker.log_event(run, json.dumps({"kind": kind, "worker": worker.address, **data}))

    inbox = Queue(f"{run} {worker.address}", client=client)
    request = replace(BuildRequest.from_json(json.loads(settings)), cache=cache)
    with in_use(cache), scratch(cache / "work") as folder:
        for name in ("files", "logs"):
            (folder / name).mkdir()
        with _beating(SharedEvent(run, client=client), send) as cancel:
            session = _WorkerSession(_localized(request, folder), cancel, send)
            Thread(target=session.read, args=(inbox,), name="wheelsmith-inbox", daemon=True).start()
            send("ready", folder=str(folder))
            session.run()


@contextmanager
def _beating(stop: Any, send: Callable[..., None]) -> Iterator[Event]:
    """Send a sign of life regularly. Yield an event that is set once the run is to end."""
    cancel, ended = Event(), Event()

    def beat() -> None:
        while not ended.is_set():
            send("alive")
            try:
                if stop.wait(timeout=BEAT):
                    cancel.set()
                    return
            except OSError:  # the scheduler is gone
                cancel.set()
                return

    thread = Thread(target=beat, name="wheelsmith-beat", daemon=True)
    thread.start()
    try:
        yield cancel
    finally:
        ended.set()


def _localized(request: BuildRequest, folder: Path) -> BuildRequest:
    """Return the request with paths of this machine."""

    def local(tree: SourceTree) -> SourceTree:
        return replace(tree, files=tuple(replace(file, real=folder / "files" / file.sha256) for file in tree.files))

    kernels = {name: replace(inputs, source=local(inputs.source)) for name, inputs in request.kernels.items()}
    free = available_memory() * 4 // 5
    return replace(
        request,
        kernels=kernels,
        folder=folder,
        logs=folder / "logs",
        memory=min(request.memory or free, free),
    )


class _WorkerSession:
    """Builds on this worker for one run."""

    def __init__(self, request: BuildRequest, cancel: Event, send: Callable[..., None]) -> None:
        self._request = request
        self._cancel = cancel
        self._send = send
        self._name = platform.node()
        self._arrived = SimpleQueue[Arrival]()

    def read(self, inbox: Any) -> None:
        """Read the queue of this worker until the run ends, which a null says."""
        while True:
            try:
                message = json.loads(inbox.get())
            except (OSError, TimeoutError, CancelledError):  # the scheduler is gone
                return
            if message is None:
                return
            part = tuple(message["part"]) if message["part"] else None
            self._arrived.put(Arrival(plan=BuildPlan.from_json(message["plan"]), part=part))

    def run(self) -> None:
        """Build what arrives, and send the answers, until the run ends."""
        try:
            LocalExecutor().build_arriving(
                self._request,
                self._take,
                listen=self._listen,
                on_result=self._answer,
                on_part=self._report_part,
                cancel=self._cancel,
            )
        except (WheelsmithError, OSError) as error:
            self._send("unfit", why=error.message if isinstance(error, WheelsmithError) else str(error))

    def _take(self) -> list[Arrival] | None:
        if self._cancel.is_set():
            return None
        return [self._arrived.get() for _ in range(self._arrived.qsize())]

    def _report_part(self, plan: BuildPlan, part: tuple[int, int]) -> None:
        """Report the end of a part. If a step has failed, the build itself reports it."""
        self._send("compiled", cell=plan.cell.id, part=part)

    def _listen(self, event: RunEvent) -> None:
        """Send an event. Those of the machine get its name, since several machines prepare the same."""
        if isinstance(event, Transfer):
            event = replace(event, name=f"{event.name} on {self._name}")
        elif isinstance(event, Preparing):
            event = replace(event, what=f"{event.what} on {self._name}")
        elif isinstance(event, Notice):
            event = replace(event, text=f"{self._name}: {event.text}")
        self._send("event", event=type(event).__name__, data=event.to_json())

    def _answer(self, result: BuildResult) -> None:
        request = self._request
        stored = Store(request.cache / "store").find(result.plan_digest) if result.wheel else None
        free = min(shutil.disk_usage(each).free for each in (request.cache, request.folder))
        answer = Answer(
            result=result,
            wheel=stored.path if stored else None,
            log=request.logs / result.log if result.log else None,
            of_machine=bool(stored and stored.of_machine),
            worker_failed=result.status is Status.FAILED and free < _LEAST_DISK,
        )
        self._send("answer", answer=answer.to_json())
