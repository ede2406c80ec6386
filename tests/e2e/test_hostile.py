"""Kernels that attack: each attack is held by every engine, shows nothing outside, and ends in a clear answer."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import containers
import processes
import pytest
import wants
from attacks import BACKEND, BACKENDS, PRELUDE, SCRIPTS
from kernels import matrix, tiny_kernel, write
from sampled import sampled
from wheels import make_wheel

from wheelsmith.engine import Command, Ending, Limits, Mount

pytestmark = pytest.mark.e2e
MIB = 2**20
SECRET = "hf_" + "canary" * 6
CANARY = f"wheelsmith-canary-of-the-host-{os.getpid()}"  # another run of the tests has its own


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A host with something to steal, and ears for whoever calls."""
    folder = tmp_path_factory.mktemp("host")
    home_file = Path.home() / f".{CANARY}-{os.getpid()}"
    home_file.write_text(SECRET)
    (folder / "token").write_text(SECRET)
    (folder / "store").mkdir()
    (folder / "store" / "kept").write_text("kept")
    calls = []
    ears = [socket.create_server(("0.0.0.0", 0)), _unix(str(folder / "engine.sock")), _unix("\0" + CANARY)]
    listeners = [threading.Thread(target=_listen, args=(ear, calls), daemon=True) for ear in ears]
    for listener in listeners:
        listener.start()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", CANARY])
    os.environ.update(HF_TOKEN=SECRET, HF_HOME=str(folder))
    yield {
        "secret": SECRET,
        "token": str(folder / "token"),
        "home_file": str(home_file),
        "store": str(folder / "store"),
        "address": _own_address(),
        "port": ears[0].getsockname()[1],
        "abstract": CANARY,
        "sockets": [str(folder / "engine.sock"), "/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock"]
        + [value.removeprefix("unix://") for name in ("DOCKER_HOST",) if (value := os.environ.get(name))],
        "pid": process.pid,
        "canary": CANARY,
        "calls": calls,
        "folder": str(folder),
    }
    for name in ("HF_TOKEN", "HF_HOME"):
        os.environ.pop(name)
    process.kill()
    process.wait()
    home_file.unlink()
    for ear, listener in zip(ears, listeners, strict=True):
        ear.shutdown(socket.SHUT_RDWR)  # wakes its listener, which close would not
        ear.close()
        listener.join(5)


def _unix(address):
    ear = socket.socket(socket.AF_UNIX)
    ear.bind(address)
    ear.listen()
    return ear


def _listen(ear, calls):
    while True:
        try:
            caller, address = ear.accept()
        except OSError:
            return
        caller.close()
        calls.append(address)


def _own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # asks the kernel which address it would use; sends nothing
        except OSError:
            return "127.0.0.1"
        return s.getsockname()[0]


def attack(confining, work, code, host=None, **limits):
    engine, image = confining
    work.mkdir(parents=True)
    prefix = work.parent / "prefix"
    prefix.mkdir()
    (prefix / "header.h").write_text("honest")
    told = {key: value for key, value in (host or {}).items() if key != "calls"}
    lines = []
    command = Command(
        name=f"wheelsmith-attack-{os.getpid()}",
        argv=("python3", "-c", PRELUDE + code),
        mounts=(Mount(source=work, target="/work", writable=True), Mount(source=prefix, target="/opt/torch")),
        # The attacker knows where to look.
        env={"TARGETS": json.dumps({**told, "secret": told.get("secret", "none")[::-1]})},
        workdir="/work",
        limits=Limits(**{"memory": 256 * MIB, "seconds": 30.0, "pids": 64, "disk": 64 * MIB, **limits}),
        image=image,
    )
    exit_ = engine.run(command, lines.append, threading.Event())
    assert processes.left(lambda: processes.with_words(command.name)) == []
    assert (prefix / "header.h").read_text() == "honest"
    assert [path.name for path in prefix.iterdir()] == ["header.h"]
    if engine.has_images:
        assert containers.containers_left(engine.name) == []
    return exit_, lines


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_it_goes_for_is_out_of_reach(confining, host, tmp_path, name):
    before = len(host["calls"])
    exit_, lines = attack(confining, tmp_path / "work", SCRIPTS[name], host)
    assert exit_.ending is Ending.EXITED, lines
    assert exit_.code == 0, lines
    assert [line for line in lines if line.startswith("ESCAPED")] == []
    assert [line for line in lines if line.startswith("held")] != []
    assert len(host["calls"]) == before
    assert Path(host["home_file"]).read_text() == SECRET
    assert [path.name for path in Path(host["store"]).iterdir()] == ["kept"]
    assert not list(Path("/").glob("escaped*"))


@pytest.mark.parametrize("name", ["the token file", "the host's home", "loopback", "the engine's socket"])
def test_unconfined_the_same_attacks_work(host, tmp_path, name):
    """The attacks are real: what holds them is the engine."""
    from wheelsmith.engine import Local

    _, lines = attack((Local(), None), tmp_path / "work", SCRIPTS[name], host)
    assert [line for line in lines if line.startswith("ESCAPED")] != []


