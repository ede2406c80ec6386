"""What a build can read, reach and call: every way out is tried on each engine, as root and as an ordinary user."""

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import packaging
import pytest
import wants
from confined import Confined, command
from reach import REACHES
from sampled import sampled

import wheelsmith
from wheelsmith.engine import ExitReason, Local, Mount
from wheelsmith.engine.seccomp import system_calls

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("reach")]
IPC_KEY = 0x77680000 + os.getpid() % 0xFFFF
NOBODY = 65534
CALM = ["/", "/etc", "/usr", "/usr/bin"]
MOUNTS = ("/opt/wheelsmith", "/opt/cuda", "/opt/torch")


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A host that has secrets, listeners and a process; every one of them carries a canary."""
    marker = uuid.uuid4().hex
    canary, name = f"hf_{marker}", f"wheelsmith-test-{marker}"
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "ANYTHING"):
        monkeypatch.setenv(variable, canary)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    home, shared = Path.home() / f".{name}", Path("/dev/shm", name)
    places = ("outside/canary", "hf/token", "cache/store/wheels/a.whl")
    canaries = [*(tmp_path / place for place in places), home]
    sockets = [tmp_path / "runtime" / "docker.sock", tmp_path / "runtime" / "podman" / "podman.sock"]
    if os.access("/run", os.W_OK):
        sockets.append(Path("/run", f"{name}.sock"))
    real = ["/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"]
    real += [f"/run/user/{os.getuid()}/podman/podman.sock"]
    real += [os.environ[name].removeprefix("unix://") for name in ("DOCKER_HOST",) if name in os.environ]
    shadow = [Path("/etc/shadow"), Path("/etc/passwd"), Path("/etc/machine-id")]
    libc = ctypes.CDLL(None, use_errno=True)
    memory = libc.shmget(IPC_KEY, 4096, 0o1666)
    with contextlib.ExitStack() as stack:
        stack.callback(libc.shmctl, memory, 0, None)
        for path in (*canaries, shared):
            stack.callback(path.unlink, missing_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(canary)
        for path in sockets:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_unix(str(path)))
            stack.callback(path.unlink)
        stack.enter_context(_unix(f"\0{name}"))
        bystander = stack.enter_context(_bystander(name, canary))
        yield {
            "canary": canary,
            "name": name,
            "names": [name, f".{name}", "canary", "a.whl"],
            "canaries": [str(path) for path in canaries],
            "folders": [str(tmp_path / "outside"), str(Path.home()), str(tmp_path / "cache" / "store" / "wheels")],
            "folder": str(tmp_path),
            "digests": {str(p): _digest(p) for p in shadow if os.access(p, os.R_OK) and p.stat().st_size},
            "listeners": [stack.enter_context(_tcp(address)) for address in _addresses()],
            "abstract": name,
            "sockets": [*map(str, sockets), *real],
            "pid": bystander.pid,
            "mounts": list(MOUNTS),
            "ipc_key": IPC_KEY,
            "calls": system_calls().numbers[platform.machine()],
        }
        assert bystander.poll() is None, "a process of the host was killed"


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _addresses():
    """The loopback address, and one that the network knows this host by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # for documentation (RFC 5737); nothing is sent
        return ["127.0.0.1", probe.getsockname()[0]]
    return ["127.0.0.1"]


@contextlib.contextmanager
def _tcp(address):
    with socket.create_server((address, 0)) as server:
        yield list(server.getsockname())


