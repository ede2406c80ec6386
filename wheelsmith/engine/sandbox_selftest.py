"""Test whether the promises of SECURITY.md hold on this machine, by an attempt to break each one in a sandbox."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from threading import Event

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import counted
from wheelsmith.engine.cgroup import NoGroupError, make_group
from wheelsmith.engine.protocol import Command, Engine, Exit, Limits, Mount
from wheelsmith.model import ImageId

_PROBE = "/opt/wheelsmith-trial.py"
_SHOWN = "/opt/shown"
_MIB = 2**20
_LIMITS = Limits(memory=256 * _MIB, seconds=30.0, pids=64, output=_MIB, disk=16 * _MIB)
_REFUSED = "tested: refused"
# Part of the probe's report → the promise in SECURITY.md.
_PROMISES_INSIDE = {
    "network": "has no network, loopback or other sockets",
    "files": "sees only declared host files, read-only",
    "environment": "sees no tokens and no variables of yours",
    "calls": "has a filter of system calls",
    "host": "learns nothing about the host",
}
BOUNDED = "has limits on memory, processes, time, output and disk"
DIES = "ends when wheelsmith ends"

_PROCESSES = """
import os, time
for _ in range(64):
    os.fork() or (time.sleep(5), os._exit(0))
time.sleep(2)
"""
# Each program exceeds one limit, and exits with 0 if the limit is not enforced.
_EXCESSES = {
    "memory": (
        "x = bytearray(b'x') * (512 << 20)\nimport time; time.sleep(2)",
        replace(_LIMITS, memory=64 * _MIB),
    ),
    "processes": (_PROCESSES, replace(_LIMITS, pids=24)),
    "time": ("import time; time.sleep(5)", replace(_LIMITS, seconds=0.5)),
    "output": ("print('x' * (1 << 20))", replace(_LIMITS, output=65536)),
    "disk": ("open('big', 'wb').write(bytes(8 << 20))", replace(_LIMITS, disk=_MIB)),
}
_DEATH_SECONDS = 10.0
_HOLDER = """
import json, sys, threading
from pathlib import Path
from wheelsmith.engine import Command, Limits, Mount, engines
from wheelsmith.model import ImageId
order = json.loads(sys.argv[1])
command = Command(
    name=order["name"], argv=tuple(order["argv"]), env={}, workdir="/work",
    limits=Limits(memory=1 << 28, seconds=100.0),
    mounts=(Mount(source=Path(order["work"]), target="/work", writable=True),),
    image=ImageId.from_json(order["image"]) if order["image"] else None,
)
engine = engines(Path(order["cache"]))[order["engine"]]
engine.run(command, lambda line: print(line, flush=True), threading.Event())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise(Record):
    """The result of testing one promise on one engine.

    :param what: the promise, in the words of SECURITY.md.
    :param found: how the promise was tested, or how it was broken.
    """

    engine: str
    what: str
    holds: bool
    found: str