# What a kernel's build could leave, too, test_hostile_builds.py has in the quick tier.
UNLIKE_A_KERNELS = (
    "a link to a file of the host",
    "links where wheelsmith will work",
    "another cell's wheel",
    "a wheel for another platform",
    "escape sequences",
)
BOMBS = {
    "processes": (
        (
            "made = 0\ntry:\n    while True:\n        made += os.fork() > 0 or os._exit(time.sleep(20) or 0)\n"
            "except OSError as error:\n    print('held at', made, error)\n    sys.exit(7)"
        ),
        {Ending.EXITED},
    ),
    "memory of children": (
        (
            "for _ in range(8):\n    if os.fork() == 0:\n        x = bytearray(60 << 20); time.sleep(3); os._exit(0)\n"
            "time.sleep(4); sys.exit(1)"
        ),
        {Ending.OUT_OF_MEMORY},
    ),
    "files in memory": (
        "with open('/tmp/fill', 'wb') as f:\n    while True: f.write(bytes(1 << 20))",
        {Ending.OUT_OF_MEMORY, Ending.DISK_FULL, Ending.EXITED},
    ),
    "shared memory": (
        "with open('/dev/shm/fill', 'wb') as f:\n    while True: f.write(bytes(1 << 20))",
        {Ending.OUT_OF_MEMORY, Ending.DISK_FULL, Ending.EXITED},
    ),
    "disk": ("n = 0\nwhile True:\n    n += 1\n    open(f'/work/{n}', 'wb').write(bytes(8 << 20))", {Ending.DISK_FULL}),
    "output": ("while True: os.write(1, b'x' * 65536)", {Ending.TOO_MUCH_OUTPUT}),
    "lines": ("while True: os.write(1, b'\\n' * 65536)", {Ending.TOO_MUCH_OUTPUT}),
}


# In the quick tier test_hostile_builds.py has the others.
@pytest.mark.parametrize("name", sampled(BOMBS, "processes", "lines"))
def test_what_it_uses_is_bounded(confining, tmp_path, name):
    code, endings = BOMBS[name]
    endings = endings if wants.COUNTED else endings | {Ending.EXITED}
    exit_, lines = attack(confining, tmp_path / "work", code, seconds=120.0, output=8 * MIB)
    assert exit_.ending in endings, (exit_, lines[-3:])
    assert not exit_.ok
    if exit_.peak_memory:
        assert exit_.peak_memory <= (256 if wants.COUNTED else 1024) * MIB
    assert sum(path.stat().st_size for path in (tmp_path / "work").iterdir()) < 1000 * MIB


def test_it_ends_though_it_ignores_every_signal(confining, tmp_path):
    marker = f"{CANARY}-daemon"
    code = f"""
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(3000)", "{marker}"])
    os._exit(0)
print("up", flush=True)
time.sleep(3000)
"""
    exit_, _ = attack(confining, tmp_path / "work", code, seconds=2.0)
    assert exit_.ending is Ending.TIMEOUT
    assert processes.left(lambda: [pid for pid in processes.with_words(marker) if _words(pid)[-1:] == [marker]]) == []


def _words(pid):
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []


@pytest.mark.network
@pytest.mark.parametrize("name", sampled(BACKENDS, *UNLIKE_A_KERNELS))
def test_what_it_leaves_is_no_wheel(releasing, tmp_path, name):
    factory, engine = releasing
    body, words = BACKENDS[name]
    outside, token = tmp_path / "outside", tmp_path / "token"
    outside.mkdir()
    token.write_text(SECRET)
    python = "cp311"
    backend = BACKEND.format(
        tag=f"{python}-{python}-linux_x86_64", body="    " + body.format(token=token, outside=outside)
    )
    pyproject = '[project]\nname = "hostile"\nversion = "1"\n[build-system]\nrequires = []\n'
    pyproject += 'build-backend = "evil"\nbackend-path = ["."]\n'
    write(factory.folder / "k", {"evil.py": backend, "pyproject.toml": pyproject})
    axes = "axes: {torch: [2.13], cuda: [cpu], python: [3.11]}\n"
    limits = "engine: {image: debian, memory: 1GiB, disk: 1GiB, timeout: 60s}\n"
    # What it leaves lay ready on the machine.
    (factory.folder / "matrix.yaml").write_text(f"kernel: {{path: k}}\n{axes}{limits}toolchain: host\n")
    # Its environment has a torch, as every project's has; these attacks have no use for a whole one.
    make_wheel(tmp_path / "packages", "torch", "2.13.0")
    factory.resolves_alone()
    packages = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "packages")}
    answer = factory.run_in_process("build-matrix", "--engine", engine, **packages)
    cell = next(iter(factory.results().values()))
    if words is None:  # an honest wheel, made among traps
        assert answer.returncode == 0, answer.stderr
    else:
        assert answer.returncode == 1, answer.stderr
        assert words in cell["failure"]["message"], cell["failure"]
        assert list((factory.folder / "dist").rglob("*.whl")) == []
    assert list(outside.iterdir()) == []
    assert not Path("/tmp/escaped").exists()
    log = "".join(path.read_text() for path in (factory.folder / "dist" / "logs").iterdir())
    for text in (answer.stderr, log, json.dumps(cell, ensure_ascii=False)):
        assert SECRET not in text
        assert all(character.isprintable() or character in "\n\t" for character in text), repr(text)
    if engine != "bwrap":
        assert containers.containers_left(engine) == []


@pytest.mark.network
@pytest.mark.parametrize("line", ['#include "{token}"', '__asm__(".incbin \\"{token}\\"");'])
def test_its_compiler_cannot_read_the_host(releasing, tmp_path, line):
    """A kernel in the Hub's layout runs nothing of its own while it is built: it has the compiler read for it."""
    factory, engine = releasing
    token = tmp_path / "token"
    token.write_text(SECRET)
    source = line.format(token=token) + "\nint tiny_answer() { return 42; }\n"
    tiny_kernel(factory.folder / "k", **{"tiny.cpp": source})
    matrix(factory.folder, "k", more="engine: {image: debian}\n")
    answer = factory.run_in_process("build-matrix", "--engine", engine)
    assert answer.returncode == 1
    assert next(iter(factory.results().values()))["failure"]["stage"] == "compile"
    logs = "".join(path.read_text() for path in (factory.folder / "dist" / "logs").iterdir())
    assert SECRET not in logs + answer.stderr
