"""Memory and process limits for a process tree where control groups may not be made: it is looked at, and killed.

Looking is later than counting: between two looks a tree may overshoot by what a core writes meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from wheelsmith.engine.cgroup import limited
from wheelsmith.engine.protocol import Limits

_PROC = Path("/proc")
_TICK = 0.1  # seconds between looks, unless they take long:
_SHARE = 20  # no more than a twentieth of the time goes into looking


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process at one look.

    :param start: when it began, in the kernel's ticks: with its number, what tells it from every other.
    """

    threads: int
    start: int


@dataclass(slots=True, kw_only=True)
class ProcessTree:
    """A limit on one process tree, held by looking at it.

    :param limits: what all its processes may use together.
    """

    limits: Limits
    _peak: int = field(default=0, init=False)
    _over: bool = field(default=False, init=False)
    _next: float = field(default=0.0, init=False)
    _seen: dict[int, Process] = field(default_factory=dict, init=False)

    def wrap(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that takes the limits which hold for each process, and becomes ``argv``."""
        # Of one process alone, the kernel counts what it could write to; so no single one outruns a look.
        data = [f"ulimit -d {self.limits.memory // 1024}"] if self.limits.memory else []
        return limited(self.limits, argv, *data)

    def watch(self, pid: int) -> bool:
        """Return whether the tree of a process may go on."""
        now = time.monotonic()
        if now < self._next:
            return True
        tree = processes_below(pid)
        self._seen = tree
        self._over = self._holds_too_much(tree)
        took = time.monotonic() - now
        self._next = now + took + max(_TICK, took * _SHARE)
        return not self._over and sum(process.threads for process in tree.values()) <= self.limits.pids

    def out_of_memory(self) -> bool:
        """Say whether the tree held more than it may."""
        return self._over

    def peak_memory(self) -> int | None:
        """Return the most bytes that the tree was seen to hold, or None where it ended before it was looked at."""
        return self._peak or None

    def cpu_seconds(self) -> float | None:
        """Return None: nobody counts a tree's time."""
        return None

    def kill(self) -> None:
        """Kill whatever was last seen of the tree, in whatever session, with all that comes from it."""
        for first, seen in self._seen.items():
            tree = processes_below(first)
            # Its number may be another's by now.
            if tree.get(first, seen).start == seen.start:
                for pid in tree:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        """Do nothing: there is nothing to remove."""

    def _holds_too_much(self, tree: Iterable[int]) -> bool:
        most = self.limits.counted_memory
        held = sum(_resident(pid) for pid in tree)
        if most is None or held <= most:
            self._peak = max(self._peak, held)
            return False
        # Pages that several of them share were counted for each.
        shared_once = sum(_proportional(pid) for pid in tree)
        self._peak = max(self._peak, shared_once)
        return shared_once > most


def processes_below(pid: int) -> dict[int, Process]:
    """Return a process and all that come from it, as far as they live.

    Those whose parent ended are their namespace's first process's.
    """
    here: dict[int, Process] = {}
    children: dict[int, list[int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended
                # Its name stands in parentheses, and may hold others. What follows: proc_pid_stat(5).
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(folder.name))
                here[int(folder.name)] = Process(threads=int(fields[17]), start=int(fields[19]))
    found, left = {}, [pid]
    while left:
        if (process := left.pop()) in here:
            found[process] = here[process]
            left += children.get(process, [])
    return found


def _resident(pid: int) -> int:
    """Return the bytes that nobody can take from a process: not its files, which are read again."""
    return _sum_of(_PROC / str(pid) / "status", ("RssAnon:", "RssShmem:", "VmSwap:"))


def _proportional(pid: int) -> int:
    """Return a process's share of the same, or all of it where only the kernel's own summary may be read."""
    rollup = _PROC / str(pid) / "smaps_rollup"
    return _sum_of(rollup, ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")) or _resident(pid)


def _sum_of(file: Path, names: tuple[str, ...]) -> int:
    total = 0
    with contextlib.suppress(OSError):  # it ended, or may not be read
        for line in file.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(names):
                total += int(line.split()[1]) * 1024
    return total
