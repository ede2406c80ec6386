"""Memory and process limits for a process tree, through control groups of either version.

Where groups may not be made, the tree gets per-process limits instead; ``Group.kind`` says which it is.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.engine.protocol import Limits

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "wheelsmith-"
# Controllers of version 1 that count what a tree uses; some systems mount the second together with another.
_COUNTED = ("memory", "cpuacct", "cpu,cpuacct")
_serial = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A limit on one process tree.

    :param folders: the group's folder under each controller; empty when groups may not be made.
    :param limits: also given as resource limits of each process, for what groups do not cover.
    """

    folders: tuple[Path, ...]
    limits: Limits

    @property
    def kind(self) -> str:
        """Name the mechanism, for doctor."""
        return "cgroup" if self.folders else "rlimit"

    def wrap(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Give a command that joins the group, takes its resource limits and becomes ``argv``."""
        script = ["ulimit -c 0", f"ulimit -f {max(1, self.limits.disk // 512)}"]
        if self.limits.memory and not self.folders:
            # Address space is more than memory used, so this is the coarser limit of the two.
            script.append(f"ulimit -v {max(1, self.limits.memory // 1024)}")
        script += [f"echo $$ > {folder}/cgroup.procs" for folder in self.folders]
        script.append('exec "$@"')
        return ("/bin/sh", "-c", " && ".join(script), "wheelsmith", *argv)

    def out_of_memory(self) -> bool:
        """Say whether the kernel killed a process of the group for its memory."""
        return any(_oom_kills(folder) > 0 for folder in self.folders)

    def peak_memory(self) -> int | None:
        """Give the most bytes the tree held at once, or None where nobody counted."""
        for folder in self.folders:
            for name in ("memory.peak", "memory.max_usage_in_bytes"):
                with contextlib.suppress(OSError, ValueError):
                    return int((folder / name).read_text())
        return None

    def cpu_seconds(self) -> float | None:
        """Give the time that cores spent on the tree, or None where nobody counted."""
        for folder in self.folders:
            with contextlib.suppress(OSError, ValueError):
                return int((folder / "cpuacct.usage").read_text()) / 1e9
            with contextlib.suppress(OSError, ValueError, StopIteration):
                lines = (folder / "cpu.stat").read_text().splitlines()
                return next(int(line.split()[1]) for line in lines if line.startswith("usage_usec")) / 1e6
        return None

    def kill(self) -> None:
        """Kill whatever of the tree is left."""
        for _ in range(50):
            left = [pid for folder in self.folders for pid in _pids(folder)]
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def remove(self) -> None:
        """Remove the group."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def make_group(limits: Limits) -> Group:
    """Make a group with these limits, or a stand-in where that is not permitted."""
    name = f"{_PREFIX}{os.getpid()}-{next(_serial)}"
    try:
        folders = _make_v1(name, limits) if (_ROOT / "memory").is_dir() else _make_v2(name, limits)
    except OSError:
        folders = ()
    return Group(folders=folders, limits=limits)


def group_of_container(identity: str, pid: str, limits: Limits) -> Group:
    """Give the groups that an engine made for a container, or none where they are not on this machine.

    :param identity: the container's id, which its groups are named after: a daemon in a virtual machine tells
        process numbers that here belong to somebody else.
    :param pid: the container's first process.
    """
    folders = []
    with contextlib.suppress(OSError):
        for line in Path("/proc", pid, "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            root = _ROOT / controllers if controllers in _COUNTED else _ROOT if not controllers else None
            if root and identity and identity in path and (root / path[1:] / "cgroup.procs").exists():
                folders.append(root / path[1:])
    return Group(folders=tuple(folders), limits=limits)


def remove_dead_groups() -> None:
    """Kill and remove the groups of wheelsmith processes that are no more."""
    for root in (*(_ROOT / name for name in _COUNTED), _ROOT / "pids", _ROOT):
        for folder in root.glob(f"{_PREFIX}*"):
            pid = folder.name.removeprefix(_PREFIX).split("-")[0]
            if not Path("/proc", pid).exists():
                group = Group(folders=(folder,), limits=Limits())
                group.kill()
                group.remove()


def _make_v1(name: str, limits: Limits) -> tuple[Path, ...]:
    memory, pids = _ROOT / "memory" / name, _ROOT / "pids" / name
    memory.mkdir()
    if most := limits.counted_memory:
        (memory / "memory.limit_in_bytes").write_text(str(most))
        with contextlib.suppress(OSError):  # absent where swap is not accounted for
            (memory / "memory.memsw.limit_in_bytes").write_text(str(most))
    folders = [memory]
    with contextlib.suppress(OSError):
        cpu = _ROOT / "cpuacct" / name
        cpu.mkdir()
        folders.append(cpu)
    if pids.parent.is_dir():
        pids.mkdir()
        (pids / "pids.max").write_text(str(limits.pids))
        folders.append(pids)
    return tuple(folders)


def _make_v2(name: str, limits: Limits) -> tuple[Path, ...]:
    if "memory" not in (_ROOT / "cgroup.subtree_control").read_text():
        raise PermissionError("the memory controller is not delegated")
    folder = _ROOT / name
    folder.mkdir()
    if most := limits.counted_memory:
        (folder / "memory.max").write_text(str(most))
        with contextlib.suppress(OSError):
            (folder / "memory.swap.max").write_text("0")
    with contextlib.suppress(OSError):
        (folder / "pids.max").write_text(str(limits.pids))
    return (folder,)


def _oom_kills(folder: Path) -> int:
    for name, key in (("memory.events", "oom_kill"), ("memory.oom_control", "oom_kill")):
        with contextlib.suppress(OSError, ValueError):
            for line in (folder / name).read_text().splitlines():
                if line.split()[0] == key:
                    return int(line.split()[1])
    return 0


def _pids(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []
