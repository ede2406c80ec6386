"""Run commands with bubblewrap. It needs no daemon and no image, and starts in about 15 ms."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event

from wheelsmith.base.errors import EngineError
from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record
from wheelsmith.engine.cgroup import remove_dead_groups, with_resource_limits
from wheelsmith.engine.installed_python import hide_unusable_pythons, this_machine
from wheelsmith.engine.process_tree import limit_tree, process_limit
from wheelsmith.engine.processes import SupervisedProcess, last_line
from wheelsmith.engine.protocol import Command, Exit, Limits, Probe, Readiness
from wheelsmith.engine.seccomp import launch_filter
from wheelsmith.model import BuildHost

_INSTALL = "apt-get install bubblewrap"
_OLDEST = (0, 8)
_RUN_SIZE = 16 * 2**20  # bytes
_PERMISSION = "sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0"
# In a container, the container's seccomp filter refuses namespaces, and the kernel refuses a new /proc where parts of
# the container's /proc are masked. Each key is a file that identifies the engine of the container.
_PERMISSION_IN = {
    Path("/run/.containerenv"): "podman run --security-opt seccomp=unconfined --security-opt 'unmask=/proc/*' …",
    Path("/.dockerenv"): (
        "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        " --security-opt systempaths=unconfined …"
    ),
}
_USR = Path("/usr")
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


class Bubblewrap:
    """Runs commands in new namespaces, with the host's /usr read-only."""

    name = "bwrap"
    isolation = "no network, only declared host files (read-only), no other processes, limited memory and time"
    has_images = False
    isolates = True
    starts_fast = True

    def probe(self) -> Probe:
        """Return the state of bubblewrap: installed, recent enough and permitted to create namespaces."""
        program = shutil.which("bwrap")
        if program is None:
            return Probe(readiness=Readiness.MISSING, detail="bwrap is not on PATH", remedy=_INSTALL)
        version = _output(program, "--version").removeprefix("bubblewrap ")
        if _release(version) < _OLDEST:
            return Probe(
                readiness=Readiness.TOO_OLD,
                version=version,
                detail="it has no --disable-userns, which prevents builds from creating user namespaces",
                remedy="install bubblewrap 0.8 or newer, or use --engine podman",
            )
        trial = _run_trial(program)
        if trial.returncode:
            return Probe(
                readiness=Readiness.NOT_PERMITTED,
                version=version,
                detail=last_line(trial.stderr),
                remedy=_permission_remedy(),
            )
        return Probe(readiness=Readiness.READY, version=version)

    def build_host(self, image: str | None) -> BuildHost:
        """Return the compilers and Pythons of this machine."""
        del image
        return hide_unusable_pythons(this_machine())

    def tidy(self) -> None:
        """Remove the control groups of ended runs."""
        remove_dead_groups()

    def run(self, command: Command, on_line: Callable[[str], None], cancel: Event) -> Exit:
        """Run a command and wait for its end."""
        leave_session_keyring()
        group = limit_tree(command.limits)
        try:
            with _filter_pipe() as filter_fd:
                return SupervisedProcess(
                    argv=group.wrap(self._argv(command, filter_fd)),
                    env={"PATH": os.defpath},
                    cwd="/",
                    limits=command.limits,
                    folders=tuple(mount.source for mount in command.mounts if mount.writable),
                    group=group,
                    inherited=(filter_fd,),
                ).run(on_line, cancel)
        finally:
            group.remove()

    def enter(self, command: Command) -> int:
        """Run a command on this terminal and return its exit code."""
        leave_session_keyring()
        with _filter_pipe() as filter_fd:
            argv = with_resource_limits(command.limits, self._argv(command, filter_fd))
            return subprocess.run(argv, check=False, cwd="/", pass_fds=(filter_fd,)).returncode

    def _argv(self, command: Command, filter_fd: int) -> tuple[str, ...]:
        program = shutil.which("bwrap")
        if program is None:
            raise EngineError("bwrap is not on PATH", remedy=_INSTALL)
        shown = _visible_parts(command)
        return (
            *_NO_CORE_DUMPS,
            *_sandbox_argv(program, shown.mounts, command.limits),
            *(part for mount in command.mounts for part in _bind(mount.source, mount.target, mount.writable)),
            *shown.sealing,
            # The root would otherwise be a writable tmpfs.
            *("--remount-ro", "/", "--chdir", command.workdir, "--seccomp", str(filter_fd)),
            *_last_step(command.workdir, command.limits, (*_environment(command), *command.argv)),
        )


# --new-session: a build could otherwise type into wheelsmith's terminal (TIOCSTI).
# --disable-userns: in a new user namespace a build could mount control groups. If wheelsmith runs as root, the build
# could then remove its own limits or freeze other groups.
# --cap-add: only the last step needs the three capabilities, and it drops them.
_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--disable-userns"),
    *("--hostname", "wheelsmith", "--die-with-parent", "--new-session"),
    *("--clearenv", "--cap-drop", "ALL"),
    *("--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SYS_CHROOT", "--cap-add", "CAP_SETPCAP"),
)


