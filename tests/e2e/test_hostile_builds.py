"""Hostile builds in depth, in bubblewrap and through the whole pipeline: each ends with a clear answer."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import io
import json
import os
import platform
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

import containers
import hostile
import processes
import pytest
import wants
from command_line import run_command
from factory import ROOT, Factory
from filelock import FileLock
from kernels import BUILD_TOML, matrix, pure_kernel, tiny_kernel
from one_build import build_one
from wheels import make_wheel

from wheelsmith.base.beneath import remove_tree
from wheelsmith.engine import Command, Ending, Exit, Limits, Mount, engines
from wheelsmith.model import BuildPlan, BuildResult, Status
from wheelsmith.model.events import CellFinished, CellLine, CellProgress, CellStage
from wheelsmith.pipeline import BuildContext, ToolchainPrefetcher
from wheelsmith.pipeline.repair_job import RepairJob
from wheelsmith.run.build import build, request_of, scratch
from wheelsmith.run.executors.local import make_context
from wheelsmith.run.prepare import Request, prepare
from wheelsmith.toolchain import Toolchains

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("hostile builds")]
MIB = 2**20
UNCONFINED = "local"
ENGINES = engines(Path(os.devnull))
MOUNTS = ("/opt/wheelsmith", "/opt/cuda", "/opt/torch")


@pytest.fixture(scope="module")
def engine():
    """bubblewrap, which is all our own; what holds for every engine is in test_hostile."""
    containers.wanted("bwrap")
    return ENGINES["bwrap"]


@pytest.fixture(scope="module")
def local():
    return ENGINES[UNCONFINED]


# --- the host, with something to steal ----------------------------------------------------------------------


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "run" / "work"
    folder.mkdir(parents=True)
    yield folder
    remove_tree(folder)  # pytest itself cannot remove every tree that a build can make


@pytest.fixture
def world(tmp_path, monkeypatch, request):
    """A host that has secrets, listeners and a process; every one of them carries a canary."""
    marker = uuid.uuid4().hex
    canary, name = f"hf_{marker}", f"wheelsmith-test-{marker}"
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "ANYTHING"):
        monkeypatch.setenv(variable, canary)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/runtime/docker.sock")
    with contextlib.ExitStack() as stack:
        home = Path.home() / f".{name}"
        store = _file(tmp_path / "cache" / "store" / "wheels" / "a.whl", canary)
        canaries = [_file(tmp_path / "outside" / "canary", canary), store, home]
        stack.callback(home.unlink, missing_ok=True)
        _file(home, canary)
        tokens = [_file(tmp_path / "hf" / "token", canary)]
        default = Path.home() / ".cache" / "huggingface" / "token"
        # It is everybody's: another run of the tests waits for its turn.
        stack.enter_context(FileLock(Path(tempfile.gettempdir(), f"wheelsmith-tests-{os.getuid()}.lock")))
        if not default.exists() and os.access(Path.home(), os.W_OK):
            if not default.parent.exists():
                stack.callback(default.parent.rmdir)
            tokens.append(_file(default, canary))
            stack.callback(default.unlink)
        sockets = [tmp_path / "runtime" / "docker.sock", tmp_path / "runtime" / "podman" / "podman.sock"]
        if os.access("/run", os.W_OK):
            sockets.append(Path("/run", f"{name}.sock"))
        for path in sockets:
            stack.enter_context(_unix(path))
        bystander = stack.enter_context(_bystander(name, canary))
        shadow = [Path("/etc/shadow"), Path("/etc/passwd"), Path("/etc/machine-id")]
        yield {
            "canary": canary,
            "name": name,
            "names": [name, f".{name}", "canary", "a.whl"],
            "argv": name,
            "key": name,
            "tokens": [str(path) for path in tokens],
            "canaries": [str(path) for path in canaries],
            "folders": [str(tmp_path / "outside"), str(Path.home()), str(store.parent)],
            "digests": {str(p): _digest(p) for p in shadow if os.access(p, os.R_OK) and p.stat().st_size},
            "listeners": [stack.enter_context(_tcp(address)) for address in _addresses()],
            "abstract": stack.enter_context(_unix(f"\0{name}")).removeprefix("\0"),
            "sockets": [
                *map(str, sockets),
                *("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock"),
                "/run/containerd/containerd.sock",
                f"/run/user/{os.getuid()}/podman/podman.sock",
            ],
            "bystander": bystander.pid,
            "mounts": list(MOUNTS),
            "store": [str(tmp_path / "cache"), str(store.parent.parent)],
        }
        assert bystander.poll() is None, "a process of the host was killed"


def _file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _addresses() -> list[str]:
    """The loopback address, and one that the network knows this host by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # for documentation (RFC 5737); nothing is sent
        return ["127.0.0.1", probe.getsockname()[0]]
    return ["127.0.0.1"]


