"""What docker and podman have in common: one container a command, held on a leash.

Both are driven through their command lines, as cibuildwheel does: the client libraries lose output or cannot build.
The container's first process reads a pipe that only wheelsmith holds open, so it ends, and with it everything in the
container, when wheelsmith ends, however it ends. The command itself is run beside it by ``exec``: the container
outlives it, so what the kernel counted for its memory can still be read.
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
from wheelsmith.engine.protocol import Command, Ending, Exit, Limits, Mount, Probe, TreeLimits
from wheelsmith.engine.seccomp import profile_file
from wheelsmith.model import BuildHost, ImageId

OWNER = "org.wheelsmith.owner"
IMAGE = "org.wheelsmith.image"
RECIPE = "org.wheelsmith.recipe"
BASE = "org.wheelsmith.base"
DEFAULT_IMAGE = "manylinux_2_28"
_LONGEST_VISIT = 7 * 24 * 3600  # seconds that a person may stay in a shell
_START_SECONDS = 120.0
_END_SECONDS = 20.0
_SURVEY = "/opt/wheelsmith-survey.py"
_KILLED = 128 + 9
# A docker client's configuration may set these in every container, with credentials in them.
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
_STARTTIME = 19  # the field's place in /proc/PID/stat after the program's name; proc(5) calls it 22
_LATE = 60  # seconds after its time limit at which a container ends by itself, though its leash was cut
# What a client needs of the environment; the rest, tokens above all, must not reach even the client, which some
# configurations tell to hand its environment on.
_CLIENT_ENVIRONMENT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "SSH_AUTH_SOCK", "REGISTRY_AUTH_FILE")
_CLIENT_PREFIXES = ("XDG_", "DOCKER_", "CONTAINER", "DBUS_SESSION_")


def image_reference(name: str) -> str:
    """Return the reference of an image by the name that matrix.yaml uses: a recipe's, or a reference itself."""
    return name if set(name) & set("/:@") else f"localhost/wheelsmith/{name}:latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningContainer:
    """A running container that ends when its holder does."""

    name: str
    group: TreeLimits
    client: subprocess.Popen[str]