# mountinfo lists bind mounts with their paths on the host. To hide them, this script moves the build to a new mount
# namespace, but its root stays in bubblewrap's. No mount of the new one is reachable, so mountinfo is empty.
_HIDE_MOUNTS = (
    'exec 3</; exec /usr/bin/unshare --mount --propagation unchanged --root=/proc/self/fd/3 --wd="$1"'
    ' /bin/sh -c "$2" "$@"'
)


_DROP_CAPABILITIES = 'shift; exec 3<&- /usr/bin/setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all "$@"'


# With a limit of one byte the kernel starts no core dump program; see setrlimit in engine/system_calls.json.
_NO_CORE_DUMPS = ("/usr/bin/prlimit", "--core=1:1")


def _last_step(workdir: str, limits: Limits, argv: tuple[str, ...]) -> tuple[str, ...]:
    # Set inside of the sandbox's user namespace. Outside, the limit would count all processes of this user.
    limit = process_limit(limits)
    processes = ("/usr/bin/prlimit", f"--nproc={limit}:{limit}")
    return ("/bin/sh", "-c", _HIDE_MOUNTS, "wheelsmith", workdir, _DROP_CAPABILITIES, *processes, *argv)


@contextmanager
def _filter_pipe() -> Iterator[int]:
    """Yield the descriptor of a pipe that contains the system call filter. bubblewrap reads it once."""
    read, write = os.pipe()
    try:
        # This does not block: a pipe holds sixteen pages, and every filter is smaller.
        os.write(write, launch_filter(platform.machine()))
        os.close(write)
        yield read
    finally:
        os.close(read)


def _permission_remedy() -> str:
    """Return the command that permits bubblewrap to create namespaces on this machine or in this container."""
    return next((remedy for mark, remedy in _PERMISSION_IN.items() if mark.exists()), _PERMISSION)


def _run_trial(program: str) -> subprocess.CompletedProcess[str]:
    """Run ``true`` in a sandbox with the mounts of a build.

    It does not mount the host's root, because bubblewrap fails if another process unmounts something below it.
    """
    shown = host_mounts(_pythons())
    with _filter_pipe() as filter_fd:
        return subprocess.run(
            [
                *_sandbox_argv(program, (*shown.mounts, *shown.sealing), Limits()),
                *("--seccomp", str(filter_fd)),
                *_last_step("/", Limits(), ("true",)),
            ],
            capture_output=True,
            text=True,
            check=False,
            pass_fds=(filter_fd,),
        )


def _sandbox_argv(program: str, shown: tuple[str, ...], limits: Limits) -> tuple[str, ...]:
    return (program, *_NAMESPACES, *shown, *_tmpfs_options(limits.effective_memory))


def _visible_parts(command: Command) -> HostMounts:
    """Return the visible parts of this machine for a command."""
    return host_mounts(_pythons(command.python), host_view().development if command.brings_compilers else ())


def _pythons(version: str | None = None) -> tuple[InstalledPython, ...]:
    """Return the Pythons that a command needs, in order of preference."""
    own = InstalledPython(os.path.realpath(sys.base_prefix), f"{sys.version_info[0]}.{sys.version_info[1]}")
    program = this_machine().pythons.get(version or "")
    if program is None or version is None:
        return (own,)
    return tuple(dict.fromkeys([InstalledPython(str(Path(program).parents[1]), version), own]))


