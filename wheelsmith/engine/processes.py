"""Run a process tree under limits, report its output by lines, and kill all of it at the end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from wheelsmith.base.beneath import apparent_size
from wheelsmith.base.sanitize import visible
from wheelsmith.engine.protocol import Exit, ExitReason, Limits, TreeLimits

_PIPE = 1 << 20  # bytes; the maximum capacity of a pipe (pipe(7))
_TICK = 0.1  # seconds between checks of the time limit and the cancel flag
_DISK_TICK = 0.2  # minimum seconds between measurements of the writable folders
_DISK_PAUSE_FACTOR = 20  # the interval is at least this many times the duration of a measurement
_LONGEST_LINE = 4096  # bytes; longer lines are truncated


@dataclass(slots=True, kw_only=True)
class SupervisedProcess:
    """A process that is stopped when it exceeds its limits.

    :param argv: the command. It becomes the leader of a new session, so that its process group can be killed.
    :param folders: writable folders; ``limits.disk`` limits their total size.
    :param group: the limits of the process tree.
    :param stdin: a file descriptor or subprocess.DEVNULL.
    :param inherited: other file descriptors that the process inherits.
    """

    argv: Sequence[str]
    env: dict[str, str]
    cwd: str
    limits: Limits
    folders: tuple[Path, ...]
    group: TreeLimits
    stdin: int = subprocess.DEVNULL
    inherited: tuple[int, ...] = ()
    _printed: int = field(default=0, init=False)

    def run(self, on_line: Callable[[str], None], cancel: Event) -> Exit:
        """Run until the process ends or exceeds a limit.

        The calling thread starts the process and waits for it, because bubblewrap's --die-with-parent kills the process
        when the thread ends that started it.
        """
        start = time.monotonic()
        process = subprocess.Popen(
            self.argv,
            env=self.env,
            cwd=self.cwd,
            stdin=self.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=self.inherited,
        )
        try:
            reason = self._follow(process, on_line, cancel, start)
        finally:
            _kill(process)
            code = process.wait()
            # Read these before the last process ends, because the engine then removes the container's groups.
            out_of_memory, peak_memory = self.group.out_of_memory(), self.group.peak_memory()
            cpu = self.group.cpu_seconds()
            self.group.kill()
            if process.stdout:
                process.stdout.close()
        if out_of_memory:
            reason = ExitReason.OUT_OF_MEMORY
        elif reason is ExitReason.EXITED and code < 0:
            reason = ExitReason.KILLED
        return Exit(
            reason=reason,
            code=code,
            seconds=round(time.monotonic() - start, 3),
            peak_memory=peak_memory,
            cpu=cpu,
        )

    def _follow(
        self, process: subprocess.Popen[bytes], on_line: Callable[[str], None], cancel: Event, start: float
    ) -> ExitReason:
        assert process.stdout is not None  # noqa: S101  # stdout=PIPE above
        lines = _LineSplitter(on_line)
        next_disk = start + _DISK_TICK
        is_closed = False
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                now = time.monotonic()
                if stop := self._find_stop_reason(process.pid, now - start, cancel):
                    return stop
                if now > next_disk:
                    if _total_size(self.folders, self.limits.disk) > self.limits.disk:
                        return ExitReason.DISK_FULL
                    took = time.monotonic() - now
                    next_disk = now + took + max(_DISK_TICK, took * _DISK_PAUSE_FACTOR)
                if is_closed or selector.select(_TICK):
                    # A process may close its output and go on.
                    data = b"" if is_closed else os.read(process.stdout.fileno(), 1 << 16)
                    if not data:
                        is_closed = True
                        if _ends_soon(process):
                            return self._finish(lines)
                        continue
                    if stop := self._handle_output(data, lines):
                        return stop
                elif process.poll() is not None:
                    # The command has ended, but another process still holds the pipe. Read the last output.
                    left = os.read(process.stdout.fileno(), _PIPE) if selector.select(0) else b""
                    return self._handle_output(left, lines) or self._finish(lines)

    def _handle_output(self, data: bytes, lines: _LineSplitter) -> ExitReason | None:
        self._printed += len(data)
        if self._printed > self.limits.output:
            return ExitReason.TOO_MUCH_OUTPUT
        lines.feed(data)
        return None

    def _find_stop_reason(self, pid: int, seconds: float, cancel: Event) -> ExitReason | None:
        if cancel.is_set():
            return ExitReason.CANCELLED
        if not self.group.watch(pid):
            return ExitReason.OUT_OF_MEMORY if self.group.out_of_memory() else ExitReason.TOO_MANY_PROCESSES
        return ExitReason.TIMEOUT if seconds > self.limits.seconds else None

    def _finish(self, lines: _LineSplitter) -> ExitReason:
        lines.end()
        return (
            ExitReason.DISK_FULL
            if _total_size(self.folders, self.limits.disk) > self.limits.disk
            else ExitReason.EXITED
        )


class _LineSplitter:
    """Splits a byte stream into lines with escaped control characters."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def feed(self, data: bytes) -> None:
        # Programs redraw a line with a carriage return. Report each version as a line.
        *whole, self._rest = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            self._emit(line)
        if len(self._rest) > _LONGEST_LINE:
            self._emit(self._rest)
            self._rest = b""

    def end(self) -> None:
        if self._rest:
            self._emit(self._rest)

    def _emit(self, line: bytes) -> None:
        if line:
            self._on_line(visible(line[:_LONGEST_LINE].decode("utf-8", "replace")))


def last_line(text: str) -> str:
    """Return the last line of a program's output, for a message."""
    return (text.strip().splitlines() or ["no output"])[-1]


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError:  # pragma: no cover  # a process of the group changed its user
        process.kill()


def _ends_soon(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=_TICK)
    except subprocess.TimeoutExpired:
        return False
    return True


def _total_size(folders: tuple[Path, ...], limit: int) -> int:
    return sum(apparent_size(folder, limit) for folder in folders)