def run_selftest(engine: Engine, image: ImageId | None) -> Iterator[Promise]:
    """Test an engine that is ready, and yield the result for each promise.

    :param image: a local image, for engines with images.
    :raises EngineError: the engine cannot start a sandbox.
    """
    with tempfile.TemporaryDirectory(prefix="wheelsmith-doctor-") as name:
        selftest = _EngineSelftest(engine=engine, image=image, folder=Path(name).resolve())
        yield from selftest.try_operations()
        yield selftest.try_limits()
        yield selftest.try_kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class _EngineSelftest:
    """Tests one engine.

    :param folder: an empty temporary folder on the host.
    """

    engine: Engine
    image: ImageId | None
    folder: Path

    def try_operations(self) -> Iterator[Promise]:
        """Test what a command can read and call inside the sandbox."""
        variable = f"WHEELSMITH_TRIAL_{secrets.token_hex(8).upper()}"
        shown = self.folder / "shown"
        shown.mkdir()
        (self.folder / "private").write_text("of the host")
        os.environ[variable] = "of the host"
        try:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                baits = {
                    "port": listener.getsockname()[1],
                    "file": str(self.folder / "private"),
                    "shown": _SHOWN,
                    "variable": variable,
                    "hostname": socket.gethostname(),
                    "pid": os.getpid(),
                    "marker": Path("/proc/self/cmdline").read_text(encoding="utf-8", errors="replace"),
                }
                probe = Path(str(files("wheelsmith.engine"))) / "backend" / "selftest_probe.py"
                mounts = (Mount(source=probe, target=_PROBE), Mount(source=shown, target=_SHOWN))
                exit_, lines = self._run(("python3", _PROBE, json.dumps(baits)), _LIMITS, *mounts)
        finally:
            del os.environ[variable]
        try:
            found = dict(json.loads(lines[-1])) if exit_.ok else {}
        except (ValueError, TypeError, IndexError):
            found = {}
        for name, what in _PROMISES_INSIDE.items():
            broken = found.get(name, [f"it could not be tested: {lines[-1] if lines else exit_.reason}"])
            yield self._promise(what, holds=not broken, found="; ".join(broken) or _REFUSED)

    def try_limits(self) -> Promise:
        """Try to exceed each limit."""
        broken = []
        for name, (code, limits) in _EXCESSES.items():
            exit_, _ = self._run(("python3", "-c", code), limits)
            if exit_.ok:
                broken.append(name)
        if broken:
            return self._promise(BOUNDED, holds=False, found=f"not limited: {', '.join(broken)}")
        how = "by the engine's control groups" if self.engine.has_images else "by control groups"
        found = f"{how}; disk use is measured five times a second"
        try:
            if not (self.engine.has_images and os.getuid() == 0):
                make_group(_LIMITS).remove()
        except NoGroupError as error:
            looked = "memory is measured ten times a second and can briefly overshoot; the kernel limits processes"
            found = f"{looked}: {error}"
        return self._promise(BOUNDED, holds=True, found=found)

    def try_kill(self) -> Promise:
        """Kill a wheelsmith process that runs a sandbox, and look for surviving processes of the sandbox."""
        marker = f"wheelsmith-doctor-{secrets.token_hex(8)}"
        settings = {
            "name": marker,
            "argv": ["python3", "-c", "import time; print('up', flush=True); time.sleep(120)", marker],
            "engine": self.engine.name,
            "cache": str(self.folder / "cache"),
            "work": str(self._work()),
            "image": self.image.to_json() if self.image else None,
        }
        argv = [sys.executable, "-P", "-c", _HOLDER, json.dumps(settings)]  # -P: the current folder may be untrusted
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
            assert holder.stdout is not None  # noqa: S101  # stdout=PIPE above
            started = holder.stdout.readline().strip() == "up"
            holder.send_signal(signal.SIGKILL)
        if not started:
            return self._promise(DIES, holds=False, found="it could not be tested: nothing started")
        end = time.monotonic() + _DEATH_SECONDS
        while (left := _find_processes(marker)) and time.monotonic() < end:
            time.sleep(0.1)
        alive = counted(len(left), "process is", "processes are")
        return self._promise(DIES, holds=not left, found=f"{alive} still running" if left else "tested: by a kill")

    def _run(self, argv: tuple[str, ...], limits: Limits, *mounts: Mount) -> tuple[Exit, list[str]]:
        work = self._work()
        lines: list[str] = []
        command = Command(
            name=f"wheelsmith-doctor-{os.getpid()}",
            argv=argv,
            mounts=(Mount(source=work, target="/work", writable=True), *mounts),
            env={},
            workdir="/work",
            limits=limits,
            image=self.image,
        )
        try:
            return self.engine.run(command, lines.append, Event()), lines
        finally:
            remove_tree(work)

    def _work(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))

    def _promise(self, what: str, *, holds: bool, found: str) -> Promise:
        return Promise(engine=self.engine.name, what=what, holds=holds, found=found)


def _find_processes(marker: str) -> list[str]:
    """Return the PIDs of the processes with a marker in their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):  # it ended
            if folder.name.isdigit() and marker.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found
