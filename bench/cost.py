"""Run a command and measure its time, memory and network use."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.json_dataclass import Record

_SAMPLE_SECONDS = 0.2
_GRACE_SECONDS = 20.0
_SHOWN_LINES = 12
_REAP = (sys.executable, "-SE", str(Path(__file__).with_name("reap.py")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Record):
    """The cost of a command.

    :param wall: seconds of wall time.
    :param cpu: seconds of user and system time of the process tree.
    :param peak_memory: the largest total of private memory of the process tree in bytes, without mapped files; None if
        unknown.
    :param received: bytes that the machine received from the network during the command; None if unknown.
    """

    wall: float
    cpu: float
    peak_memory: int | None
    received: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to measure.

    :param log: the file for the output.
    :param out: a separate file for standard output; None writes it to ``log``.
    """

    argv: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    log: Path
    out: Path | None = None


class CommandFailedError(WheelsmithError):
    """A measured command failed."""


def measure(command: Command, running: Path) -> Cost:
    """Run a command and return its cost.

    :param running: a file that contains the process group while the command runs.
    :raises CommandFailedError: the command failed; the message contains lines of the log.
    """
    received, start = _received(), time.monotonic()
    with command.log.open("ab") as log, (command.out or command.log).open("ab") as out:
        process = subprocess.Popen(
            (*_REAP, *command.argv),
            cwd=command.folder,
            env=dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            start_new_session=True,
        )
    running.write_text(str(process.pid))
    with _stopped_afterwards(process, running), _sample_memory(process.pid) as peak:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall, after = time.monotonic() - start, _received()
    if process.returncode:
        raise CommandFailedError(
            f"{Path(command.argv[0]).name} failed with {process.returncode}\n{_error_lines(command.log)}"
        )
    return Cost(
        wall=round(wall, 2),
        cpu=round(usage.ru_utime + usage.ru_stime, 2),
        peak_memory=max(peak) or None,
        received=None if received is None or after is None else after - received,
    )


def _error_lines(log: Path) -> str:
    """Return the lines of a log with errors, or else the last lines."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [line for line in lines if "error: " in line.lower()]
    return "\n".join(line.strip()[:200] for line in (errors[:_SHOWN_LINES] or lines[-_SHOWN_LINES:]))


@contextlib.contextmanager
def _stopped_afterwards(process: subprocess.Popen[bytes], running: Path) -> Iterator[None]:
    """Stop all processes of the command when the block ends."""
    try:
        yield
    finally:
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)
        _signal_group(process.pid, signal.SIGKILL)
        running.unlink()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


@contextlib.contextmanager
def _sample_memory(pid: int) -> Iterator[list[int]]:
    """Sample the memory of a process tree during the block. Yield the growing list of samples in bytes."""
    samples, stop = [0], threading.Event()

    def sample() -> None:
        while not stop.wait(_SAMPLE_SECONDS):
            samples.append(sum(_own_memory(each) for each in _tree(pid)))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def _tree(pid: int) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        yield (current := waiting.pop())
        for thread in Path("/proc", str(current), "task").glob("*/children"):
            with contextlib.suppress(OSError):
                waiting += [int(child) for child in thread.read_text().split()]


def _own_memory(pid: int) -> int:
    with contextlib.suppress(OSError):
        lines = Path("/proc", str(pid), "status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:"))) * 1024
    return 0


def _received() -> int | None:
    """Return the bytes received since the machine started, on all interfaces except loopback."""
    try:
        lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    except OSError:
        return None
    interfaces = (line.partition(":") for line in lines)
    return sum(int(numbers.split()[0]) for name, _, numbers in interfaces if name.strip() != "lo")
