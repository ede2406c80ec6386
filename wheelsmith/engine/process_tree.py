"""Limits on memory and processes of a process tree where control groups cannot be created.

The tree is measured several times a second and killed if it exceeds a limit. Between two measurements its memory can
exceed the limit. The kernel limits the number of processes, for each user in each user namespace, because measuring
tens of thousands of processes would take too long.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import signal
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from wheelsmith.engine.cgroup import NoGroupError, available_memory, make_group, with_resource_limits
from wheelsmith.engine.protocol import Limits, TreeLimits

_PROC = Path("/proc")
_MIN_INTERVAL = 0.1  # minimum seconds between measurements
_PAUSE_FACTOR = 20  # the interval is at least this many times the duration of a measurement,
_RESERVE = 20  # keep 1/20 of the memory that was free at the start for the machine
_TABLES = "VmPTE:"
_MAX_INTERVAL = 1.0  # but at most this many seconds
# From this release on, Linux counts RLIMIT_NPROC for each user namespace. Before, it counted all processes of a user.
_PER_NAMESPACE_SINCE = (5, 14)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The state of a process at one measurement.

    :param parent: PID of its parent.
    :param threads: number of threads.
    :param start: start time in clock ticks. PID and start time identify a process.
    """

    parent: int
    threads: int
    start: int


