"""bubblewrap: the embedded engine. No daemon, no image, about 15 ms a start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

from wheelsmith.engine.cgroup import limited, make_group, remove_dead_groups
from wheelsmith.engine.keyring import leave_session_keyring
from wheelsmith.engine.machine import this_machine
from wheelsmith.engine.process_tree import ProcessTree
from wheelsmith.engine.processes import Watched, last_words
from wheelsmith.engine.protocol import Command, Exit, Probe, Readiness
from wheelsmith.errors import EngineError
from wheelsmith.workplace import Workplace

_ISOLATION = "no network, no host files but the declared read-only ones, own processes, bounded memory and time"
_INSTALL = "apt-get install bubblewrap"
_OLDEST = (0, 8)
_RUN_SIZE = 16 * 2**20  # bytes


class Bubblewrap:
    """Runs commands in namespaces of their own, with the host's /usr read-only."""

    name = "bwrap"
    has_images = False
    isolates = True
    starts_at_once = True

    def probe(self) -> Probe:
        """Say whether bubblewrap is there and may make namespaces."""
        program = shutil.which("bwrap")
        if program is None:
            return self._probe(Readiness.MISSING, detail="bwrap is not on PATH", remedy=_INSTALL)
        version = _output(program, "--version").removeprefix("bubblewrap ")
        if _release(version) < _OLDEST:
            return self._probe(
                Readiness.TOO_OLD,
                version=version,
                detail="it cannot keep a build from making user namespaces (--disable-userns)",
                remedy="install bubblewrap 0.8 or newer, or use --engine podman",
            )
        trial = subprocess.run(
            [program, *_NAMESPACES, "--ro-bind", "/", "/", "true"],
            capture_output=True,
            text=True,
            check=False,
        )
        if trial.returncode:
            return self._probe(
                Readiness.NOT_PERMITTED,
                version=version,
                detail=last_words(trial.stderr),
                remedy="sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0",
            )
        return self._probe(Readiness.READY, version=version)

    def workplace(self, image: str | None) -> Workplace:
        """Say what this machine itself has: it is what commands see."""
        del image
        return this_machine()

    def tidy(self) -> None:
        """Remove the control groups that dead runs left."""
        remove_dead_groups()

    def run(self, command: Command, on_line: Callable[[str], None], cancel: Event) -> Exit:
        """Run a command to its end."""
        leave_session_keyring()
        group = make_group(command.limits) or ProcessTree(limits=command.limits)
        try:
            return Watched(
                argv=group.wrap(self._argv(command)),
                env={"PATH": os.defpath},
                cwd="/",
                limits=command.limits,
                folders=tuple(mount.source for mount in command.mounts if mount.writable),
                group=group,
            ).run(on_line, cancel)
        finally:
            group.remove()

    def enter(self, command: Command) -> int:
        """Run a command on this terminal and give its exit code."""
        leave_session_keyring()
        return subprocess.run(limited(command.limits, self._argv(command)), check=False, cwd="/").returncode

    def _argv(self, command: Command) -> tuple[str, ...]:
        program = shutil.which("bwrap")
        if program is None:
            raise EngineError("bwrap is not on PATH", remedy=_INSTALL)
        return (
            program,
            *_NAMESPACES,
            *_host_view(_prefixes(command)),
            *_in_memory(command.limits.counted_memory),
            *(part for mount in command.mounts for part in _bind(mount.source, mount.target, mount.writable)),
            # Without this the root would be a writable tmpfs.
            *("--remount-ro", "/", "--chdir", command.workdir),
            *_environment(command),
            *command.argv,
        )

    def _probe(
        self, readiness: Readiness, *, version: str | None = None, detail: str = "", remedy: str | None = None
    ) -> Probe:
        return Probe(
            engine=self.name,
            readiness=readiness,
            version=version,
            detail=detail,
            isolation=_ISOLATION,
            remedy=remedy,
        )


# --new-session keeps the build from typing into the terminal that wheelsmith runs in (TIOCSTI).
# --disable-userns, because a build that makes a user namespace of its own may mount control groups in it; where
# wheelsmith is root, it could then lift its own limits, or freeze the groups of others.
_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--disable-userns"),
    *("--hostname", "wheelsmith", "--die-with-parent", "--new-session"),
    *("--clearenv", "--cap-drop", "ALL"),
)


def _prefixes(command: Command) -> tuple[str, ...]:
    """Give where the Pythons that the command needs are installed, the one to prefer first."""
    wanted = this_machine().pythons.get(command.python or "")
    return tuple(dict.fromkeys([*([str(Path(wanted).parents[1])] if wanted else []), sys.base_prefix]))


def _host_view(prefixes: tuple[str, ...]) -> tuple[str, ...]:
    view = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            view += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            view += ["--ro-bind", str(path), str(path)]
    for declared in ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"):
        view += ["--ro-bind-try", declared, declared]
    for prefix in prefixes:
        if not prefix.startswith("/usr"):
            view += ["--ro-bind", prefix, prefix]
    # Where wheelsmith is root, the build's user owns /proc/sys outside too, and needs no capability to write there:
    # kernel.core_pattern names a program that the host runs as root.
    return (*view, "--proc", "/proc", "--remount-ro", "/proc")


def _in_memory(most: int | None) -> tuple[str, ...]:
    """Return the folders that are kept in memory: no process holds what lies there, so each has a size of its own.

    :param most: bytes; None leaves it to the kernel, which takes half of what there is.
    """
    size = ("--size", str(most)) if most else ()
    folders = (*size, "--tmpfs", "/tmp", "--size", str(_RUN_SIZE), "--tmpfs", "/run")  # noqa: S108  # inside
    return ("--dev", "/dev", *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", *folders)  # noqa: S108  # inside


def _bind(source: Path, target: str, writable: bool) -> tuple[str, str, str]:  # noqa: FBT001  # two bind options
    return ("--bind" if writable else "--ro-bind", str(source), target)


def _environment(command: Command) -> tuple[str, ...]:
    bins = (f"{prefix}/bin" for prefix in _prefixes(command))
    path = ":".join(dict.fromkeys([*command.path, *bins, "/usr/bin", "/bin"]))
    whole = {"PATH": path, "HOME": "/tmp", "TMPDIR": "/tmp", **command.env}  # noqa: S108  # the sandbox's own tmpfs
    return tuple(part for name, value in sorted(whole.items()) for part in ("--setenv", name, value))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