class ContainerEngine(ABC):
    """Runs each command in a container of its own.

    :param cache: where what an image offers is kept, by the image's id.
    """

    name: str
    isolation = "a container: no network, read-only root, no host files but the declared ones, bounded memory and time"
    has_images = True
    isolates = True
    starts_at_once = False

    def __init__(self, cache: Path) -> None:
        self._cache = cache / "images"

    @abstractmethod
    def probe(self) -> Probe:
        """Say whether the engine works, in at most a second."""

    @abstractmethod
    def client(self) -> tuple[str, ...]:
        """Return the client's command, with the options that this machine needs."""

    @abstractmethod
    def run_options(self, limits: Limits) -> tuple[str, ...]:
        """Return the options of ``run`` that only this engine has."""

    @abstractmethod
    def label_format(self, label: str) -> str:
        """Return the template that prints a label in ``ps``."""

    # --- images ---------------------------------------------------------------------------------------------

    def build_host(self, image: str | None) -> BuildHost:
        """Say what an image offers; ``None`` is the default image.

        :raises EngineError: there is no such image, or it cannot build anything.
        """
        found = self._find(image or DEFAULT_IMAGE)
        kept = self._cache / f"{self.name}-{found.digest.removeprefix('sha256:')}-{_survey_digest()}.json"
        try:
            host = BuildHost.from_json({**read_json(kept.read_bytes()), "image": found.to_json()})
        except (OSError, ValueError, TypeError):
            data = self._survey(found)
            atomic_write(kept, json.dumps(data).encode())
            host = BuildHost.from_json({**data, "image": found.to_json()})
        mark_used(kept)
        return host

    def ask(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run the client to its end, with nothing to read."""
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
        """Return the id of an image that the engine has, ``sha256:…``, or None."""
        answer = self.ask("image", "inspect", "--format", "{{.Id}}", reference)
        digest = answer.stdout.strip()
        return None if answer.returncode else digest if ":" in digest else f"sha256:{digest}"

    def _survey(self, image: ImageId) -> dict[str, object]:
        """Ask an image, from inside, what it can build with."""
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
        said = lines[-1] if lines else "it says nothing"
        try:
            data: dict[str, object] = json.loads(said) if exit_.ok else {}
        except ValueError:
            data = {}
        if not data:
            raise EngineError(
                f"image {image.name} cannot build: {said}",
                remedy="an image needs python3 and g++; docker/README.md shows how one is made",
            )
        return data

    # --- commands -------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Remove the containers of wheelsmith processes that are no more."""
        template = f"{{{{.ID}}}} {self.label_format(OWNER)}"
        listed = self.ask("ps", "--all", "--no-trunc", "--filter", f"label={OWNER}", "--format", template)
        dead = [words[0] for line in listed.stdout.splitlines() if len(words := line.split()) > 1 and is_dead(words[1])]
        if dead:
            self._remove(*dead)

    def run(self, command: Command, on_line: Callable[[str], None], cancel: Event) -> Exit:
        """Run a command to its end."""
        with self._leash(command) as leash:
            inside = self._inside(command)
            if isinstance(leash.group, ContainerTree):
                inside = leash.group.wrap(inside)
            exit_ = SupervisedProcess(
                argv=(*self.client(), "exec", "--workdir", command.workdir, leash.name, *inside),
                env=client_environment(),
                cwd="/",
                limits=command.limits,
                folders=tuple(mount.source for mount in command.mounts if mount.writable),
                group=leash.group,
            ).run(on_line, cancel)
        return _judged(exit_, leash.group)

    def enter(self, command: Command) -> int:
        """Run a command on this terminal and return its exit code."""
        command = replace(command, limits=replace(command.limits, seconds=_LONGEST_VISIT))
        with self._leash(command) as leash:
            terminal = ("--tty",) if sys.stdin.isatty() else ()
            options = ("--interactive", *terminal, "--workdir", command.workdir)
            argv = [*self.client(), "exec", *options, leash.name, *self._inside(command)]
            return subprocess.run(argv, check=False, env=client_environment()).returncode

    @contextmanager
    def _leash(self, command: Command) -> Iterator[RunningContainer]:
        """Hold a running container with nothing in it but a process that waits for us to let go."""
        name = command.name
        # Where memory ran out, podman's monitor leaves a file called "oom" in the folder that it was started in.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            client, refusal = self._start(command, name, folder)
            if refusal and "in use" in refusal:
                # Another live run builds the same cell; dead ones were removed when this run began.
                name = f"{name}-{os.getpid()}"
                client, refusal = self._start(command, name, folder)
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

    def _start(self, command: Command, name: str, folder: str) -> tuple[subprocess.Popen[str], str | None]:
        client = subprocess.Popen(
            [*self.client(), *self._run_words(command, name)],
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
        said = []
        # An engine that hangs must not hang a pipeline.
        watchdog = Timer(_START_SECONDS, client.kill)
        watchdog.start()
        try:
            for line in iter(client.stdout.readline, ""):
                if line.strip() == READY:
                    return client, None
                said.append(line.strip())
        finally:
            watchdog.cancel()
        client.communicate()
        return client, next((line for line in said if "rror" in line), said[-1] if said else "it said nothing")

    def _run_words(self, command: Command, name: str) -> tuple[str, ...]:
        if command.image is None:
            raise EngineError(f"engine {self.name} needs an image")
        limits = command.limits
        memory = str(limits.counted_memory) if limits.counted_memory else None
        # The client's own reading of a digest alone differs; an id is read alike by both.
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
            *("--entrypoint", "/bin/sh", image, "-c", first_process(limits)),
        )

    def _inside(self, command: Command) -> tuple[str, ...]:
        """Return the command on top of the image's own environment, with the limits that groups do not cover."""
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
        answer = self.ask("inspect", "--type", "container", "--format", "{{.Id}} {{.State.Pid}}", name)
        identity, _, pid = answer.stdout.strip().partition(" ")
        group = group_of_container(identity, pid, limits)
        namespace = namespace_of(pid)
        # A daemon in a virtual machine names processes of its own, and bounds them there.
        here = namespace not in {None, namespace_of(os.getpid())}
        return ContainerTree(limits=limits, namespace=str(namespace)) if here and not group.folders else group

    def _remove(self, *names: str) -> None:
        self.ask("rm", "--force", *self.remove_options(), *names)

    def remove_options(self) -> tuple[str, ...]:
        """Return the options of ``rm`` that end a container at once."""
        return ()

    def build_options(self) -> tuple[str, ...]:
        """Return the options of ``build`` that this machine needs."""
        return ()


def _wait(client: subprocess.Popen[str]) -> None:
    try:
        client.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        client.kill()
        client.wait()


def _judged(exit_: Exit, group: TreeLimits) -> Exit:
    """Tell a kill apart where nobody could count the memory: 137 is then most likely the memory limit."""
    if exit_.ending is not Ending.EXITED or exit_.code != _KILLED:
        return exit_
    counted = not isinstance(group, ControlGroup) or bool(group.folders) or not group.limits.memory
    return replace(exit_, ending=Ending.KILLED if counted else Ending.OUT_OF_MEMORY)


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


def first_process(limits: Limits) -> str:
    """Return a shell's words that wait for the end of the pipe, though not for ever.

    Without Python in the image, what runs beside it can hold the pipe open.
    """
    seconds = int(limits.seconds) + _LATE
    program = shlex.quote(files("wheelsmith.engine").joinpath("container_init.py").read_text(encoding="utf-8"))
    without = f'echo "{READY}"; exec timeout {seconds} cat >/dev/null'
    return f"command -v python3 >/dev/null && exec python3 -I -S -c {program} {seconds}; {without}"


def client_environment() -> dict[str, str]:
    """Return the environment that the client runs in."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _CLIENT_ENVIRONMENT or name.startswith(_CLIENT_PREFIXES)
    }