@contextlib.contextmanager
def _unix(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        yield


@contextlib.contextmanager
def _bystander(name, canary):
    argv = ["sh", "-c", "while :; do sleep 1; done", name]
    process = subprocess.Popen(argv, env={"PATH": os.environ["PATH"], "SECRET": canary}, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def lay_out(world, work):
    """Lay out what an attacker is told, and a toolchain; gives where that is mounted."""
    tool = work.parent / "toolchain" / "bin" / "tool"
    for folder in (tool.parent, work):
        folder.mkdir(parents=True)
    tool.write_text("honest")
    (work / "world.json").write_text(json.dumps({**world, "place": str(work)}))
    return tuple(Mount(source=work.parent / "toolchain", target=target) for target in MOUNTS)


def state_of(world, toolchain):
    """What an attack must not change."""
    tool = (toolchain / "bin" / "tool").stat()
    return {
        **{path: Path(path).read_text() for path in world["canaries"]},
        **{folder: sorted(p.name for p in Path(folder).iterdir()) for folder in CALM + world["folders"][::2]},
        "tool": (tool.st_mode, tool.st_mtime, tool.st_nlink, tool.st_uid, sorted(p.name for p in toolchain.rglob("*"))),
        "hostname": socket.gethostname(),
    }


def escapes(ending, code, lines):
    """Check that an attack ran to its end; gives what escaped."""
    assert ending is ExitReason.EXITED, lines[-5:]
    assert code == 0, lines[-5:]
    assert lines[-1] == "END"
    assert any(line.startswith(("held", "ESCAPED")) for line in lines)
    return [line for line in lines if line.startswith("ESCAPED")]


@pytest.mark.parametrize("reach", REACHES, ids=lambda reach: reach.name)
def test_it_is_out_of_reach(confining, world, tmp_path, reach):
    if confining.engine.name not in reach.engines:
        pytest.skip(f"{confining.engine.name} does not hold it, and the docs say so")
    work = tmp_path / "run" / "work"
    mounts = lay_out(world, work)
    before = state_of(world, work.parent / "toolchain")
    exit_, lines = confining.run(reach.script, work, mounts=mounts)
    assert escapes(exit_.reason, exit_.code, lines) == []
    assert state_of(world, work.parent / "toolchain") == before


@pytest.mark.parametrize("reach", [reach for reach in REACHES if reach.harmless], ids=lambda reach: reach.name)
def test_unconfined_it_escapes(world, tmp_path, reach):
    """The attack is one: without a sandbox it succeeds, so the tests above can fail."""
    work = tmp_path / "run" / "work"
    exit_, lines = Confined(Local(), None).run(reach.script, work, mounts=lay_out(world, work))
    assert escapes(exit_.reason, exit_.code, lines) != []


@pytest.fixture(scope="module")
def packages():
    """A folder that everybody can read, with what the engines import: a clone may lie where only its owner looks."""
    with tempfile.TemporaryDirectory() as folder:
        for package in (wheelsmith, packaging):
            source = Path(package.__file__).parent
            shutil.copytree(source, Path(folder, source.name), ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        yield folder


@pytest.fixture
def ordinary(packages):
    """A Python that an ordinary user can run, with its environment and what makes a process that user's."""
    wants.program("bwrap")
    wants.root("a sandbox as another user")
    # What root installed for itself others cannot see; one of the system's has the same ABI if the minor is the same.
    env = {"PATH": os.defpath, "PYTHONPATH": packages}
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": env}
    minor = f"python3.{sys.version_info[1]}"
    for program in (sys.executable, f"/usr/bin/{minor}"):
        try:
            subprocess.run([program, "-c", ""], check=True, cwd="/", **user)
        except OSError:
            continue
        return program, user
    wants.absent(f"an ordinary user cannot run {minor}")


@pytest.mark.parametrize("reach", sampled(REACHES, *REACHES[::3]), ids=lambda reach: reach.name)
def test_it_is_out_of_an_ordinary_users_reach(ordinary, world, reach):
    """Where the tests run as an ordinary user themselves, the test above has shown it."""

    def attack(work):
        return command(reach.script, work, mounts=lay_out(world, work))

    assert escapes(*run_as(ordinary, "bwrap", attack)) == []


BOMB = """
import os, sys, time
made = 0
try:
    while True:
        made += os.fork() > 0 or os._exit(time.sleep(20) or 0)
except OSError:
    print(made)
    sys.exit(7)
"""


@pytest.mark.parametrize("engine", ["bwrap", "local"])
def test_an_ordinary_users_processes_are_bounded(ordinary, engine):
    """There are no control groups: a look at thousands of them takes seconds, in which the machine is theirs."""

    def bomb(work):
        return command(BOMB, work, seconds=20.0)

    # The kernel's own last line of defence, should ours not hold.
    ending, code, lines = run_as(ordinary, engine, bomb, "prlimit", "--nproc=1000:1000")
    if ending is ExitReason.TOO_MANY_PROCESSES:
        return  # who looks at the whole tree came just then, and counts what starts the sandbox, too
    assert (ending, code) == (ExitReason.EXITED, 7)
    assert int(lines[0]) <= 64


def run_as(ordinary, engine, order_in, *before):
    """Run a command as an ordinary user; gives how it ended, its exit code, and what it printed."""
    python, user = ordinary
    home = Path(tempfile.mkdtemp(prefix="ordinary-"))
    try:
        work = home / "home" / "work"
        order = order_in(work)
        home.chmod(0o755)
        for path in (work, work.parent):
            os.chown(path, NOBODY, NOBODY)
        answer = subprocess.run(
            [*before, "env", f"HOME={home / 'home'}", python, "-c", AS_ORDINARY, engine],
            input=json.dumps(plain(order)),
            cwd="/",
            capture_output=True,
            text=True,
            **user,
        )
        assert answer.returncode == 0, answer.stderr
        *lines, last = answer.stdout.splitlines()
        ending, code = json.loads(last)
        return ExitReason(ending), code, lines
    finally:
        shutil.rmtree(home)


def plain(order):
    return {
        "argv": order.argv,
        "mounts": [[str(mount.source), mount.target, mount.writable] for mount in order.mounts],
        "env": order.env,
        "limits": order.limits.to_json(),
    }


AS_ORDINARY = """
import json, sys, threading
from pathlib import Path
from wheelsmith.engine import Command, Limits, Mount, engines
order = json.load(sys.stdin)
mounts = tuple(Mount(source=Path(source), target=target, writable=yes) for source, target, yes in order["mounts"])
what = dict(argv=tuple(order["argv"]), mounts=mounts, env=order["env"], limits=Limits.from_json(order["limits"]))
command = Command(name="reach", workdir="/work", **what)
exit_ = engines(Path("/nonexistent"))[sys.argv[1]].run(command, lambda line: print(line, flush=True), threading.Event())
print(json.dumps([exit_.reason, exit_.code]))
"""
