"""The processes of a container, for engines that may not make control groups: a rootless podman on most machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wheelsmith.engine.process_tree import Process, ProcessTree, all_processes

_PROC = Path("/proc")


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
