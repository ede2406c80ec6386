"""What a build can see and call: every way out that the kernel has is tried, as root and as an ordinary user."""

import ctypes
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import packaging
import pytest
import wants
from attacks import PRELUDE
from reach import CALLS, REACHES
from sampled import sampled
from test_hostile import CANARY

import wheelsmith
from wheelsmith.engine import Command, Ending, Limits, Mount
from wheelsmith.engine.seccomp import system_calls

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("reach")]
IPC_KEY = 0x77680000 + os.getpid() % 0xFFFF
NOBODY = 65534


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A host with names that a build must not find, and what an attacker is told of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    memory = libc.shmget(IPC_KEY, 4096, 0o1666)
    shared = Path("/dev/shm", CANARY)
    shared.write_text("of the host")
    shared.chmod(0o666)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", CANARY])
    with socket.socket(socket.AF_UNIX) as ear:
        ear.bind("\0" + CANARY)
        ear.listen()
        yield {
            "secret": "",
            "calls": system_calls().numbers[platform.machine()],
            "pid": process.pid,
            "canary": CANARY,
            "abstract": CANARY,
            "ipc_key": IPC_KEY,
            "folder": str(tmp_path_factory.getbasetemp()),
        }
    process.kill()
    process.wait()
    shared.unlink()
    libc.shmctl(memory, 0, None)


def command(code, told, work, image=None):
    toolchain = work.parent / "toolchain"
    toolchain.mkdir(exist_ok=True)
    return Command(
        name=f"wheelsmith-reach-{os.getpid()}",
        argv=("python3", "-c", PRELUDE + CALLS + code + "\nprint('END')"),
        mounts=(Mount(source=work, target="/work", writable=True), Mount(source=toolchain, target="/opt/torch")),
        env={"TARGETS": json.dumps({**told, "place": str(work)})},
        workdir="/work",
        limits=Limits(memory=512 * 2**20, seconds=60.0, pids=64),
        image=image,
    )


def holds(exit_ending, code, lines):
    assert exit_ending is Ending.EXITED, lines
    assert code == 0, lines[-5:]
    assert [line for line in lines if line.startswith("ESCAPED")] == []
    assert [line for line in lines if line.startswith("held")] != []
    assert lines[-1] == "END"


def of(engine):
    return [reach for reach in REACHES if engine in reach.engines]


@pytest.mark.parametrize("reach", REACHES, ids=lambda reach: reach.name)
def test_it_is_out_of_reach(confining, told, tmp_path, reach):
    engine, image = confining
    if engine.name not in reach.engines:
        pytest.skip(f"{engine.name} does not hold it, and the docs say so")
    work = tmp_path / "work"
    work.mkdir()
    lines = []
    exit_ = engine.run(command(reach.code, told, work, image), lines.append, threading.Event())
    holds(exit_.ending, exit_.code, lines)


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


@pytest.mark.parametrize("reach", sampled(of("bwrap"), *of("bwrap")[::3]), ids=lambda reach: reach.name)
def test_it_is_out_of_an_ordinary_users_reach(ordinary, told, reach):
    """Where the tests run as an ordinary user themselves, the test above has shown it."""
    holds(*run_as(ordinary, "bwrap", lambda work: command(reach.code, told, work)))


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
        limits = Limits(memory=512 * 2**20, seconds=20.0, pids=64)
        mounts = (Mount(source=work, target="/work", writable=True),)
        return Command(name="bomb", argv=("python3", "-c", BOMB), mounts=mounts, env={}, workdir="/work", limits=limits)

    # The kernel's own last line of defence, should ours not hold.
    ending, code, lines = run_as(ordinary, engine, bomb, "prlimit", "--nproc=1000:1000")
    if ending is Ending.TOO_MANY_PROCESSES:
        return  # who looks at the whole tree came just then, and counts what starts the sandbox, too
    assert (ending, code) == (Ending.EXITED, 7)
    assert int(lines[0]) <= 64


def run_as(ordinary, engine, order_in, *before):
    """Run a command as an ordinary user; gives how it ended, its exit code, and what it printed."""
    python, user = ordinary
    home = Path(tempfile.mkdtemp(prefix="ordinary-"))
    try:
        work = home / "home" / "work"
        work.mkdir(parents=True)
        home.chmod(0o755)
        for path in (work, work.parent):
            os.chown(path, NOBODY, NOBODY)
        answer = subprocess.run(
            [*before, "env", f"HOME={home / 'home'}", python, "-c", AS_ORDINARY, engine],
            input=json.dumps(plain(order_in(work))),
            cwd="/",
            capture_output=True,
            text=True,
            **user,
        )
        assert answer.returncode == 0, answer.stderr
        *lines, last = answer.stdout.splitlines()
        ending, code = json.loads(last)
        return Ending(ending), code, lines
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
print(json.dumps([exit_.ending, exit_.code]))
"""
