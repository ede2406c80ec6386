"""Whose a container is: one process, told from every other on any machine that shares the engine."""

from __future__ import annotations

import os
from pathlib import Path

_STARTTIME = 19  # the field's place in /proc/PID/stat after the program's name; proc(5) calls it 22


def this_process() -> str:
    """Name this process by machine, boot, process namespace, number and start."""
    return ":".join([*_here(), str(os.getpid()), str(_start(os.getpid()))])


def is_dead(owner: str) -> bool:
    """Say whether the process that ``this_process`` named is surely no more.

    A daemon may be shared with other machines, and with other containers of this one, whose processes cannot be seen
    from here: those are never called dead.
    """
    words = owner.split(":")
    own = _here()
    if len(words) != len(own) + 2:
        return False
    machine, boot, namespace, pid, start = words
    if boot != own[1]:
        return bool(machine) and machine == own[0]
    return namespace == own[2] and pid.isdigit() and _start(int(pid)) != start


def _here() -> tuple[str, str, str]:
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        machine = ""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return machine, boot, str(Path("/proc/self/ns/pid").stat().st_ino)


def _start(pid: int) -> str | None:
    try:
        stat = Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program's name stands in parentheses and may hold anything, parentheses too.
    return stat.rpartition(")")[2].split()[_STARTTIME]
