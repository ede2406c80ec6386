"""The common base of docker and podman: run each command in a new container.

The engines are called through their command lines, as cibuildwheel does, because the client libraries lose output or
cannot build images. The container's first process reads a pipe that only wheelsmith holds open. If wheelsmith ends for
any reason, the pipe closes, the first process exits, and the kernel kills all other processes of the container. The
command itself is started by ``exec``. The container outlives it, so that its memory counters can still be read.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from threading import Event, Timer

from wheelsmith.base.errors import EngineError
from wheelsmith.base.files import atomic_write, mark_used, sha256_file
from wheelsmith.base.json_dataclass import canonical_digest, read_json
from wheelsmith.engine.cgroup import ControlGroup, group_of_container
from wheelsmith.engine.container_init import READY
from wheelsmith.engine.process_tree import ContainerTree, namespace_of
from wheelsmith.engine.processes import SupervisedProcess
from wheelsmith.engine.protocol import Command, Exit, ExitReason, Limits, Mount, Probe, TreeLimits
from wheelsmith.engine.seccomp import profile_file
from wheelsmith.model import BuildHost, ImageId

OWNER = "org.wheelsmith.owner"
IMAGE = "org.wheelsmith.image"
RECIPE = "org.wheelsmith.recipe"
BASE = "org.wheelsmith.base"
DEFAULT_IMAGE = "manylinux_2_28"
_SHELL_SECONDS = 7 * 24 * 3600  # seconds of an interactive shell
_START_SECONDS = 120.0
_END_SECONDS = 20.0
_SURVEY = "/opt/wheelsmith-survey.py"
_KILLED = 128 + 9
# A docker client can be configured to set these in every container, and they may contain credentials.
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
_STARTTIME = 19  # index in /proc/PID/stat after the program's name; field 22 in proc(5)
_GRACE_SECONDS = 60  # seconds after the time limit at which the first process exits even if the pipe is still open
# The variables that a client needs. It gets no others, above all no tokens, because it can be configured to pass its
# environment on to containers.
_CLIENT_ENVIRONMENT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "SSH_AUTH_SOCK", "REGISTRY_AUTH_FILE")
_CLIENT_PREFIXES = ("XDG_", "DOCKER_", "CONTAINER", "DBUS_SESSION_")


def image_reference(name: str) -> str:
    """Return the image reference for a name in matrix.yaml, which is the name of a recipe or already a reference."""
    return name if set(name) & set("/:@") else f"localhost/wheelsmith/{name}:latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningContainer:
    """A running container.

    :param group: the limits of its processes.
    :param client: the process whose stdin pipe keeps the container running.
    """

    name: str
    group: TreeLimits
    client: subprocess.Popen[str]


class ContainerEngine(ABC):
    """Runs each command in a new container.

    :param cache: the cache folder, where the surveys of images are stored by image ID.
    """

    name: str
    isolation = "a container: no network, read-only root, only declared host files, limited memory and time"
    has_images = True
    isolates = True
    starts_fast = False

    def __init__(self, cache: Path) -> None:
        self._cache = cache / "images"

    @abstractmethod
    def probe(self) -> Probe:
        """Return the state of the engine, within one second."""

    @abstractmethod
    def client(self) -> tuple[str, ...]:
        """Return the command of the client with the options that this machine requires."""

    @abstractmethod
    def run_options(self, limits: Limits) -> tuple[str, ...]:
        """Return the engine-specific options of ``run``."""

    @abstractmethod
    def label_format(self, label: str) -> str:
        """Return the template that prints a label in the output of ``ps``."""

    # --- images ---------------------------------------------------------------------------------------------

    def build_host(self, image: str | None) -> BuildHost:
        """Return the compilers and Pythons of an image.

        :param image: name of a recipe or image reference; None is the default image.
        :raises EngineError: the image does not exist or cannot build anything.
        """
        found = self._find(image or DEFAULT_IMAGE)
        survey_file = self._cache / f"{self.name}-{found.digest.removeprefix('sha256:')}-{_survey_digest()}.json"
        try:
            host = BuildHost.from_json({**read_json(survey_file.read_bytes()), "image": found.to_json()})
        except (OSError, ValueError, TypeError):
            data = self._survey(found)
            atomic_write(survey_file, json.dumps(data).encode())
            host = BuildHost.from_json({**data, "image": found.to_json()})
        mark_used(survey_file)
        return host

    def ask(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run the client with empty stdin and return the completed process.

        :raises EngineError: the client cannot be started.
        """
        try:
            return subprocess.run(
                [*self.client(), *argv],
                capture_output=True,
                text=True,
                check=False,
                env=client_environment(),
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            raise EngineError(f"{self.name} cannot be run: {error.strerror}") from error

    def _find(self, name: str) -> ImageId:
        reference = image_reference(name)
        digest = self.image_id(reference)
        if digest is None:
            recipe = reference != name
            raise EngineError(
                f"{self.name} has no image {name}",
                remedy=f"wheelsmith image build {name} --engine {self.name}" if recipe else f"{self.name} pull {name}",
            )
        return ImageId(name=name, digest=digest)

    def image_id(self, reference: str) -> str | None:
        """Return the ID of a local image, ``sha256:…``, or None if the engine does not have it."""
        result = self.ask("image", "inspect", "--format", "{{.Id}}", reference)
        digest = result.stdout.strip()
        return None if result.returncode else digest if ":" in digest else f"sha256:{digest}"

    def _survey(self, image: ImageId) -> dict[str, object]:
        """Run a program in an image that lists its compilers and Pythons.

        :raises EngineError: the image cannot build anything.
        """
        lines: list[str] = []
        command = Command(
            name=f"wheelsmith-survey-{image.digest.removeprefix('sha256:')[:12]}",
            argv=("python3", _SURVEY),
            mounts=(Mount(source=_survey_file(), target=_SURVEY),),
            env={},
            workdir="/",
            limits=Limits(seconds=120.0, memory=2 * 2**30),
            image=image,
        )
        exit_ = self.run(command, lines.append, Event())
        output = lines[-1] if lines else "no output"
        try:
            data: dict[str, object] = json.loads(output) if exit_.ok else {}
        except ValueError:
            data = {}
        if not data:
            raise EngineError(
                f"image {image.name} cannot be used for builds: {output}",
                remedy="an image needs python3 and g++; `wheelsmith image build debian` builds one",
            )
        return data

    # --- commands -------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Remove the containers of wheelsmith processes that have ended."""
        template = f"{{{{.ID}}}} {self.label_format(OWNER)}"
        listed = self.ask("ps", "--all", "--no-trunc", "--filter", f"label={OWNER}", "--format", template)
        dead = [words[0] for line in listed.stdout.splitlines() if len(words := line.split()) > 1 and is_dead(words[1])]
        if dead:
            self._remove(*dead)

    def run(self, command: Command, on_line: Callable[[str], None], cancel: Event) -> Exit:
        """Run a command and wait for its end."""
        with self._container(command) as container:
            inside = self._argv_inside(command)
            if isinstance(container.group, ContainerTree):
                inside = container.group.wrap(inside)
            exit_ = SupervisedProcess(
                argv=(*self.client(), "exec", "--workdir", command.workdir, container.name, *inside),
                env=client_environment(),
                cwd="/",
                limits=command.limits,
                folders=tuple(mount.source for mount in command.mounts if mount.writable),
                group=container.group,
            ).run(on_line, cancel)
        return _interpret_exit(exit_, container.group)

    def enter(self, command: Command) -> int:
        """Run a command on this terminal and return its exit code."""
        command = replace(command, limits=replace(command.limits, seconds=_SHELL_SECONDS))
        with self._container(command) as container:
            terminal = ("--tty",) if sys.stdin.isatty() else ()
            options = ("--interactive", *terminal, "--workdir", command.workdir)
            argv = [*self.client(), "exec", *options, container.name, *self._argv_inside(command)]
            return subprocess.run(argv, check=False, env=client_environment()).returncode

    @contextmanager
    def _container(self, command: Command) -> Iterator[RunningContainer]:
        """Keep a container running that contains only its first process, and remove it at the end."""
        name = command.name
        # When memory runs out, podman's monitor writes a file called "oom" to its current folder.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            client, refusal = self._start_container(command, name, folder)
            if refusal and "in use" in refusal:
                # Another run is building the same cell. Containers of ended runs were removed by ``tidy``.
                name = f"{name}-{os.getpid()}"
                client, refusal = self._start_container(command, name, folder)
            if refusal:
                raise EngineError(f"{self.name} cannot start a container: {refusal}")
            try:
                yield RunningContainer(name=name, group=self._group(name, command.limits), client=client)
            finally:
                if client.stdin:
                    client.stdin.close()
                self._remove(name)
                _wait(client)
                if client.stdout:
                    client.stdout.close()

    def _start_container(self, command: Command, name: str, folder: str) -> tuple[subprocess.Popen[str], str | None]:
        client = subprocess.Popen(
            [*self.client(), *self._run_argv(command, name)],
            cwd=folder,
            env=client_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert client.stdout is not None  # noqa: S101  # stdout=PIPE above
        output = []
        # An engine that hangs must not block a pipeline.
        watchdog = Timer(_START_SECONDS, client.kill)
        watchdog.start()
        try:
            for line in iter(client.stdout.readline, ""):
                if line.strip() == READY:
                    return client, None
                output.append(line.strip())
        finally:
            watchdog.cancel()
        client.communicate()
        return client, next((line for line in output if "rror" in line), output[-1] if output else "no output")

    def _run_argv(self, command: Command, name: str) -> tuple[str, ...]:
        if command.image is None:
            raise EngineError(f"engine {self.name} needs an image")
        limits = command.limits
        memory = str(limits.effective_memory) if limits.effective_memory else None
        # Docker and podman interpret a bare digest differently, but an ID the same.
        image = command.image.digest.removeprefix("sha256:")
        return (
            *("run", "--interactive", "--rm", "--pull", "never", "--name", name),
            *("--label", f"{OWNER}={this_process()}", "--label", f"org.wheelsmith.command={command.name}"),
            *("--network", "none", "--hostname", "wheelsmith", "--user", f"{os.getuid()}:{os.getgid()}"),
            *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--security-opt", "label=disable", "--security-opt", f"seccomp={profile_file(self._cache)}"),
            *("--log-driver", "none", "--ulimit", "core=1:1"),  # one byte: see setrlimit in engine/system_calls.json
            *("--tmpfs", f"/tmp:rw,exec,nosuid,nodev,mode=1777,size={limits.memory or 4 * 2**30}"),  # noqa: S108  # inside
            *("--pids-limit", str(limits.pids)),
            *(("--memory", memory, "--memory-swap", memory) if memory else ()),
            *(("--cpus", str(limits.cpus)) if limits.cpus else ()),
            *(word for proxy in _PROXIES for n in (proxy, proxy.upper()) for word in ("--env", f"{n}=")),
            *(word for mount in command.mounts for word in ("--mount", _mount(mount))),
            *self.run_options(limits),
            *("--entrypoint", "/bin/sh", image, "-c", first_process_command(limits)),
        )

    def _argv_inside(self, command: Command) -> tuple[str, ...]:
        """Return the command with its environment variables and PATH, and with the limits that cgroups do not have."""
        environment = {"HOME": "/tmp", "TMPDIR": "/tmp", **command.env}  # noqa: S108  # the container's own tmpfs
        limits = f'ulimit -f {max(1, command.limits.disk // 512)}; PATH="$1$PATH"; shift; exec "$@"'
        words = (f"{name}={value}" for name, value in sorted(environment.items()))
        path = "".join(f"{folder}:" for folder in [*command.path, *self._python_folder(command)])
        return ("/bin/sh", "-c", limits, "wheelsmith", path, "/usr/bin/env", *words, *command.argv)

    def _python_folder(self, command: Command) -> tuple[str, ...]:
        if command.python is None or command.image is None:
            return ()
        program = self.build_host(command.image.name).pythons.get(command.python)
        return (str(Path(program).parent),) if program else ()

    def _group(self, name: str, limits: Limits) -> TreeLimits:
        result = self.ask("inspect", "--type", "container", "--format", "{{.Id}} {{.State.Pid}}", name)
        container_id, _, pid = result.stdout.strip().partition(" ")
        group = group_of_container(container_id, pid, limits)
        namespace = namespace_of(pid)
        # A daemon in a virtual machine returns PIDs of that machine and enforces the limits there.
        is_local = namespace not in {None, namespace_of(os.getpid())}
        return ContainerTree(limits=limits, namespace=str(namespace)) if is_local and not group.folders else group

    def _remove(self, *names: str) -> None:
        self.ask("rm", "--force", *self.remove_options(), *names)

    def remove_options(self) -> tuple[str, ...]:
        """Return the options of ``rm`` that kill a container immediately."""
        return ()

    def build_options(self) -> tuple[str, ...]:
        """Return the options of ``build`` that this machine requires."""
        return ()


def _wait(client: subprocess.Popen[str]) -> None:
    try:
        client.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        client.kill()
        client.wait()


def _interpret_exit(exit_: Exit, group: TreeLimits) -> Exit:
    """Interpret exit code 137. If the memory was not measured, the most likely cause is the memory limit."""
    if exit_.reason is not ExitReason.EXITED or exit_.code != _KILLED:
        return exit_
    counted = not isinstance(group, ControlGroup) or bool(group.folders) or not group.limits.memory
    return replace(exit_, reason=ExitReason.KILLED if counted else ExitReason.OUT_OF_MEMORY)


def _mount(mount: Mount) -> str:
    text = io.StringIO()
    words = ["type=bind", f"source={mount.source.resolve()}", f"target={mount.target}"]
    csv.writer(text, lineterminator="").writerow(words if mount.writable else [*words, "readonly"])
    return text.getvalue()


def _survey_file() -> Path:
    return Path(str(files("wheelsmith.engine"))) / "backend" / "survey.py"


def _survey_digest() -> str:
    return canonical_digest(sha256_file(_survey_file()))[:12]


def this_process() -> str:
    """Return an identifier of this process: machine, boot, PID namespace, PID and start time."""
    return ":".join([*_machine_identity(), str(os.getpid()), str(_start_time(os.getpid()))])


def is_dead(owner: str) -> bool:
    """Return True if the process with this identifier has certainly ended.

    A daemon may be shared with other machines or with other containers of this machine. Their processes are not visible
    from here, so the result for them is False.

    :param owner: identifier from ``this_process``.
    """
    words = owner.split(":")
    here = _machine_identity()
    if len(words) != len(here) + 2:
        return False
    machine, boot, namespace, pid, start = words
    if boot != here[1]:
        return bool(machine) and machine == here[0]
    return namespace == here[2] and pid.isdigit() and _start_time(int(pid)) != start


def _machine_identity() -> tuple[str, str, str]:
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        machine = ""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return machine, boot, str(Path("/proc/self/ns/pid").stat().st_ino)


def _start_time(pid: int) -> str | None:
    try:
        stat = Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program's name is in parentheses and may contain any character, including parentheses.
    return stat.rpartition(")")[2].split()[_STARTTIME]


def first_process_command(limits: Limits) -> str:
    """Return the shell command of the first process, which waits until the pipe closes or the time limit has passed.

    In an image without Python, other processes of the container can keep the pipe open.
    """
    seconds = int(limits.seconds) + _GRACE_SECONDS
    program = shlex.quote(files("wheelsmith.engine").joinpath("container_init.py").read_text(encoding="utf-8"))
    without = f'echo "{READY}"; exec timeout {seconds} cat >/dev/null'
    return f"command -v python3 >/dev/null && exec python3 -I -S -c {program} {seconds}; {without}"


def client_environment() -> dict[str, str]:
    """Return the environment variables of the client."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _CLIENT_ENVIRONMENT or name.startswith(_CLIENT_PREFIXES)
    }
