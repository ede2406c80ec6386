"""Run pip and uv to their end, and leave none of their processes behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.units import show_duration

_T = TypeVar("_T")
_TICK = 0.2  # seconds between two checks
_WORKERS = 8  # programs at a time; they mostly wait for the network


def run_program(
    command: Sequence[str],
    title: str,
    *,
    env: Mapping[str, str],
    seconds: float,
    stdin: str = "",
    cancel: Event | None = None,
    check: Callable[[], None] = lambda: None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. If this function ends earlier, kill the program and its children.

    :param title: its name for messages.
    :param seconds: the time limit.
    :param cancel: stops the program when it is set.
    :param check: is called repeatedly and stops the program by raising an error.
    :raises ToolchainError: it exceeded the limit or was cancelled.
    """
    end, pipe = time.monotonic() + seconds, subprocess.PIPE
    process = subprocess.Popen(
        [*die_with_parent(), *command], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env, start_new_session=True
    )
    with process:
        try:
            given: str | None = stdin
            while time.monotonic() < end:
                if cancel and cancel.is_set():
                    raise ToolchainError(f"{title} was cancelled")
                check()
                try:
                    stdout, stderr = process.communicate(given, timeout=_TICK)
                except subprocess.TimeoutExpired:
                    given = None
                else:
                    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    raise ToolchainError(
        f"{title} took longer than {show_duration(seconds)}",
        remedy="check that the index responds; its address is in: python3 -m pip config list",
    )


def die_with_parent() -> tuple[str, ...]:
    """Return a command prefix that kills a program when wheelsmith is killed, if the machine has one."""
    program = shutil.which("setpriv")
    return (program, "--pdeathsig", "KILL") if program else ()


def run_in_parallel(tasks: Iterable[Callable[[], _T]], cancel: Event) -> list[_T]:
    """Run tasks in threads, and return their results in the same order.

    :param cancel: the event that stops the tasks. Ctrl-C sets it.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        try:
            return list(pool.map(lambda task: task(), tasks))
        except KeyboardInterrupt:
            cancel.set()
            raise