@contextlib.contextmanager
def _tcp(address: str):
    with socket.create_server((address, 0)) as server:
        yield list(server.getsockname())


@contextlib.contextmanager
def _unix(path):
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield str(path)
    if isinstance(path, Path):
        path.unlink()


@contextlib.contextmanager
def _bystander(name: str, canary: str):
    argv = ["sh", "-c", "while :; do sleep 1; done", name]
    process = subprocess.Popen(argv, env={"PATH": os.environ["PATH"], "SECRET": canary}, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, 9)
        process.wait()


# --- running an attack --------------------------------------------------------------------------------------


def run(engine, work, code, *argv, mounts=(), cancel=None, **limits) -> tuple[Exit, list[str]]:
    (work / "attack.py").write_text(code)
    lines: list[str] = []
    command = Command(
        name=f"wheelsmith-test-{uuid.uuid4().hex[:12]}",
        argv=("python3", "/work/attack.py", *argv),
        mounts=(Mount(source=work, target="/work", writable=True), *mounts),
        env={"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        workdir="/work",
        limits=Limits(**{"memory": 512 * MIB, "seconds": 30.0, "pids": 64, **limits}),
    )
    return engine.run(command, lines.append, cancel or threading.Event()), lines


def attack(engine, work, world, wanted) -> list[str]:
    """Run an attack to its end and give what came off."""
    toolchain = work.parent / "toolchain"
    (toolchain / "bin").mkdir(parents=True)
    (toolchain / "bin" / "tool").write_text("honest")
    (work / "world.json").write_text(json.dumps(world))
    before = _host(world, toolchain)
    exit_, lines = run(
        engine, work, wanted.script, mounts=tuple(Mount(source=toolchain, target=target) for target in MOUNTS)
    )
    assert exit_.ok, (exit_, lines[-5:])
    assert lines[-1] == "END"
    assert any(line.startswith(("held ", "BREACH ")) for line in lines) or wanted.name == "kernel settings"
    if engine.name != UNCONFINED:
        assert _host(world, toolchain) == before
    return [line for line in lines if line.startswith("BREACH")]


def _host(world, toolchain) -> dict[str, object]:
    """What a build must not change."""
    files = {path: Path(path).read_text() for path in (*world["canaries"], *world["tokens"])}
    lists = {
        folder: sorted(path.name for path in Path(folder).iterdir())
        for folder in ("/", "/etc", "/usr", "/usr/bin", *world["folders"][::2])
    }
    tool = (toolchain / "bin" / "tool").stat()
    return {
        **files,
        **lists,
        "tool": (tool.st_mode, tool.st_mtime, tool.st_nlink, tool.st_uid, sorted(p.name for p in toolchain.rglob("*"))),
        "hostname": socket.gethostname(),
    }


@pytest.mark.parametrize("wanted", hostile.ISOLATION, ids=lambda a: a.name)
def test_nothing_gets_out(wanted, engine, work, world, request):
    if wanted is hostile.KEYS:
        request.getfixturevalue("session_key")
    assert attack(engine, work, world, wanted) == []


@pytest.mark.parametrize("wanted", [a for a in hostile.ISOLATION if a.harmless], ids=lambda a: a.name)
def test_unconfined_it_comes_off(wanted, local, work, world, request):
    """The attack is one: without a sandbox it succeeds, so the tests above can fail."""
    if wanted is hostile.KEYS:
        request.getfixturevalue("session_key")
    assert attack(local, work, world, wanted) != []


@pytest.fixture
def session_key(world):
    """A key in the session's keyring, where Kerberos and eCryptfs keep theirs."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
    data = world["canary"].encode()
    key = libc.syscall(add, b"user", world["key"].encode(), data, len(data), -3)
    if key < 0:
        pytest.skip(f"this kernel keeps no keys: {os.strerror(ctypes.get_errno())}")
    yield key
    libc.syscall(control, 9, key, -3)  # unlink


# --- exhaustion ---------------------------------------------------------------------------------------------


@pytest.fixture
def marker():
    """An argument of the attack; whatever carries it must be gone afterwards."""
    word = f"attack-{uuid.uuid4().hex}"
    yield word
    assert processes.left(lambda: processes.with_words(word)) == []


@contextlib.contextmanager
def most_processes(marker):
    """Count the attack's processes while it runs; gives a list whose last item is the most there were."""
    counts, stop = [0], threading.Event()

    def count():
        while not stop.wait(0.1):
            counts.append(max(counts[-1], len(processes.with_words(marker))))

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield counts
    finally:
        stop.set()
        thread.join()


FORK_BOMBS = {
    "processes": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n",
    "threads": """
import threading, time
while True:
    try: threading.Thread(target=time.sleep, args=(60,)).start()
    except RuntimeError: time.sleep(0.01)
""",
    "sessions": """
import os, signal
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True:
    try:
        if os.fork() == 0: os.setsid()
    except OSError: pass
""",
}


@pytest.mark.parametrize("code", FORK_BOMBS.values(), ids=FORK_BOMBS)
def test_fork_bomb(code, engine, work, world, marker):
    with most_processes(marker) as counts:
        exit_, _ = run(engine, work, code, marker, pids=40, seconds=2.0, memory=256 * MIB)
    assert exit_.ending in {Ending.TIMEOUT, Ending.OUT_OF_MEMORY, Ending.TOO_MANY_PROCESSES}
    assert 0 < counts[-1] <= 40 + 8  # what the engine itself runs


MEMORY_BOMBS = {
    "one process": "held = []\nwhile True: held.append(bytearray(b'x') * 2**22)",
    "many processes": """
import os, time
for n in range(16):
    if os.fork() == 0:
        held = bytearray(b"x") * (24 * 2**20); time.sleep(3); os._exit(0)
time.sleep(3)
""",
    "/tmp": "f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * 2**20); f.flush()",
    "/dev/shm": "f = open('/dev/shm/x', 'wb')\nwhile True: f.write(b'x' * 2**20); f.flush()",
    "/run": "f = open('/run/x', 'wb')\nwhile True: f.write(b'x' * 2**20); f.flush()",
    "memfd": "import os\nf = os.memfd_create('x')\nwhile True: os.write(f, b'x' * 2**20)",
    "pipes": """
import fcntl, os
while True:
    r, w = os.pipe()
    os.write(w, b"x" * fcntl.fcntl(w, 1031, 2**20))
""",
}


@pytest.mark.parametrize("code", MEMORY_BOMBS.values(), ids=MEMORY_BOMBS)
def test_memory_bomb(code, engine, work, world, marker):
    exit_, lines = run(engine, work, code, marker, memory=128 * MIB, seconds=15.0)
    refused = exit_.ending is Ending.EXITED and exit_.code and "Error" in lines[-1]
    assert exit_.ending is Ending.OUT_OF_MEMORY or refused, (exit_, lines[-3:])
    assert exit_.peak_memory is None or exit_.peak_memory <= (129 if wants.COUNTED else 1024) * MIB


DISK_BOMBS = {
    "one file": "import time\nf = open('x', 'wb')\nwhile True: f.write(b'x' * 2**20); f.flush(); time.sleep(0.02)",
    "many files": """
import itertools, time
for n in itertools.count(): open(f"x{n}", "wb").write(b"x" * 2**18); time.sleep(0.005)
""",
    "empty files": """
import itertools, os, time
for n in itertools.count():
    os.makedirs(f"d{n}"); time.sleep(0.1)
    for m in range(1000): open(f"d{n}/{m}", "w").close()
""",
    "deep folders": """
import itertools, os, time
for n in range(5000): os.mkdir("d"); os.chdir("d")
for n in itertools.count(): open(f"x{n}", "wb").write(b"x" * 2**18); time.sleep(0.005)
""",
    "hidden folders": """
import itertools, os, time
os.mkdir("d")
for n in itertools.count(): open(f"d/x{n}", "wb").write(b"x" * 2**18); os.chmod("d", 0o300); time.sleep(0.005)
""",
    "with its output closed": """
import itertools, os, time
os.close(1); os.close(2)
for n in itertools.count(): open(f"x{n}", "wb").write(b"x" * 2**18); time.sleep(0.005)
""",
}


@pytest.mark.parametrize("code", DISK_BOMBS.values(), ids=DISK_BOMBS)
def test_disk_bomb(code, engine, work, marker):
    exit_, lines = run(engine, work, code, marker, disk=16 * MIB, seconds=120.0)
    refused = exit_.ending is Ending.EXITED and exit_.code and "File too large" in lines[-1]
    assert exit_.ending is Ending.DISK_FULL or refused, (exit_, lines[-3:])


def test_endless_output(engine, work, marker):
    exit_, lines = run(engine, work, "while True: print('x' * 70)", marker, output=MIB)
    assert exit_.ending is Ending.TOO_MUCH_OUTPUT
    assert sum(map(len, lines)) <= MIB


def test_one_endless_line(engine, work, marker):
    code = "import sys\nwhile True: sys.stdout.write('x' * 4000)"
    exit_, lines = run(engine, work, code, marker, output=8 * MIB, memory=64 * MIB)
    assert exit_.ending is Ending.TOO_MUCH_OUTPUT
    assert max(map(len, lines)) <= 4096


ENDLESS = {
    "spins": "while True: pass",
    "ignores every signal": """
import signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(1)
""",
    "closes its output": "import os, time\nos.close(0); os.close(1); os.close(2)\nwhile True: time.sleep(1)",
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "a daemon holds the output": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    time.sleep(600)
while True: time.sleep(1)
""",
}


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_endless_run(code, engine, work, marker):
    exit_, _ = run(engine, work, code, marker, seconds=1.0)
    assert exit_.ending is Ending.TIMEOUT


@pytest.mark.parametrize("code", [ENDLESS["ignores every signal"], ENDLESS["closes its output"]], ids=["deaf", "mute"])
def test_cancelling(code, engine, work, marker):
    cancel = threading.Event()
    threading.Timer(1.0, cancel.set).start()
    exit_, _ = run(engine, work, code, marker, seconds=20.0, cancel=cancel)
    assert exit_.ending is Ending.CANCELLED


DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for n in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            {output}
            time.sleep(600)
        os._exit(0)
print("bye", flush=True)
"""


@pytest.mark.parametrize("output", ["pass", "os.closerange(0, 3)"], ids=["holds the output", "closes the output"])
def test_daemons_die_with_the_build(output, engine, work, marker):
    exit_, lines = run(engine, work, DAEMON.format(output=output), marker, seconds=20.0)
    assert lines == ["bye"]
    assert exit_.ending is Ending.EXITED


# --- what a build says --------------------------------------------------------------------------------------

DECEITS = [
    b"\x1b[2J\x1b[1;1Hgone",
    b"\x1b]52;c;cm0gLXJmIH4=\x07",
    b"\x1b]0;title\x1b\\",
    b"\x9b31m",  # CSI in one byte
    "\x9b31mred \x9d52;c;eA==\x9c".encode(),  # C1 controls, in UTF-8
    "\u202eevil\u202c \u2066x\u2069 \u200f \u061c".encode(),  # text that runs backwards
    "\u200b\ufeff\u2060\U000e0041".encode(),  # that is not seen
    "\u2028line\u2029paragraph\x85next\x0bvertical\x0cform".encode(),
    b"nul\0nul \x7f \x08\x08\x08",
    b"\xff\xfe\xed\xa0\x80 not UTF-8",
    b"x" * 100_000,
    b"a\rb",
    b"[wheelsmith 5/0] x",
    b"[wheelsmith 7/3] x",
    b"[wheelsmith " + b"9" * 4200 + b"/1] x",
    "[wheelsmith ٣/٤] x".encode(),
    b"[/] [bold red]markup[/bold red] [link=x]",
    b"::error title=x::forged",
]


def test_escape_sequences_in_the_output(engine, work):
    code = "import sys\nfor d in " + repr(DECEITS) + ": sys.stdout.buffer.write(d + b'\\n')"
    exit_, lines = run(engine, work, code)
    assert exit_.ok
    assert len(lines) >= len(DECEITS)
    for line in lines:
        assert line.replace("\t", " ").isprintable()
        assert len(line) <= 4 * 4096


# --- the wheel that a build leaves --------------------------------------------------------------------------


class HijackedTools(Toolchains):
    """Toolchains whose ``python3 -m build`` is the attacker's."""

    def __init__(self, cache: Path, build: Path) -> None:
        super().__init__(cache, lambda event: None)
        self._build = build

    def tools(self) -> Path:
        return self._build


@pytest.fixture
def outside(tmp_path):
    """A folder of the host with a wheel that is none of the kernel's business."""
    folder = tmp_path / "outside"
    make_wheel(folder, "pure", "1").rename(folder / "host.whl")
    return folder


@dataclass
class Bench:
    """One kernel's pure wheel, built in a sandbox by a build that the attacker wrote."""

    plan: BuildPlan
    workshop: BuildContext
    hijack: Path
    events: list

    def build(self, code: str) -> BuildResult:
        _file(self.hijack / "site" / "build" / "__main__.py", code)
        return build_one(self.plan, self.workshop)

    @property
    def log(self) -> str:
        return (self.workshop.logs / self.workshop_log).read_bytes().decode("utf-8")

    @property
    def workshop_log(self) -> str:
        return f"{self.plan.cell.id}.log"


@pytest.fixture
def bench(engine, tmp_path):
    pure_kernel(tmp_path / "k")
    request = Request(matrix=matrix(tmp_path, "k"), cache=tmp_path / "cache", engine=engine.name)
    prepared = prepare(request, lambda event: None)
    hijack = tmp_path / "tools"
    site = hijack / "site" / "wheelsmith"
    shutil.copytree(ROOT / "wheelsmith" / "engine" / "backend", site / "engine" / "backend")
    for package in (site, site / "engine"):
        (package / "__init__.py").touch()
    events: list = []
    with scratch(tmp_path / "cache" / "work") as folder:
        assert folder.stat().st_mode & 0o077 == 0  # a setuid file in there is out of everybody's reach
        workshop = make_context(request_of(prepared, folder), events.append)
        tools = HijackedTools(tmp_path / "cache", hijack)
        limits = Limits(memory=512 * MIB, seconds=30.0, pids=64)
        workshop = dataclasses.replace(workshop, toolchains=ToolchainPrefetcher(tools), limits=limits)
        yield Bench(plan=prepared.plans[0], workshop=workshop, hijack=hijack, events=events)


def tree(folder: Path) -> dict[str, object]:
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in sorted(folder.rglob("*"))}


def stored(tmp_path) -> list[Path]:
    return list((tmp_path / "cache" / "store").rglob("*.whl"))


def test_an_honest_build_is_kept(bench, outside, tmp_path):
    result = bench.build(hostile.BUILD.replace("OUTSIDE_PATH", repr(str(outside))) + "pack()")
    assert result.failure is None
    assert [path.name for path in stored(tmp_path)] == ["pure-1-py3-none-any.whl"]


@pytest.mark.parametrize("spoiled", hostile.SPOILED, ids=lambda s: s.name)
def test_a_spoiled_wheel_is_refused(spoiled, bench, outside, tmp_path):
    before, beside = tree(outside), sorted(p.name for p in tmp_path.iterdir())
    result = bench.build(hostile.BUILD.replace("OUTSIDE_PATH", repr(str(outside))) + spoiled.code)
    assert result.status is Status.FAILED
    failure = result.failure
    assert failure
    assert failure.stage == spoiled.stage, failure
    assert failure.message
    assert spoiled.says in failure.message
    assert all(text.isprintable() for text in (failure.message, *failure.tail))
    json.dumps(result.to_json()).encode()
    assert tree(outside) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted({*beside, "dist"})
    assert stored(tmp_path) == []
    assert not list(tmp_path.rglob("*escape*"))


def test_links_in_the_work_folder_lead_wheelsmith_nowhere(bench, outside, tmp_path):
    """The build succeeds; whatever wheelsmith writes afterwards must not land where the build points."""
    before = tree(outside)
    code = """
for name in ("repair", "packed", "unpacked", "tagged", "site", "test", "lock", "logs", "store"):
    os.symlink(OUTSIDE, work / name)
for name in ("src", "build"):
    shutil.rmtree(work / name); os.symlink(OUTSIDE, work / name)
(work / "plan.json").unlink(); os.symlink(OUTSIDE + "/canary", work / "plan.json")
"""
    result = bench.build(hostile.BUILD.replace("OUTSIDE_PATH", repr(str(outside))) + code)
    assert result.failure is None
    assert tree(outside) == before


# Pieces that weigh next to nothing packed, and are planned: a kernel's own file grows.
_LARGE = """
name = next(name for name in files if name.endswith("__init__.py"))
del files[name]
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    for other, data in files.items():
        archive.writestr(zipfile.ZipInfo(other), data)
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
        for _ in range(900):
            member.write(b"#" * 10**6)
"""


def test_what_a_build_left_is_read_within_its_limits(bench, outside, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = bench.build(hostile.BUILD.replace("OUTSIDE_PATH", repr(str(outside))) + _LARGE)
    assert result.status is Status.FAILED
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000  # KiB
    assert stored(tmp_path) == []


def test_a_reader_that_hangs_is_killed_in_time(bench, outside, marker, monkeypatch):
    command = RepairJob.command

    def hanging(finisher, limits, memory):
        argv = ("/bin/sh", "-c", "sleep 60 & sleep 60", marker)
        return dataclasses.replace(command(finisher, dataclasses.replace(limits, seconds=0.5), memory), argv=argv)

    monkeypatch.setattr(RepairJob, "command", hanging)
    result = bench.build(hostile.BUILD.replace("OUTSIDE_PATH", repr(str(outside))) + "pack()")
    assert result.failure
    assert result.failure.stage == "repair"
    assert result.failure.message == "the reading of what it left ran longer than 0.5 s"
    assert processes.left(lambda: processes.with_words(marker)) == []


def test_a_reader_that_was_taken_over_hands_nothing_in(bench, outside, tmp_path, monkeypatch):
    """The program that reads may be the build's victim: what it leaves is looked at like what a build leaves."""
    command = RepairJob.command
    honest = hostile.BUILD.replace("OUTSIDE_PATH", repr(str(outside))) + "pack()"
    for trick in (
        f"ln -sf {outside}/host.whl packed/pure-1-py3-none-any.whl",
        f"rm -r packed; ln -s {outside} packed",
        "rm -r packed; mkfifo packed",
        "rm packed/*; mkfifo packed/pure-1-py3-none-any.whl",
        "ln packed/pure-1-py3-none-any.whl another",
        "sleep 0.1; find packed -name '*.whl' -exec sh -c 'echo more >> $1' - {} ';'",
        "echo '{}' > response.json",
        "echo '[[[[' > response.json",
        "rm response.json; ln -s /etc/hostname response.json",
        "truncate -s 70M response.json",
    ):

        def tricky(finisher, limits, memory, trick=trick):
            plain = command(finisher, limits, memory)
            script = f'"$@"; cd /wheelsmith-finish; {trick}; exit 0'
            return dataclasses.replace(plain, argv=("/bin/sh", "-c", script, "sh", *plain.argv))

        monkeypatch.setattr(RepairJob, "command", tricky)
        before = tree(outside)
        result = bench.build(honest)
        assert result.failure, trick
        assert result.failure.stage in {"check", "store"}
        assert tree(outside) == before
        assert stored(tmp_path) == []


def test_what_a_build_left_goes_when_its_cell_is_done(engine, tmp_path):
    """Each cell may leave as much as engine.disk: all together would fill any machine."""
    pure_kernel(tmp_path / "k")
    cache = tmp_path / "cache"
    request = Request(matrix=matrix(tmp_path, "k"), cache=cache, engine=engine.name)
    prepared = prepare(request, lambda event: None)
    left = {}

    def look(event):
        if isinstance(event, CellStage | CellFinished):
            left[type(event)] = list(cache.glob(f"work/*/{prepared.plans[0].cell.id}"))

    build(prepared, look, threading.Event())
    assert len(left[CellStage]) == 1
    assert left[CellFinished] == []


def test_escape_sequences_in_the_log(bench):
    code = "import sys\nfor d in " + repr(DECEITS) + ": sys.stdout.buffer.write(d + b'\\n')\nsys.exit(3)"
    result = bench.build(code)
    assert result.failure
    assert result.failure.message == "the build ended with exit code 3"
    said = [e.line for e in bench.events if isinstance(e, CellLine)]
    said += [e.step for e in bench.events if isinstance(e, CellProgress)]
    for line in (*said, *result.failure.tail, *bench.log.splitlines()):
        assert line.replace("\t", " ").isprintable()
    for reporter in ("live", "plain", "json"):
        _replay(reporter, bench.events, result)


def _replay(name, events, result):
    """Show the events on a terminal; only the reporter's own escape sequences may come out."""
    from rich.console import Console

    from wheelsmith.report.live import LiveReporter
    from wheelsmith.report.reporters import PlainReporter

    text = io.StringIO()
    console = Console(file=text, force_terminal=name == "live", markup=False, emoji=False, highlight=False, width=200)
    if name == "json":
        return
    with (LiveReporter if name == "live" else PlainReporter)(console, Path("out")) as reporter:
        for event in (*events, CellFinished(result=result)):
            reporter(event)
            if name == "live":
                console.print(reporter)
    shown = text.getvalue()
    for bad in ("\x1b]", "\x9b", "\u202e", "\0", "\x07"):
        assert bad not in shown


def test_endings_are_explained(bench):
    """Each limit ends as a failure in words, not as a traceback."""
    usual = bench.workshop.limits
    for code, change, words in (
        ("while True: pass", {"seconds": 1.0}, "ran longer than 1 s"),
        ("while True: print('x' * 99)", {"output": MIB}, "printed more than"),
        ("x = []\nwhile True: x.append(bytearray(b'x') * 2**22)", {"memory": 128 * MIB}, "out of memory"),
        ("for n in range(9): open(f'/work/{n}', 'wb').write(b'x' * 2**20)", {"disk": 4 * MIB}, "wrote more than"),
    ):
        limits = dataclasses.replace(usual, **change)
        remove_tree(bench.workshop.folder / bench.plan.cell.id)
        bench.workshop = dataclasses.replace(bench.workshop, limits=limits)
        result = bench.build(code)
        assert result.failure
        refused = not wants.COUNTED and any("MemoryError" in line for line in result.failure.tail)
        assert words in result.failure.message or refused


# --- kernels that attack with what compilers do -------------------------------------------------------------

HIJACK = """\
import os, subprocess, sys
if "-c" in sys.argv or "cc1plus" in sys.argv[1]:
    print("HIJACKED", os.getcwd(), flush=True)
    for name in ("repair", "dist/x", "tagged"):
        try: os.symlink({outside!r}, "/work/" + name)
        except OSError: pass
sys.exit(subprocess.call(sys.argv[1:]))
"""
FLAGS = 'src = ["tiny.cpp"]\ncxx-flags = {flags}\n'


def smuggle(line: str, **files: str) -> dict[str, str]:
    return {"tiny.cpp": f"{line}\nint tiny_answer() {{ return 42; }}\n", **files}


def flags(*words: str) -> dict[str, str]:
    return {"build.toml": BUILD_TOML.replace('src = ["tiny.cpp"]\n', FLAGS.format(flags=json.dumps(words)))}


@pytest.mark.network
@pytest.mark.parametrize(
    "make",
    [
        lambda path: smuggle(f'#include "{path}"'),
        lambda path: smuggle(f'asm(".section .rodata; .incbin \\"{path}\\"");'),
        lambda path: smuggle(f'asm(".incbin \\"/work/../../../..{path}\\"");'),
        lambda path: smuggle(f'asm(".incbin \\"/proc/1/root{path}\\"");'),
        lambda path: flags("-include", path),
        lambda path: flags(f"@{path}"),
        lambda path: flags("-Wp,-imacros," + path),
    ],
    ids=["include", "incbin", "incbin above", "incbin /proc", "-include", "@file", "-imacros"],
)
def test_no_file_of_the_host_is_smuggled_into_a_wheel(make, engine, tmp_path):
    secret = _file(tmp_path / "outside" / "secret.h", 'static const char* canary = "hf_canary_4711";\n')
    result = build_kernel(engine, tmp_path, make(str(secret)))
    assert result.failure
    assert result.failure.stage == "compile"
    assert "exit code" in result.failure.message
    assert "hf_canary" not in json.dumps(result.to_json())
    assert stored(tmp_path) == []


@pytest.mark.network
def test_a_compiler_that_the_kernel_replaced_reaches_nothing(engine, tmp_path):
    """``-wrapper`` runs a program of the kernel's in place of the compiler: the kernel's code runs at build time."""
    outside = tmp_path / "outside"
    outside.mkdir()
    changes = flags("-wrapper", "python3,/work/src/evil.py") | {"evil.py": HIJACK.format(outside=str(outside))}
    result = build_kernel(engine, tmp_path, changes)
    log = next((tmp_path / "dist" / "logs").iterdir()).read_text()
    assert "HIJACKED /work" in log
    assert result.failure is None, result.failure
    assert list(outside.iterdir()) == []


HIDDEN = 'extern "C" int hidden() asm("{name}");\nint call() {{ return hidden(); }}\n'


@pytest.mark.network
def test_names_of_symbols_are_shown_as_they_are(engine, tmp_path):
    name = "\\033]52;c;eA==\\007"
    result = build_kernel(engine, tmp_path, smuggle(HIDDEN.format(name=name)))
    assert result.failure
    assert all(text.isprintable() for text in (result.failure.message, *result.failure.tail))


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "torch-ext/../../secret.cpp", "-include"])
def test_a_source_outside_the_kernel_is_refused(path, tmp_path, monkeypatch, capsys):
    tiny_kernel(tmp_path / "k", **{"build.toml": BUILD_TOML.replace('"tiny.cpp"', json.dumps(path))})
    matrix(tmp_path, "k")
    monkeypatch.chdir(tmp_path)
    answer = run_command(monkeypatch, capsys, "plan")
    assert answer.code == 2
    assert "is not a path inside the kernel's folder" in answer.err
    assert "Traceback" not in answer.err


def build_kernel(engine, tmp_path, changes: dict[str, str]) -> BuildResult:
    """Build a kernel the whole way, with the real tools."""
    tiny_kernel(tmp_path / "k", **changes)
    cache = Factory.at(tmp_path).cache
    request = Request(matrix=matrix(tmp_path, "k"), cache=cache, engine=engine.name)
    prepared = prepare(request, lambda event: None)
    with scratch(cache / "work") as folder:
        workshop = make_context(request_of(prepared, folder), lambda event: None)
        workshop = dataclasses.replace(workshop, limits=Limits(memory=1024 * MIB, seconds=60.0, pids=64))
        return build_one(prepared.plans[0], workshop)
