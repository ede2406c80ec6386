"""Whose a container is: a process of this machine, told from a later one with the same number."""

from __future__ import annotations

import os
from pathlib import Path

_STARTTIME = 19  # the field's place in /proc/PID/stat after the program's name; proc(5) calls it 22


def this_process() -> str:
    """Name this process by boot, number and start, so that the name is never used again."""
    return f"{_boot()}:{os.getpid()}:{_start(os.getpid())}"


def is_dead(owner: str) -> bool:
    """Say whether the process that ``this_process`` named is no more."""
    boot, _, rest = owner.partition(":")
    pid, _, start = rest.partition(":")
    return boot != _boot() or not pid.isdigit() or _start(int(pid)) != start


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start(pid: int) -> str | None:
    try:
        stat = Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program's name stands in parentheses and may hold anything, parentheses too.
    return stat.rpartition(")")[2].split()[_STARTTIME]
