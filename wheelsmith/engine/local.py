"""Run commands without isolation, as a last resort for trusted code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

from wheelsmith.base.errors import EngineError
from wheelsmith.engine.cgroup import remove_dead_groups
from wheelsmith.engine.installed_python import this_machine
from wheelsmith.engine.process_tree import limit_tree, shared_process_limit
from wheelsmith.engine.processes import SupervisedProcess
from wheelsmith.engine.protocol import Command, Exit, Probe, Readiness
from wheelsmith.model import BuildHost

# Only wheelsmith holds the write end of the pipe on stdin. If wheelsmith ends for any reason, `cat` ends, and the
# process group is killed. The command must not inherit the pipe.
# The limit of processes is `-u` in bash and `-p` in dash.
_WATCHDOG = """
ulimit -c 0; ulimit -u "$1" 2>/dev/null || ulimit -p "$1"; shift
exec 3<&0 </dev/null; (cat <&3 >/dev/null; kill -KILL -$$) & exec "$@" 3<&-
"""


class Local:
    """Runs commands as the user, with access to the network and all of the user's files."""

    name = "local"
    isolation = "none: the kernel's code runs as you, with your files and your network"
    has_images = False
    isolates = False
    starts_fast = True

    def probe(self) -> Probe:
        """Return that the engine is ready, because it always works."""
        return Probe(readiness=Readiness.READY)

    def build_host(self, image: str | None) -> BuildHost:
        """Return the compilers and Pythons of this machine."""
        del image
        return this_machine()

    def tidy(self) -> None:
        """Remove the control groups of ended runs."""
        remove_dead_groups()

    def run(self, command: Command, on_line: Callable[[str], None], cancel: Event) -> Exit:
        """Run a command, wait for its end, and kill the remaining processes of its session."""
        _reject_spaces(command)
        group = limit_tree(command.limits)
        read, write = os.pipe()
        try:
            watchdog = ("/bin/sh", "-c", _WATCHDOG, "wheelsmith", str(shared_process_limit(command.limits)))
            return SupervisedProcess(
                argv=group.wrap((*watchdog, *_argv_on_host(command, command.argv))),
                env=_environment(command),
                cwd=_path_on_host(command, command.workdir),
                limits=command.limits,
                folders=tuple(mount.source for mount in command.mounts if mount.writable),
                group=group,
                stdin=read,
            ).run(on_line, cancel)
        finally:
            os.close(read)
            os.close(write)
            group.remove()

    def enter(self, command: Command) -> int:
        """Run a command on this terminal and return its exit code."""
        return subprocess.run(
            _argv_on_host(command, command.argv),
            env=_environment(command),
            cwd=_path_on_host(command, command.workdir),
            check=False,
        ).returncode


def _reject_spaces(command: Command) -> None:
    """Raise EngineError if a path has a space, because nvcc does not quote paths in its shell commands."""
    if len(command.mounts) == 1:
        return  # without mounts for compilers, the command compiles nothing
    for mount in command.mounts:
        if " " in str(mount.source):
            raise EngineError(
                f"engine local cannot build in a folder whose path has a space: {mount.source}",
                remedy="set WHEELSMITH_CACHE to another folder, or use --engine bwrap, which mounts folders",
            )


def _environment(command: Command) -> dict[str, str]:
    work = next(str(mount.source) for mount in command.mounts if mount.writable)
    # Resolved, because gcc resolves links in the paths of system headers.
    paths = {mount.target: str(mount.source.resolve()) for mount in command.mounts}
    python = this_machine().pythons.get(command.python or "")
    bins = [
        *(_path_on_host(command, folder) for folder in command.path),
        *([str(Path(python).parent)] if python else []),
    ]
    return {
        "PATH": ":".join(dict.fromkeys([*bins, f"{sys.base_prefix}/bin", "/usr/bin", "/bin"])),
        "HOME": work,
        "TMPDIR": work,
        **{name: _paths_on_host(command, value) for name, value in command.env.items()},
        "WHEELSMITH_PATHS": json.dumps(paths, sort_keys=True),
    }


def _argv_on_host(command: Command, argv: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_path_on_host(command, word) for word in argv)


def _paths_on_host(command: Command, value: str) -> str:
    """Replace sandbox paths in the value of a variable, which may be a colon-separated list."""
    return ":".join(_path_on_host(command, word) for word in value.split(":"))


def _path_on_host(command: Command, word: str) -> str:
    """Return the host path for a path inside the sandbox. Other words are returned unchanged."""
    for mount in command.mounts:
        if word == mount.target or word.startswith(mount.target + "/"):
            return str(mount.source.resolve()) + word[len(mount.target) :]
    return word
