"""Builds that use up what there is or never end: each engine stops them at their limits and leaves nothing of them."""

import contextlib
import threading
import uuid

import processes
import pytest
import wants

from wheelsmith.base.beneath import remove_tree
from wheelsmith.engine import ExitReason

pytestmark = pytest.mark.e2e
MIB = 2**20


@pytest.fixture
def marker():
    """An argument of the attack; whatever carries it must be gone afterwards."""
    word = f"attack-{uuid.uuid4().hex}"
    yield word
    assert processes.left(lambda: processes.with_words(word)) == []


@contextlib.contextmanager
def process_limit(marker):
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
def test_fork_bomb(code, confining, tmp_path, marker):
    with process_limit(marker) as counts:
        exit_, _ = confining.run(code, tmp_path / "work", marker, pids=40, seconds=2.0, memory=256 * MIB)
    assert exit_.reason in {ExitReason.TIMEOUT, ExitReason.OUT_OF_MEMORY, ExitReason.TOO_MANY_PROCESSES}
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
    "pipes": """
import fcntl, os
while True:
    r, w = os.pipe()
    os.write(w, b"x" * fcntl.fcntl(w, 1031, 2**20))
""",
}


@pytest.mark.parametrize("code", MEMORY_BOMBS.values(), ids=MEMORY_BOMBS)
def test_memory_bomb(code, confining, tmp_path, marker):
    exit_, lines = confining.run(code, tmp_path / "work", marker, memory=128 * MIB, seconds=15.0)
    refused = exit_.reason is ExitReason.EXITED and exit_.code and "Error" in lines[-1]
    assert exit_.reason is ExitReason.OUT_OF_MEMORY or refused, (exit_, lines[-3:])
    assert exit_.peak_memory is None or exit_.peak_memory <= (129 if wants.COUNTED else 1024) * MIB


DISK_BOMBS = {
    "one file": "import time\nf = open('x', 'wb')\nwhile True: f.write(b'x' * 2**20); f.flush(); time.sleep(0.02)",
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
def test_disk_bomb(code, confining, tmp_path, marker):
    exit_, lines = confining.run(code, tmp_path / "work", marker, disk=16 * MIB, seconds=120.0)
    refused = exit_.reason is ExitReason.EXITED and exit_.code and "File too large" in lines[-1]
    assert exit_.reason is ExitReason.DISK_FULL or refused, (exit_, lines[-3:])
    remove_tree(tmp_path / "work")  # pytest itself cannot remove deep folders


@pytest.mark.parametrize("code", ["while True: print('x' * 70)", "while True: print()"], ids=["text", "empty lines"])
def test_endless_output(code, confining, tmp_path, marker):
    exit_, lines = confining.run(code, tmp_path / "work", marker, output=MIB)
    assert exit_.reason is ExitReason.TOO_MUCH_OUTPUT
    assert sum(map(len, lines)) <= MIB


def test_one_endless_line(confining, tmp_path, marker):
    code = "import sys\nwhile True: sys.stdout.write('x' * 4000)"
    exit_, lines = confining.run(code, tmp_path / "work", marker, output=8 * MIB, memory=64 * MIB)
    assert exit_.reason is ExitReason.TOO_MUCH_OUTPUT
    assert max(map(len, lines)) <= 4096


ENDLESS = {
    "a daemon ignores every signal": """
import os, signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
while True: time.sleep(1)
""",
    "closes its output": "import os, time\nos.close(0); os.close(1); os.close(2)\nwhile True: time.sleep(1)",
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
}


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_endless_run(code, confining, tmp_path, marker):
    exit_, _ = confining.run(code, tmp_path / "work", marker, seconds=1.0)
    assert exit_.reason is ExitReason.TIMEOUT


def test_cancelling(confining, tmp_path, marker):
    cancel = threading.Event()
    threading.Timer(1.0, cancel.set).start()
    exit_, _ = confining.run(ENDLESS["a daemon ignores every signal"], tmp_path / "work", marker, cancel=cancel)
    assert exit_.reason is ExitReason.CANCELLED


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
def test_daemons_die_with_the_build(output, confining, tmp_path, marker):
    exit_, lines = confining.run(DAEMON.format(output=output), tmp_path / "work", marker, seconds=20.0)
    assert lines == ["bye"]
    assert exit_.reason is ExitReason.EXITED
