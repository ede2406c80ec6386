"""Run commands with podman."""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path

from packaging.version import InvalidVersion, Version

from wheelsmith.engine.containers import ContainerEngine
from wheelsmith.engine.process_tree import process_limit
from wheelsmith.engine.processes import last_line
from wheelsmith.engine.protocol import Limits, Probe, Readiness

_OLDEST = Version("4.0")
_INSTALL = "apt-get install podman"
# podman requests this limit for every container, and fails if it may not raise its own limit.
_WANTED_FILES = 1048576
_MOST_PROCESSES = 32768  # podman lowers its own limit to this number


class Podman(ContainerEngine):
    """Runs commands in podman containers."""

    name = "podman"

    def probe(self) -> Probe:
        """Return the state of podman: installed, recent enough and able to start."""
        if shutil.which("podman") is None:
            return Probe(readiness=Readiness.MISSING, detail="podman is not on PATH", remedy=_INSTALL)
        result = self.ask("version", "--format", "json")
        if result.returncode:
            return self._failed_probe(result.stderr)
        version = _version(result.stdout)
        if version is not None and version < _OLDEST:
            return Probe(
                readiness=Readiness.TOO_OLD, version=str(version), detail=f"podman {version} is older than {_OLDEST}",
                remedy=_INSTALL,
            )  # fmt: skip
        return Probe(readiness=Readiness.READY, version=str(version) if version else None)

    def client(self) -> tuple[str, ...]:
        """Return the podman command with the OCI runtime and the cgroup manager that work on this machine."""
        options = ["--events-backend", "file"]
        if not Path("/run/systemd/system").is_dir():
            options += ["--cgroup-manager", "cgroupfs"]
        # crun fails on a machine that mounts both versions of control groups. runc works there.
        if Path("/sys/fs/cgroup/memory").is_dir() and (runc := shutil.which("runc")):
            options += ["--runtime", runc]
        return ("podman", *options)

    def run_options(self, limits: Limits) -> tuple[str, ...]:
        """Return the options of ``run`` that only podman has or needs."""
        options = ("--read-only-tmpfs=false", "--http-proxy=false")
        if os.getuid() == 0:
            return (*options, *resource_options(_MOST_PROCESSES))
        # --pids-limit needs control groups, which ordinary users can seldom create. A ulimit works in a user namespace.
        return (*options, "--userns", "keep-id", *resource_options(process_limit(limits)))

    def remove_options(self) -> tuple[str, ...]:
        """Return the options to kill containers immediately. By default podman waits ten seconds for them to exit."""
        return ("--time", "0")

    def build_options(self) -> tuple[str, ...]:
        """Return the resource limits that podman may set on this machine."""
        return resource_options(_MOST_PROCESSES)

    def label_format(self, label: str) -> str:
        """Return the template that prints a label in the output of ``ps``."""
        return f'{{{{index .Labels "{label}"}}}}'

    def _failed_probe(self, stderr: str) -> Probe:
        detail = last_line(stderr)
        if "connect" in stderr:
            return Probe(readiness=Readiness.NOT_RUNNING, detail=detail, remedy="podman machine start")
        remedy = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {os.environ.get('USER', '$USER')}"
        return Probe(readiness=Readiness.NOT_PERMITTED, detail=detail, remedy=remedy)


def resource_options(limit: int) -> tuple[str, ...]:
    """Return ulimit options that request no more open files and processes than this process may have.

    :param limit: upper limit of processes.
    """
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
    is_limited = 0 < files < _WANTED_FILES
    limit = limit if processes <= 0 else min(processes, limit)
    return (
        *(("--ulimit", f"nofile={files}:{files}") if is_limited else ()),
        *(("--ulimit", f"nproc={limit}:{limit}") if is_limited or limit < _MOST_PROCESSES else ()),
    )


def _version(text: str) -> Version | None:
    try:
        return Version(json.loads(text)["Client"]["Version"])
    except (ValueError, KeyError, TypeError, InvalidVersion):
        return None
