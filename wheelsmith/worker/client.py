"""Send requests to a worker."""

from __future__ import annotations

import shutil
import signal
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty
from threading import Lock
from types import TracebackType
from typing import Any, Self

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import WheelsmithError, WorkerError
from wheelsmith.base.units import show_duration
from wheelsmith.worker.process import WorkerProcess
from wheelsmith.worker.protocol import READY, WorkerLimits, parse_response

_START_SECONDS = 60  # seconds
_SIGNALLED = 128  # larger exit statuses are 128 + the signal


class Worker:
    """A process that performs one operation at a time, within limits.

    The first request starts the process. After a failure, the next request starts a new one. If bubblewrap works, the
    process has no network and can write only to ``folder``.

    :param limits: limits of each request, before they are scaled for large inputs.
    :param beside: parent of ``folder``. Files can be moved to the same file system without a copy.
    """

    def __init__(self, limits: WorkerLimits | None = None, *, beside: Path | None = None) -> None:
        self._limits = limits or WorkerLimits()
        self._beside = beside
        self._sandbox = shutil.which("bwrap")
        self._process: WorkerProcess | None = None
        self._lock = Lock()
        self.folder = Path()

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="wheelsmith-worker-", dir=self._beside)).resolve()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        remove_tree(self.folder)

    def call(self, operation: str, request: dict[str, Any], *, subject: str = "", size: int = 0) -> dict[str, Any]:
        """Perform an operation and return its result.

        :param operation: ``module:function``. The function takes and returns JSON data.
        :param request: JSON data with absolute paths.
        :param subject: the file that is read, for messages.
        :param size: bytes of the file. Larger files get more memory and time.
        :raises WheelsmithError: the operation raised it.
        :raises WorkerError: the reader failed or reached a limit.
        """
        limits = self._limits.for_input(size)
        with self._lock:
            try:
                return parse_response(self._exchange(operation, request, subject, limits), subject, limits)
            except BaseException as error:
                if isinstance(error, WorkerError) or not isinstance(error, WheelsmithError):
                    self._stop()
                raise

    def _exchange(self, operation: str, request: dict[str, Any], subject: str, limits: WorkerLimits) -> bytes:
        if self._process and self._process.ended:
            self._stop()
        process = self._process or self._start()
        process.write({"operation": operation, "input": request, "limits": asdict(limits)})
        try:
            response = process.read(limits.seconds)
        except Empty:
            raise WorkerError.about(subject, f"it took more than {show_duration(limits.seconds)}") from None
        if not response:
            raise WorkerError.about(subject, _end_reason(process.wait(), limits), details=process.stderr_tail)
        return response

    def _start(self) -> WorkerProcess:
        details = ""
        for sandbox in dict.fromkeys((self._sandbox, None)):
            process = self._process = WorkerProcess(self.folder, sandbox)
            with suppress(Empty):
                if process.read(_START_SECONDS).rstrip() == READY:
                    self._sandbox = sandbox
                    return process
            process.stop()
            details = process.stderr_tail
        raise WorkerError("the reader of archives and wheels does not start", details=details)

    def _stop(self) -> None:
        if self._process:
            self._process.stop()
        self._process = None


def _end_reason(status: int, limits: WorkerLimits) -> str:
    """Return the reason why a process ended without a response."""
    number = status - _SIGNALLED
    if number == signal.SIGXCPU:
        return f"it took more than {show_duration(limits.cpu_seconds)} of CPU time"
    if number == signal.SIGKILL:
        return "the reader was killed"
    ending = f"signal {number}" if number > 0 else f"exit code {status}"
    return f"the reader stopped unexpectedly ({ending})"
