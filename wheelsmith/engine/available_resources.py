"""What this process is granted of the machine: cores and memory, by affinity and by control groups."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.engine.cgroup import GroupPath, group_path

_PROC = Path("/proc")
# Version 1 writes an absent limit as the largest number of whole pages; anything of that size is none.
_NO_LIMIT = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What builds may use together.

    :param cores: at least 1.
    :param memory: bytes that are free for them at this moment.
    """

    cores: int
    memory: int


def granted(proc: Path = _PROC) -> Granted:
    """Return what this process may use: a pod or a CI job has often less than the machine that it runs on."""
    return Granted(cores=granted_cores(proc), memory=granted_memory(proc))


def granted_cores(proc: Path = _PROC) -> int:
    """Return the cores that this process may keep busy: those it may run on, and no more than its quota pays for."""
    cores = float(len(os.sched_getaffinity(0)))
    if place := group_path("cpu", proc / "self"):
        cores = min([cores, *_quotas(place)])
    return max(1, int(cores))


def granted_memory(proc: Path = _PROC) -> int:
    """Return the bytes that are free for this process: of the machine, and of each group that it is in."""
    free = _available(proc)
    if place := group_path("memory", proc / "self"):
        free = min([free, *_left(place)])
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


def _left(place: GroupPath) -> Iterator[int]:
    limit, used = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes") if place.version == 1 else ("memory.max", "memory.current")
    )
    for folder in place.folders:
        # The root has no limit of its own, and "max" is no number.
        with contextlib.suppress(OSError, ValueError):
            most = int((folder / limit).read_text())
            if most < _NO_LIMIT:
                yield most - int((folder / used).read_text()) + _reclaimable(folder, place.version)


def _reclaimable(folder: Path, version: int) -> int:
    wanted = "total_inactive_file" if version == 1 else "inactive_file"
    for line in (folder / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == wanted:
            return int(value)
    return 0


def _available(proc: Path) -> int:
    for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
