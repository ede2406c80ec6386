"""Control groups, version 1 and 2: the resources of this process, and limits on memory and processes of a tree.

``/proc/self/mountinfo`` lists the mounts and ``/proc/self/cgroup`` the groups of a process (cgroups(7)). In a container
the root of the mount is the container's group, and ``/proc/self/cgroup`` may not contain its path.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.engine.protocol import Limits

_OWN_PROC = Path("/proc/self")
_PROC = Path("/proc")
_PREFIX = "wheelsmith-"
# Controllers that measure use. In version 2 one group has both.
_MEASURED = ("memory", "cpuacct")
# Files with the limits of a group, and the values that mean no limit.
_LIMITS = (
    *("memory.limit_in_bytes", "memory.max", "memory.high"),
    *("pids.max", "cpu.cfs_quota_us", "cpu.max", "cpuset.cpus"),
)
_UNLIMITED = ("max", "-1", "")
_NO_LIMIT = 2**60  # bytes; in version 1 no limit is the largest multiple of the page size
# Seconds between looks at killed processes. Most end within a few milliseconds.
_KILL_PAUSES = (*(0.001,) * 10, *(0.01,) * 50)
_serial = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPath:
    """The visible control groups of a process.

    :param version: 1 or 2.
    :param folders: the process's group, then its ancestors up to the mount point.
    """

    version: int
    folders: tuple[Path, ...]


def group_path(controller: str, proc: Path = _OWN_PROC, *, of: Path | None = None) -> GroupPath | None:
    """Return the groups that limit a resource of a process, or None if none are mounted.

    :param controller: for example ``memory`` or ``cpu``.
    :param proc: /proc folder of this process, which lists the mounts that are visible here.
    :param of: /proc folder of the process, if it is another one.
    """
    try:
        mounts = _parse_mountinfo((proc / "mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
        own = _parse_cgroup(((of or proc) / "cgroup").read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return None
    for key, version in ((controller, 1), ("", 2)):
        if key in mounts and key in own:
            root, point = mounts[key]
            return GroupPath(version=version, folders=_with_ancestors(point, _relative_to_mount(root, own[key])))
    return None


def _parse_mountinfo(text: str) -> dict[str, tuple[str, Path]]:
    """Return controller → (group at the root of the mount, mount point). The key for version 2 is ``""``."""
    found: dict[str, tuple[str, Path]] = {}
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        words, kind = fields.split(), rest.split()
        if len(words) < 5 or len(kind) < 3 or kind[0] not in {"cgroup", "cgroup2"}:  # noqa: PLR2004  # fields in proc_pid_mountinfo(5)
            continue
        place = (_unescaped(words[3]), Path(_unescaped(words[4])))
        for name in kind[2].split(",") if kind[0] == "cgroup" else [""]:
            found.setdefault(name, place)
    return found


def _parse_cgroup(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _relative_to_mount(root: str, path: str) -> str:
    """Return the path of a group relative to the root of a mount, or ``/`` if it is outside of the mount."""
    if root == "/":
        return path
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else "/"


def _with_ancestors(point: Path, path: str) -> tuple[Path, ...]:
    parts = [part for part in path.split("/") if part and part != ".."]
    folders = [point.joinpath(*parts[:count]) for count in range(len(parts), -1, -1)]
    return tuple(folder for folder in folders if folder.is_dir())


def _unescaped(word: str) -> str:
    """Decode the octal escapes of spaces and backslashes in mountinfo."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(code, character)
    return word


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """Limits on one process tree, enforced by the kernel.

    :param folders: the group's folder under each controller; empty if nothing is measured.
    :param limits: the limits. Those that control groups do not have are set as resource limits of each process.
    """

    folders: tuple[Path, ...]
    limits: Limits

    def wrap(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that joins the group, sets the resource limits and then executes ``argv``."""
        join = (f"echo $$ > {shlex.quote(str(folder / 'cgroup.procs'))}" for folder in self.folders)
        return with_resource_limits(self.limits, argv, *join)

    def watch(self, pid: int) -> bool:
        """Return True, because the kernel enforces the limits."""
        del pid
        return True

    def out_of_memory(self) -> bool:
        """Return True if the kernel killed a process of the group because the memory limit was reached."""
        return any(_oom_kills(folder) > 0 for folder in self.folders)

    def peak_memory(self) -> int | None:
        """Return the peak memory in bytes, or None if it was not measured."""
        for folder in self.folders:
            for name in ("memory.peak", "memory.max_usage_in_bytes"):
                with contextlib.suppress(OSError, ValueError):
                    return int((folder / name).read_text())
        return None

    def cpu_seconds(self) -> float | None:
        """Return the CPU time in seconds, or None if it was not measured."""
        for folder in self.folders:
            with contextlib.suppress(OSError, ValueError):
                return int((folder / "cpuacct.usage").read_text()) / 1e9
            with contextlib.suppress(OSError, ValueError, StopIteration):
                lines = (folder / "cpu.stat").read_text().splitlines()
                return next(int(line.split()[1]) for line in lines if line.startswith("usage_usec")) / 1e6
        return None

    def kill(self) -> None:
        """Kill all remaining processes of the tree."""
        for pause in _KILL_PAUSES:
            left = [pid for folder in self.folders for pid in members(folder)]
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(pause)

    def remove(self) -> None:
        """Remove the group."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def with_resource_limits(limits: Limits, argv: tuple[str, ...], *first: str) -> tuple[str, ...]:
    """Return a command that sets the resource limits of each process and then executes ``argv``.

    :param first: shell commands that run before and must succeed.
    """
    script = [f"ulimit -f {max(1, limits.disk // 512)}", *first, 'exec "$@"']
    return ("/bin/sh", "-c", " && ".join(script), "wheelsmith", *argv)


class NoGroupError(Exception):
    """No control group can be created. The message contains the reason."""


def make_group(limits: Limits) -> ControlGroup:
    """Create a group with these limits. The limits of this process also apply to the group.

    :raises NoGroupError: no group can be created.
    """
    name = f"{_PREFIX}{os.getpid()}-{next(_serial)}"
    memory = group_path("memory")
    if memory is None:
        raise NoGroupError("no control groups for memory are mounted")
    make = _make_v1 if memory.version == 1 else _make_v2
    reason = "this process is in no visible control group"
    for parent in _parent_folders(memory):
        group = ControlGroup(folders=(parent / name,), limits=limits)
        try:
            return replace(group, folders=make(parent / name, limits))
        except OSError as error:
            group.remove()
            reason = f"no control group can be created in {parent}: {error.strerror or error}"
    raise NoGroupError(reason)


def group_of_container(container_id: str, pid: str, limits: Limits, proc: Path = _PROC) -> ControlGroup:
    """Return the groups that an engine created for a container; no groups if they are on another machine.

    :param container_id: the container's ID, which its groups have in their names. A daemon in a virtual machine returns
        PIDs that belong to other processes on this machine.
    :param pid: PID of the container's first process.
    """
    groups = (group_path(controller, proc / "self", of=proc / pid) for controller in _MEASURED)
    folders = dict.fromkeys(group.folders[0] for group in groups if group and group.folders)
    own = tuple(folder for folder in folders if container_id and container_id in str(folder))
    return ControlGroup(folders=own, limits=limits)


def remove_dead_groups() -> None:
    """Remove the groups of wheelsmith processes that have ended, and kill the processes in them."""
    paths = (group_path(controller) for controller in ("memory", "cpuacct", "pids"))
    for parent in {folder for path in paths if path for folder in path.folders}:
        for folder in parent.glob(f"{_PREFIX}*"):
            pid = folder.name.removeprefix(_PREFIX).split("-")[0]
            if not Path("/proc", pid).exists():
                group = ControlGroup(folders=(folder,), limits=Limits())
                group.kill()
                group.remove()


def members(folder: Path) -> list[int]:
    """Return the PIDs of a group's processes in this PID namespace.

    The PID of a process in another namespace reads as 0 (cgroups(7)), which for ``kill`` is the caller's process group.
    """
    try:
        return [pid for line in (folder / "cgroup.procs").read_text().split() if (pid := int(line)) > 0]
    except OSError:
        return []


def _parent_folders(place: GroupPath) -> tuple[Path, ...]:
    """Return the folders in which a new group is within all limits of this process, the outermost first."""
    own = place.folders
    limiting = next((count for count, folder in enumerate(own) if _is_limited(folder)), len(own) - 1)
    return own[limiting::-1]


def _is_limited(folder: Path) -> bool:
    for name in _LIMITS:
        with contextlib.suppress(OSError):
            value = ((folder / name).read_text().split() or [""])[0]
            if value not in _UNLIMITED and not (name == "memory.limit_in_bytes" and int(value) >= _NO_LIMIT):
                return True
    return False


def _make_v1(memory: Path, limits: Limits) -> tuple[Path, ...]:
    memory.mkdir()
    if limit := limits.effective_memory:
        (memory / "memory.limit_in_bytes").write_text(str(limit))
        with contextlib.suppress(OSError):  # absent if swap accounting is disabled
            (memory / "memory.memsw.limit_in_bytes").write_text(str(limit))
    folders = [memory]
    with contextlib.suppress(OSError):
        folders += _make_sibling_v1("cpuacct", memory.name)
    if pids := _make_sibling_v1("pids", memory.name):
        (pids[0] / "pids.max").write_text(str(limits.pids))
        folders += pids
    return tuple(folders)


def _make_sibling_v1(controller: str, name: str) -> list[Path]:
    """Create the group of another controller."""
    place = group_path(controller)
    if place is None or place.version != 1:
        return []
    folder = _parent_folders(place)[0] / name
    folder.mkdir()
    return [folder]


def _make_v2(folder: Path, limits: Limits) -> tuple[Path, ...]:
    if "memory" not in (folder.parent / "cgroup.subtree_control").read_text().split():
        raise PermissionError("the memory controller is not delegated")
    folder.mkdir()
    if limit := limits.effective_memory:
        (folder / "memory.max").write_text(str(limit))
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


def available_cores(proc: Path = _PROC) -> int:
    """Return the number of cores that this process may use, from its CPU affinity and its quotas."""
    cores = float(len(os.sched_getaffinity(0)))
    if place := group_path("cpu", proc / "self"):
        cores = min([cores, *_quotas(place)])
    return max(1, int(cores))


def available_memory(proc: Path = _PROC) -> int:
    """Return the free memory in bytes for this process, on the machine and in each of its control groups."""
    free = _free_on_machine(proc)
    if place := group_path("memory", proc / "self"):
        free = min([free, *_free_in_groups(place)])
    return max(0, free)


def _quotas(place: GroupPath) -> Iterator[float]:
    for folder in place.folders:
        with contextlib.suppress(OSError, ValueError):
            if place.version == 1:
                quota = (folder / "cpu.cfs_quota_us").read_text().strip()
                period = (folder / "cpu.cfs_period_us").read_text()
            else:
                quota, period = (folder / "cpu.max").read_text().split()
            if quota not in {"max", "-1"}:
                yield int(quota) / int(period)


def _free_in_groups(place: GroupPath) -> Iterator[int]:
    limit_file, usage_file = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes") if place.version == 1 else ("memory.max", "memory.current")
    )
    for folder in place.folders:
        # The root group has no limit file, and "max" is not a number.
        with contextlib.suppress(OSError, ValueError):
            limit = int((folder / limit_file).read_text())
            if limit < _NO_LIMIT:
                yield limit - int((folder / usage_file).read_text()) + _reclaimable(folder, place.version)


def _reclaimable(folder: Path, version: int) -> int:
    wanted = "total_inactive_file" if version == 1 else "inactive_file"
    for line in (folder / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == wanted:
            return int(value)
    return 0


def _free_on_machine(proc: Path) -> int:
    for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
