"""What a sandbox keeps in, and what it leaves behind: nothing."""

import os
import signal
import subprocess
import sys
import threading
import uuid

import containers
import processes
import pytest

from wheelsmith.engine import Command, ExitReason, Limits, Mount, engines
from wheelsmith.engine.cgroup import NoGroupError
from wheelsmith.engine.processes import visible

pytestmark = pytest.mark.e2e
MIB = 2**20
ODD = f"61.{os.getpid()}"  # seconds that nobody else sleeps


ALL = ("bwrap", "local", "podman", "docker")
own_ways = pytest.mark.parametrize("engine", containers.params(*ALL, quick=("bwrap",)), indirect=True)


@pytest.fixture(params=containers.params(*ALL, quick=("bwrap",)))
def engine(request, tmp_path):
    if request.param in {"podman", "docker"}:
        request.getfixturevalue(f"{request.param}_image")
    elif request.param == "bwrap":
        containers.wanted("bwrap")
    return engines(tmp_path / "cache")[request.param]


def run(engine, work, *argv, cancel=None, **limits):
    lines = []
    work.mkdir(exist_ok=True)
    command = Command(
        name="test",
        argv=argv,
        mounts=(Mount(source=work, target="/work", writable=True),),
        env={"GREETING": "hi"},
        workdir="/work",
        limits=Limits(**{"memory": 512 * MIB, "seconds": 20.0, "pids": 64, **limits}),
        image=engine.build_host("debian").image,
    )
    return engine.run(command, lines.append, cancel or threading.Event()), lines


def python(engine, work, code, **limits):
    return run(engine, work, "python3", "-c", code, **limits)


@own_ways
def test_a_command_runs_in_its_work_folder(engine, tmp_path):
    exit_, lines = python(engine, tmp_path, "import os; open('made','w'); print(os.environ['GREETING'])")
    assert exit_.ok
    assert lines == ["hi"]
    assert (tmp_path / "made").exists()


@own_ways
def test_nothing_of_the_environment_comes_in(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    _, lines = python(engine, tmp_path, "import os; print(dict(os.environ))")
    assert "hf_secret" not in lines[0]


PRELOADED = """
#include <cstdio>
#include <cstring>
__attribute__((constructor)) static void look() {
  char line[256];
  std::FILE *status = std::fopen("/proc/self/status", "r"), *out = std::fopen("/work/seen", "a");
  while (status && out && std::fgets(line, sizeof line, status))
    if (!std::strncmp(line, "CapEff", 6)) std::fputs(line, out), std::fflush(out);
}
"""


def test_nothing_that_the_environment_names_runs_with_capabilities(tmp_path):
    """The sandbox's last step has some, to leave a mount namespace; a preloaded library would have had them too."""
    containers.wanted("bwrap")
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "look.cpp").write_text(PRELOADED)
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "look.cpp", "-o", work / "look.so"], check=True)
    command = Command(
        name="test",
        argv=("true",),
        mounts=(Mount(source=work, target="/work", writable=True),),
        env={"LD_PRELOAD": "/work/look.so"},
        workdir="/work",
        limits=Limits(seconds=20.0),
    )
    assert engines(tmp_path / "cache")["bwrap"].run(command, print, threading.Event()).ok
    assert set((work / "seen").read_text().splitlines()) == {"CapEff:\t0000000000000000"}


MOUNTS = """
import ctypes, os, sys
libc, folders = ctypes.CDLL(None), [os.fsencode(f"{sys.argv[1]}/{count}") for count in range(20)]
print("ready", flush=True)
while True:
    for folder in folders:
        os.mkdir(folder)
        if libc.mount(b"none", folder, b"tmpfs", 0, None):
            raise SystemExit("no mount")
    for folder in folders:
        libc.umount(folder)
        os.rmdir(folder)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount where others see it")
def test_mounts_that_others_take_away_stop_nothing(tmp_path):
    """As podman's are, in the middle of a start: a mount whose folder goes is gone from every namespace."""
    containers.wanted("bwrap")
    bwrap = engines(tmp_path / "cache")["bwrap"]
    argv = [sys.executable, "-c", MOUNTS, tmp_path]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as others:
        try:
            assert others.stdout.readline() == "ready\n"
            found = {bwrap.probe().detail for _ in range(30)}
            assert others.poll() is None
        finally:
            others.kill()
    for folder in tmp_path.glob("[0-9]*"):
        subprocess.run(["umount", folder], check=False, capture_output=True)
    assert found == {""}


def test_the_exit_code_is_told(engine, tmp_path):
    exit_, _ = run(engine, tmp_path, "sh", "-c", "exit 3")
    assert (exit_.reason, exit_.code, exit_.ok) == (ExitReason.EXITED, 3, False)