def _tmpfs_options(limit: int | None) -> tuple[str, ...]:
    """Return the options for the folders in memory.

    Their content belongs to no process, so each has its own size limit.

    :param limit: size limit in bytes; None is the kernel's default, half of the machine's memory.
    """
    size = ("--size", str(limit)) if limit else ()
    folders = (*size, "--tmpfs", "/tmp", "--size", str(_RUN_SIZE), "--tmpfs", "/run")  # noqa: S108  # inside
    return ("--dev", "/dev", *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", *folders)  # noqa: S108  # inside


def _bind(source: Path, target: str, writable: bool) -> tuple[str, str, str]:  # noqa: FBT001  # two bind options
    return ("--bind" if writable else "--ro-bind", str(source), target)


def _environment(command: Command) -> tuple[str, ...]:
    bins = (f"{python.prefix}/bin" for python in _pythons(command.python))
    path = ":".join(dict.fromkeys([*command.path, *bins, "/usr/bin", "/bin"]))
    variables = {"PATH": path, "HOME": "/tmp", "TMPDIR": "/tmp", **command.env}  # noqa: S108  # the sandbox's own tmpfs
    # bubblewrap must not set the variables: the last step has capabilities, and must not load a library that a variable
    # names.
    return ("/usr/bin/env", *(f"{name}={value}" for name, value in sorted(variables.items())))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


_KEYCTL = {"x86_64": 250, "aarch64": 219}


_JOIN_SESSION_KEYRING = 1


def leave_session_keyring() -> None:
    """Join a new and empty session keyring, for this thread and the processes that it starts.

    Namespaces do not isolate the session keyring. A child would inherit the keys that Kerberos and eCryptfs keep there.
    """
    number = _KEYCTL.get(platform.machine())
    if number is not None:
        # The result does not matter: without a key store in the kernel, there is no keyring to leave.
        ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule(Record):
    """A file or folder that the sandbox shows or hides.

    :param path: a glob pattern.
    :param why: the reason.
    """

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView(Record):
    """The parts of the host that sandboxes without an image show and hide.

    :param shown: mounted read-only.
    :param hidden: covered below the shown folders.
    :param development: also hidden if the build has its own compilers.
    :param python: shown of a Python outside of ``/usr``, relative to its prefix; ``{version}`` is for example ``3.11``.
    :param python_hidden: hidden again below that prefix.
    """

    source: str
    date: str
    shown: tuple[PathRule, ...]
    hidden: tuple[PathRule, ...]
    development: tuple[PathRule, ...]
    python: tuple[PathRule, ...]
    python_hidden: tuple[PathRule, ...]


@cache
def host_view() -> HostView:
    """Return the parts of the host that sandboxes without an image show and hide."""
    return HostView.from_json(read_facts(__package__, "host_view.json"))


@dataclass(frozen=True, slots=True)
class InstalledPython:
    """An installed Python, at ``prefix``/bin/python``version``. ``prefix`` contains no links."""

    prefix: str
    version: str


@dataclass(frozen=True, slots=True)
class HostMounts:
    """bubblewrap's options for the visible parts of this machine.

    :param mounts: options that mount them.
    :param sealing: options that make the hiding folders read-only. They come after all other mounts, because a command
        may have one below such a folder: Debian's Python has packages in /usr/local.
    """

    mounts: tuple[str, ...]
    sealing: tuple[str, ...]


@cache
def host_mounts(pythons: tuple[InstalledPython, ...], more_hidden: tuple[PathRule, ...] = ()) -> HostMounts:
    """Return the options that mount the visible parts of this machine. Cached for the process.

    :param pythons: Pythons to show.
    :param more_hidden: more to hide, except for the headers and libraries of these Pythons.
    """
    view = host_view()
    options = [word for rule in view.shown for word in ("--ro-bind-try", rule.path, rule.path)]
    for name in _MERGED:
        path = Path("/", name)
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    options += ["--proc", "/proc"]
    hidden = _matching_paths((*view.hidden, *more_hidden), Path("/"), [*(rule.path for rule in view.shown), "/proc"])
    options += [word for path in hidden for word in _hide(path)]
    for python in pythons:
        # A Python may be in /usr/local, so its mounts come after the one that hides that folder.
        options += _show_python(python, hidden)
        found = _matching_paths(view.python_hidden, Path(python.prefix), [python.prefix])
        own = [path for path in found if path not in hidden]
        hidden += own
        options += [word for path in own for word in _hide(path)]
    # If wheelsmith runs as root, the build's user owns /proc/sys on the host, too, and can write to it without any
    # capability. For example, kernel.core_pattern names a program that the host runs as root.
    folders = [path for path in hidden if Path(path).is_dir()]
    sealing = (word for path in [*folders, "/proc"] for word in ("--remount-ro", path))
    return HostMounts(mounts=tuple(options), sealing=tuple(sealing))


def _show_python(python: InstalledPython, hidden: list[str]) -> list[str]:
    prefix = Path(python.prefix)
    patterns = [rule.path.format(version=python.version) for rule in host_view().python]
    if (prefix / "conda-meta").is_dir():
        # conda installs the libraries of Python and of all other packages in the same folder.
        patterns.append("lib")
    found = [path for pattern in patterns for path in sorted(prefix.glob(pattern))]
    if prefix.is_relative_to(_USR) and not _is_below(prefix, hidden):
        return _show_again(path for path in found if _is_below(path, hidden))
    options = _show_again(found)
    for name in ("python3", "python"):
        options += ["--symlink", f"python{python.version}", f"{python.prefix}/bin/{name}"]
    return options


def _show_again(paths: Iterable[Path]) -> list[str]:
    return [word for path in paths for word in ("--ro-bind", str(path), str(path))]


def _is_below(path: Path, folders: list[str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _matching_paths(rules: Iterable[PathRule], folder: Path, shown: list[str]) -> list[str]:
    """Return the existing paths in shown folders that match the rules, with links resolved."""
    patterns = (rule.path.removeprefix("/") for rule in rules)
    found = (path.resolve() for pattern in patterns for path in sorted(folder.glob(pattern)))
    seen = (path for path in found if path.exists() and any(path.is_relative_to(each) for each in shown))
    return list(dict.fromkeys(map(str, seen)))


def _hide(path: str) -> tuple[str, ...]:
    if Path(path).is_dir():
        return ("--tmpfs", path)
    # The mount does not allow devices, so it cannot be opened. For Python it is not a file.
    return ("--ro-bind", "/dev/null", path)
