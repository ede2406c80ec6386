"""Operations that break a worker in every way, and some that do not."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from wheelsmith.base import errors


def add(request):
    return {"sum": request["a"] + request["b"], "process": os.getpid()}


def count_digits(request):
    return {"digits": len(str(int(request["text"])))}


def fill_memory(request):
    held = []
    while True:
        held.append(bytearray(2**26))


def spin(request):
    while True:
        pass


def spin_in_children(request):
    Path("child").write_text(str(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid))
    time.sleep(600)


def sleep(request):
    time.sleep(600)


def write_much(request):
    with Path("large").open("wb") as file:
        for _ in range(64):
            file.write(bytes(2**20))
            file.flush()


def abort(request):
    os.abort()


def leave(request):
    os._exit(3)


def kill_itself(request):
    os.kill(os.getpid(), signal.SIGKILL)


def print_much(request):
    for _ in range(10_000):
        print('{"result": {"sum": 4}}')
    os.system("echo from a program; cat")
    return {"read": sys.stdin.read()}


def nest(request):
    return nest(request)


def nested_answer(request):
    tree = []
    for _ in range(100_000):
        tree = [tree]
    return {"tree": tree}


def long_answer(request):
    return {"text": "x" * (65 * 2**20)}


def odd_answer(request):
    return {"set": {1}}


def fail(request):
    raise IndexError("list index out of range\nand more")


def refuse(request):
    where = errors.Place(file="a.toml", line=3)
    raise errors.SourceError("it is no source", where=where, remedy="take another")


def refuse_twice(request):
    raise errors.MatrixMistakesError((errors.MatrixError("one"), errors.SourceError("two")))


class OwnError(errors.WheelError):
    pass


def refuse_by_its_own(request):
    raise OwnError("it is no wheel")


def open_missing(request):
    Path("/nowhere/at/all").read_bytes()


def reach(request):
    """Return what this process can do that it should not."""
    done = []
    try:
        Path(request["outside"]).write_text("x")
        done.append("wrote outside")
    except OSError:
        pass
    try:
        socket.create_connection(("127.0.0.1", request["port"]), timeout=5)
        done.append("reached the network")
    except OSError:
        pass
    Path("result").write_text(Path(request["input"]).read_text())
    return {"done": done, "environment": sorted(os.environ)}