@dataclass(slots=True, kw_only=True)
class ProcessTree:
    """Limits on one process tree, enforced by measuring it.

    :param limits: limits on all its processes together.
    """

    limits: Limits
    _reserve: int = field(default_factory=lambda: available_memory() // _RESERVE, init=False)
    _peak: int = field(default=0, init=False)
    _exceeded: bool = field(default=False, init=False)
    _next_time: float = field(default=0.0, init=False)
    _last_measured: dict[int, Process] = field(default_factory=dict, init=False)

    def wrap(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that sets the resource limits of each process and then executes ``argv``."""
        # The kernel limits the writable memory of each process. So no single process can exceed the limit between two
        # measurements.
        data = [f"ulimit -d {self.limits.memory // 1024}"] if self.limits.memory else []
        return with_resource_limits(self.limits, argv, *data)

    def find(self, pid: int) -> dict[int, Process]:
        """Return the processes of the tree, by PID.

        :param pid: PID of the root process.
        """
        return processes_below((pid,))

    def watch(self, pid: int) -> bool:
        """Return True while the process tree stays within its limits."""
        now = time.monotonic()
        if now < self._next_time:
            return True
        tree = self.find(pid)
        self._last_measured = tree
        if sum(process.threads for process in tree.values()) > self.limits.pids:
            return False  # reading the memory of each process would take long
            # The sum lacks memory that no process maps: other pages of shared memory, and buffers of sockets.
        self._exceeded = self._exceeds_memory(tree) or available_memory() < self._reserve
        took = time.monotonic() - now
        self._next_time = now + took + min(max(_MIN_INTERVAL, took * _PAUSE_FACTOR), _MAX_INTERVAL)
        return not self._exceeded

    def out_of_memory(self) -> bool:
        """Return True if the tree exceeded its memory limit."""
        return self._exceeded

    def peak_memory(self) -> int | None:
        """Return the largest measured memory in bytes, or None if the tree ended before the first measurement."""
        return self._peak or None

    def cpu_seconds(self) -> float | None:
        """Return None, because the CPU time is not measured."""
        return None

    def kill(self) -> None:
        """Kill the processes that were last measured and all their descendants, in every session."""
        running = all_processes()
        # The kernel may have reused a PID.
        left = [pid for pid, seen in self._last_measured.items() if pid in running and running[pid].start == seen.start]
        for pid in _with_descendants(left, running):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        """Do nothing, because no control groups were created."""

    def _exceeds_memory(self, tree: Iterable[int]) -> bool:
        limit = self.limits.effective_memory
        total = sum(_resident(pid) for pid in tree)
        if limit is None or total <= limit:
            self._peak = max(self._peak, total)
            return False
        # The sum contains shared pages several times.
        shared_once = sum(_proportional(pid) for pid in tree)
        self._peak = max(self._peak, shared_once)
        return shared_once > limit


def limit_tree(limits: Limits) -> TreeLimits:
    """Return the limits of one process tree: a control group, or a measured tree if none can be created."""
    try:
        return make_group(limits)
    except NoGroupError:
        return ProcessTree(limits=limits)


def process_limit(limits: Limits, release: str = platform.release()) -> int:
    """Return the value of RLIMIT_NPROC for a tree in a new user namespace.

    :param release: the kernel release.
    """
    per_namespace = tuple(map(int, re.findall(r"\d+", release)[:2])) >= _PER_NAMESPACE_SINCE
    return limits.pids if per_namespace else shared_process_limit(limits)


def shared_process_limit(limits: Limits) -> int:
    """Return the value of RLIMIT_NPROC for a tree that shares the count with all processes of this user."""
    own = 0
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended
                own += len(list((folder / "task").iterdir())) if folder.stat().st_uid == os.getuid() else 0
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = own + limits.pids
    return limit if hard_limit == resource.RLIM_INFINITY else min(limit, hard_limit)


def processes_below(first: Iterable[int]) -> dict[int, Process]:
    """Return running processes and their descendants, by PID.

    A process whose parent ended is a child of the first process of its PID namespace.
    """
    return _with_descendants(first, all_processes())


def all_processes() -> dict[int, Process]:
    """Return all visible processes, by PID."""
    running: dict[int, Process] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended
                # The name is in parentheses and may contain parentheses. For the fields after it see proc_pid_stat(5).
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                process = Process(parent=int(fields[1]), threads=int(fields[17]), start=int(fields[19]))
                running[int(folder.name)] = process
    return running


def _with_descendants(first: Iterable[int], running: dict[int, Process]) -> dict[int, Process]:
    """Return processes and their descendants, parents first. A killed parent cannot replace its children."""
    children: dict[int, list[int]] = {}
    for pid, process in running.items():
        children.setdefault(process.parent, []).append(pid)
    found: dict[int, Process] = {}
    left = deque(first)
    while left:
        if (pid := left.popleft()) in running and pid not in found:
            found[pid] = running[pid]
            left += children.get(pid, [])
    return found


def _resident(pid: int) -> int:
    """Return the memory of a process in bytes that the kernel cannot reclaim, so without mapped files.

    It includes page tables. A process that reads much memory without writing to it uses little else.
    """
    return _sum_of(_PROC / str(pid) / "status", ("RssAnon:", "RssShmem:", "VmSwap:", _TABLES))


def _proportional(pid: int) -> int:
    """Return the process's share of that memory, or all of it if ``smaps_rollup`` cannot be read."""
    folder = _PROC / str(pid)
    shared = _sum_of(folder / "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
    return shared + _sum_of(folder / "status", (_TABLES,)) if shared else _resident(pid)


def _sum_of(file: Path, names: tuple[str, ...]) -> int:
    total = 0
    with contextlib.suppress(OSError):  # it ended or cannot be read
        for line in file.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(names):
                total += int(line.split()[1]) * 1024
    return total


@dataclass(slots=True, kw_only=True)
class ContainerTree(ProcessTree):
    """Limits on the processes of one container, enforced by measuring them.

    :param namespace: the PID namespace, as the kernel names it. It identifies the processes, because commands in a
        container are descendants neither of its first process nor of this process.
    """

    namespace: str

    def find(self, pid: int) -> dict[int, Process]:
        """Return the processes of the container, by PID.

        :param pid: PID of the client, which is outside of the container.
        """
        del pid
        return {pid: process for pid, process in all_processes().items() if namespace_of(pid) == self.namespace}


def namespace_of(pid: int | str) -> str | None:
    """Return the PID namespace of a process, or None if the process is not accessible or on another machine."""
    try:
        return str(Path(_PROC, str(pid), "ns", "pid").readlink())
    except OSError:
        return None
