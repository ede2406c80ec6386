"""podman: containers without a daemon."""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path

from packaging.version import InvalidVersion, Version

from wheelsmith.engine.containers import ContainerEngine
from wheelsmith.engine.process_tree import most_processes
from wheelsmith.engine.processes import last_words
from wheelsmith.engine.protocol import Limits, Probe, Readiness

_OLDEST = Version("4.0")
_INSTALL = "apt-get install podman"
# podman asks for these for every container, and fails where it may not raise its own.
_WANTED_FILES = 1048576
_MOST_PROCESSES = 32768  # what podman lowers itself to at its start


class Podman(ContainerEngine):
    """Runs commands in podman's containers."""

    name = "podman"

    def probe(self) -> Probe:
        """Say whether podman is there, new enough and able to start."""
        if shutil.which("podman") is None:
            return Probe(readiness=Readiness.MISSING, detail="podman is not on PATH", remedy=_INSTALL)
        answer = self.ask("version", "--format", "json")
        if answer.returncode:
            return self._refused(answer.stderr)
        version = _version(answer.stdout)
        if version is not None and version < _OLDEST:
            return Probe(
                readiness=Readiness.TOO_OLD, version=str(version), detail=f"podman {version} is older than {_OLDEST}",
                remedy=_INSTALL,
            )  # fmt: skip
        return Probe(readiness=Readiness.READY, version=str(version) if version else None)

    def client(self) -> tuple[str, ...]:
        """Return podman with the runtime and group manager that work here."""
        options = ["--events-backend", "file"]
        if not Path("/run/systemd/system").is_dir():
            options += ["--cgroup-manager", "cgroupfs"]
        # crun refuses a machine that mounts both versions of control groups; runc takes it.
        if Path("/sys/fs/cgroup/memory").is_dir() and (runc := shutil.which("runc")):
            options += ["--runtime", runc]
        return ("podman", *options)

    def run_options(self, limits: Limits) -> tuple[str, ...]:
        """Return the options that only podman has, or that only podman needs."""
        options = ("--read-only-tmpfs=false", "--http-proxy=false")
        if os.getuid() == 0:
            return (*options, *resource_options(_MOST_PROCESSES))
        # Control groups, which --pids-limit takes, are seldom an ordinary user's; user namespaces are.
        return (*options, "--userns", "keep-id", *resource_options(most_processes(limits)))

    def remove_options(self) -> tuple[str, ...]:
        """End containers at once: podman otherwise waits ten seconds for them to end by themselves."""
        return ("--time", "0")

    def build_options(self) -> tuple[str, ...]:
        """Ask for no more than this process may have."""
        return resource_options(_MOST_PROCESSES)

    def label_format(self, label: str) -> str:
        """Return the template that prints a label in ``ps``."""
        return f'{{{{index .Labels "{label}"}}}}'

    def _refused(self, stderr: str) -> Probe:
        words = last_words(stderr)
        if "connect" in stderr:
            return Probe(readiness=Readiness.NOT_RUNNING, detail=words, remedy="podman machine start")
        remedy = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {os.environ.get('USER', '$USER')}"
        return Probe(readiness=Readiness.NOT_PERMITTED, detail=words, remedy=remedy)


def resource_options(most: int) -> tuple[str, ...]:
    """Ask for no more files and processes than this process may have itself.

    :param most: processes, if it may have more.
    """
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
    fewer = 0 < files < _WANTED_FILES
    most = most if processes <= 0 else min(processes, most)
    return (
        *(("--ulimit", f"nofile={files}:{files}") if fewer else ()),
        *(("--ulimit", f"nproc={most}:{most}") if fewer or most < _MOST_PROCESSES else ()),
    )


def _version(text: str) -> Version | None:
    try:
        return Version(json.loads(text)["Client"]["Version"])
    except (ValueError, KeyError, TypeError, InvalidVersion):
        return None
