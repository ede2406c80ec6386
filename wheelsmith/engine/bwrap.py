"""bubblewrap: the embedded engine. No daemon, no image, about 15 ms a start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

from wheelsmith.engine.cgroup import Group, make_group, remove_dead_groups
from wheelsmith.engine.compilers import host_toolset
from wheelsmith.engine.keyring import leave_session_keyring
from wheelsmith.engine.processes import Watched
from wheelsmith.engine.protocol import Command, Exit, Probe, Readiness
from wheelsmith.errors import EngineError
from wheelsmith.model import Toolset

_ISOLATION = "no network, no host files but the declared read-only ones, own processes, bounded memory and time"
_INSTALL = "apt-get install bubblewrap"
_OLDEST = (0, 8)


class Bubblewrap:
    """Runs commands in namespaces of their own, with the host's /usr read-only."""

    name = "bwrap"

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
            words = (trial.stderr.strip().splitlines() or ["it said nothing"])[-1]
            return self._probe(
                Readiness.NOT_PERMITTED,
                version=version,
                detail=words,
                remedy="sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0",
            )
        return self._probe(Readiness.READY, version=version)

    def toolset(self, arch: str) -> Toolset | None:
        """Name the host's own compilers: they are what the sandbox sees."""
        return host_toolset(arch)

    def run(self, command: Command, on_line: Callable[[str], None], cancel: Event) -> Exit:
        """Run a command to its end."""
        remove_dead_groups()
        leave_session_keyring()
        group = make_group(command.limits)
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
        group = Group(folders=(), limits=command.limits)
        return subprocess.run(group.wrap(self._argv(command)), check=False, cwd="/").returncode

    def _argv(self, command: Command) -> tuple[str, ...]:
        program = shutil.which("bwrap")
        if program is None:
            raise EngineError("bwrap is not on PATH", remedy=_INSTALL)
        return (
            program,
            *_NAMESPACES,
            *_host_view(),
            *(part for mount in command.mounts for part in _bind(mount.source, mount.target, mount.writable)),
            # Without this the root would be a writable tmpfs.
            *("--remount-ro", "/", "--chdir", command.workdir),
            *_environment(command.env),
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


def _host_view() -> tuple[str, ...]:
    view = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            view += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            view += ["--ro-bind", str(path), str(path)]
    for declared in ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"):
        view += ["--ro-bind-try", declared, declared]
    if not sys.base_prefix.startswith("/usr"):
        view += ["--ro-bind", sys.base_prefix, sys.base_prefix]
    # Where wheelsmith is root, the build's user owns /proc/sys outside too, and needs no capability to write there:
    # kernel.core_pattern names a program that the host runs as root.
    view += ["--proc", "/proc", "--remount-ro", "/proc"]
    return (*view, "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run")  # noqa: S108  # inside


def _bind(source: Path, target: str, writable: bool) -> tuple[str, str, str]:  # noqa: FBT001  # two bind options
    return ("--bind" if writable else "--ro-bind", str(source), target)


def _environment(env: dict[str, str]) -> tuple[str, ...]:
    path = ":".join(dict.fromkeys([f"{sys.base_prefix}/bin", "/usr/bin", "/bin"]))
    whole = {"PATH": path, "HOME": "/tmp", "TMPDIR": "/tmp", **env}  # noqa: S108  # the sandbox's own tmpfs
    return tuple(part for name, value in sorted(whole.items()) for part in ("--setenv", name, value))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
