"""Memory and process limits for a process tree where control groups may not be made: it is looked at, and killed.

Looking is later than counting: between two looks a tree may overshoot by what a core writes meanwhile. How many
processes there are the kernel counts by itself, for each user in each user namespace: a look at tens of thousands would
come too late.
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

from wheelsmith.engine.cgroup import NoGroupError, granted_memory, limited, make_group
from wheelsmith.engine.protocol import Limits, TreeLimits

_PROC = Path("/proc")
_TICK = 0.1  # seconds between looks, unless they take long:
_SHARE = 20  # no more than a twentieth of the time goes into looking,
_RESERVE = 20  # of what was free when a tree began, this part is the machine's own
_TABLES = "VmPTE:"
_LONGEST = 1.0  # but no more seconds than these pass between two looks
# Linux counts RLIMIT_NPROC in each user namespace by itself since this release; before, all of a user's processes.
_COUNTED_APART = (5, 14)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process at one look.

    :param parent: its parent's number.
    :param start: when it began, in the kernel's ticks: with its number, what tells it from every other.
    """

    parent: int
    threads: int
    start: int


@dataclass(slots=True, kw_only=True)
class ProcessTree:
    """A limit on one process tree, held by looking at it.

    :param limits: what all its processes may use together.
    """

    limits: Limits
    _least: int = field(default_factory=lambda: granted_memory() // _RESERVE, init=False)
    _peak: int = field(default=0, init=False)
    _over: bool = field(default=False, init=False)
    _next: float = field(default=0.0, init=False)
    _seen: dict[int, Process] = field(default_factory=dict, init=False)

    def wrap(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that takes the limits which hold for each process, and becomes ``argv``."""
        # Of one process alone, the kernel counts what it could write to; so no single one outruns a look.
        data = [f"ulimit -d {self.limits.memory // 1024}"] if self.limits.memory else []
        return limited(self.limits, argv, *data)

    def find(self, pid: int) -> dict[int, Process]:
        """Return what belongs to the tree that begins with a process."""
        return processes_below((pid,))

    def watch(self, pid: int) -> bool:
        """Return whether the tree of a process may go on."""
        now = time.monotonic()
        if now < self._next:
            return True
        tree = self.find(pid)
        self._seen = tree
        if sum(process.threads for process in tree.values()) > self.limits.pids:
            return False  # before each of them is asked what it holds, which takes long
        # What no process maps is in nobody's account: memory shared behind one page, what sockets hold.
        self._over = self._holds_too_much(tree) or granted_memory() < self._least
        took = time.monotonic() - now
        self._next = now + took + min(max(_TICK, took * _SHARE), _LONGEST)
        return not self._over

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
        here = all_processes()
        # Its number may be another's by now.
        left = [pid for pid, seen in self._seen.items() if pid in here and here[pid].start == seen.start]
        for pid in _below(left, here):
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


def limited_tree(limits: Limits) -> TreeLimits:
    """Return limits for one process tree: a control group, or where none can be made a watched tree."""
    try:
        return make_group(limits)
    except NoGroupError:
        return ProcessTree(limits=limits)


def most_processes(limits: Limits, release: str = platform.release()) -> int:
    """Return what RLIMIT_NPROC is for a tree in a user namespace of its own.

    :param release: of the kernel.
    """
    apart = tuple(map(int, re.findall(r"\d+", release)[:2])) >= _COUNTED_APART
    return limits.pids if apart else most_processes_beside_others(limits)


def most_processes_beside_others(limits: Limits) -> int:
    """Return what RLIMIT_NPROC is for a tree whose processes are counted with all others of this user."""
    own = 0
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended
                own += len(list((folder / "task").iterdir())) if folder.stat().st_uid == os.getuid() else 0
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = own + limits.pids
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)


def processes_below(first: Iterable[int]) -> dict[int, Process]:
    """Return processes and all that come from them, as far as they live.

    Those whose parent ended are their namespace's first process's.
    """
    return _below(first, all_processes())


def all_processes() -> dict[int, Process]:
    """Return the processes that can be seen from here."""
    here: dict[int, Process] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended
                # Its name stands in parentheses, and may hold others. What follows: proc_pid_stat(5).
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                process = Process(parent=int(fields[1]), threads=int(fields[17]), start=int(fields[19]))
                here[int(folder.name)] = process
    return here


def _below(first: Iterable[int], here: dict[int, Process]) -> dict[int, Process]:
    """Return them as they came: whoever is killed before its children starts none in their place."""
    children: dict[int, list[int]] = {}
    for pid, process in here.items():
        children.setdefault(process.parent, []).append(pid)
    found: dict[int, Process] = {}
    left = deque(first)
    while left:
        if (pid := left.popleft()) in here and pid not in found:
            found[pid] = here[pid]
            left += children.get(pid, [])
    return found


def _resident(pid: int) -> int:
    """Return the bytes that nobody can take from a process: not its files, which are read again.

    Its tables of pages are among them: whoever reads much that was never written has little else.
    """
    return _sum_of(_PROC / str(pid) / "status", ("RssAnon:", "RssShmem:", "VmSwap:", _TABLES))


def _proportional(pid: int) -> int:
    """Return a process's share of the same, or all of it where only the kernel's own summary may be read."""
    folder = _PROC / str(pid)
    shared = _sum_of(folder / "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
    return shared + _sum_of(folder / "status", (_TABLES,)) if shared else _resident(pid)


def _sum_of(file: Path, names: tuple[str, ...]) -> int:
    total = 0
    with contextlib.suppress(OSError):  # it ended, or may not be read
        for line in file.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(names):
                total += int(line.split()[1]) * 1024
    return total


@dataclass(slots=True, kw_only=True)
class ContainerTree(ProcessTree):
    """A limit on the processes of one container, held by looking at them.

    :param namespace: of processes, as the kernel names it. What is run in a container does not come from its first
        process, nor from us.
    """

    namespace: str

    def find(self, pid: int) -> dict[int, Process]:
        """Return what is in the container; ``pid`` is the client's, which is not."""
        del pid
        return {pid: process for pid, process in all_processes().items() if namespace_of(pid) == self.namespace}


def namespace_of(pid: int | str) -> str | None:
    """Return the process namespace that a process is in, or None where it is another's, or on another machine."""
    try:
        return str(Path(_PROC, str(pid), "ns", "pid").readlink())
    except OSError:
        return None