@own_ways
def test_too_much_memory(engine, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    exit_, lines = python(engine, tmp_path / "work", "x = bytearray(10**9)", memory=200 * MIB)
    assert exit_.reason is ExitReason.OUT_OF_MEMORY or "MemoryError" in lines[-1]
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize(
    ("code", "limits", "ending"),
    [
        (
            "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)",
            {"seconds": 0.5},
            ExitReason.TIMEOUT,
        ),
        ("while True: print('y')", {"output": MIB}, ExitReason.TOO_MUCH_OUTPUT),
        ("for name in 'ab': open(name, 'wb').write(bytes(4 << 20))", {"disk": 5 * MIB}, ExitReason.DISK_FULL),
    ],
    ids=["time", "output", "disk"],
)
def test_limits_hold_where_nothing_confines(code, limits, ending, tmp_path):
    """For the other engines test_hostile.py shows it."""
    exit_, _ = python(engines(tmp_path / "cache")["local"], tmp_path / "work", code, **limits)
    assert exit_.reason is ending


@own_ways
def test_cancelling(engine, tmp_path):
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    exit_, _ = run(engine, tmp_path, "sleep", "60", cancel=cancel)
    assert exit_.reason is ExitReason.CANCELLED


def test_escape_sequences_are_made_visible(engine, tmp_path):
    _, lines = run(engine, tmp_path, "printf", "\\033[2Jgone\\r\\ttab")
    assert lines == ["\\x1b[2Jgone", "\ttab"]
    assert visible("a\x07b") == "a\\x07b"


def test_what_a_command_leaves_running_is_killed(engine, tmp_path):
    run(engine, tmp_path, "sh", "-c", f"(sleep {ODD} &) ; exit 0")
    assert processes.left(lambda: processes.with_words(ODD)) == []


# A container ends with the pipe of its first process, which others may not open: it would be held open.
HOLD = f"(sleep {ODD} 9<>/proc/1/fd/0) 2>/dev/null &"


@own_ways
@pytest.mark.parametrize("first", [":;", HOLD], ids=["asleep", "holding the pipe"])
def test_a_killed_wheelsmith_leaves_nothing_running(first, engine, tmp_path):
    code = f"""
import threading
from pathlib import Path
from wheelsmith.engine import Command, Limits, Mount, engines
mounts = (Mount(source=Path({str(tmp_path)!r}), target="/work", writable=True),)
argv = ("sh", "-c", {first!r} + " echo up; sleep {ODD}")
engine = engines(Path({str(tmp_path / "cache")!r}))[{engine.name!r}]
image = engine.build_host("debian").image
where = dict(mounts=mounts, env={{}}, workdir="/work", image=image)
command = Command(name="wheelsmith-t", argv=argv, limits=Limits(), **where)
engine.run(command, lambda line: print(line, flush=True), threading.Event())
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "up\n"
    # A loaded machine may be between the shell's two commands.
    assert processes.seen(lambda: processes.with_words(f"\0{ODD}"))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert processes.left(lambda: processes.with_words(ODD)) == []


def no_group(limits):
    raise NoGroupError("no control group can be created here")


@pytest.fixture(params=["bwrap", "local"])
def uncounted(request, tmp_path, monkeypatch):
    """An engine where control groups may not be made, as for most people who are not root."""
    if request.param == "bwrap":
        containers.wanted("bwrap")
    monkeypatch.setattr("wheelsmith.engine.process_tree.make_group", no_group)
    return engines(tmp_path / "cache")[request.param]


HOLD = """
import ctypes, mmap, os, time
def hold(size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
    held = mmap.mmap(-1, size, flags)
    held.write(b'x' * size)
    return held
def look_at(size):
    held = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)
    held.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, size, 1 << 21): held[at]  # a page of the table for each, and no page of its own
    return held
"""


@pytest.mark.parametrize(
    "code",
    [
        "hold(2 * 10**9); time.sleep(30)",
        "for _ in range(10): os.fork() or (os.setsid(), hold(10**8), time.sleep(30), os._exit(0))\ntime.sleep(30)",
        "hold(10**9, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS); time.sleep(30)",
        "ctypes.CDLL(None).prctl(4, 0); kept = [hold(10**8) for _ in range(10)]; time.sleep(30)",
        "kept = look_at(300 << 30); time.sleep(30)",
    ],
    ids=["at once", "by sessions", "shared", "undumpable", "tables of pages"],
)
def test_memory_is_bounded_where_nobody_counts(uncounted, code, tmp_path):
    mark = f"# {uuid.uuid4()}"
    exit_, lines = python(uncounted, tmp_path / "work", HOLD + code + mark, memory=400 * MIB)
    assert exit_.reason is ExitReason.OUT_OF_MEMORY or "memory" in lines[-1].lower(), (exit_, lines)
    assert processes.left(lambda: processes.with_words(mark)) == []
    assert exit_.peak_memory is None or exit_.peak_memory < 2000 * MIB


def test_pages_that_a_tree_shares_count_once(uncounted, tmp_path):
    code = HOLD + "kept = hold(10**8)\nfor _ in range(9): os.fork() or (time.sleep(1), os._exit(0))\ntime.sleep(1)"
    exit_, lines = python(uncounted, tmp_path / "work", code, memory=400 * MIB)
    assert exit_.ok, lines


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/run", "/dev"])
def test_what_is_kept_in_memory_is_bounded(folder, tmp_path, monkeypatch):
    containers.wanted("bwrap")
    monkeypatch.setattr("wheelsmith.engine.process_tree.make_group", no_group)
    code = f"f = open('{folder}/big', 'wb')\nfor _ in range(1000): f.write(b'x' * 10**6)"
    exit_, lines = python(engines(tmp_path)["bwrap"], tmp_path / "work", code, memory=400 * MIB)
    assert not exit_.ok
    assert "No space left" in lines[-1] or "Read-only" in lines[-1]


@pytest.mark.parametrize(
    "bomb",
    [
        "import os, time\nfor _ in range(200): os.fork() or (time.sleep(30), os._exit(0))\ntime.sleep(30)",
        "import threading, time\nfor _ in range(200): threading.Thread(target=time.sleep, args=(30,), daemon=True).start()",  # noqa: E501  # a script
    ],
    ids=["processes", "threads"],
)
def test_processes_are_bounded_where_nobody_counts(uncounted, bomb, tmp_path):
    exit_, lines = python(uncounted, tmp_path / "work", bomb)
    # The kernel counts the processes of everybody but root, and the stacks of threads as everybody's data.
    refused = (os.getuid() or "threading" in bomb) and exit_.code == 1 and "Error" in lines[-1]
    assert exit_.reason is ExitReason.TOO_MANY_PROCESSES or refused, (exit_, lines)
