"""A Dask cluster on this machine: a scheduler, and workers as processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from factory import ROOT


class DaskCluster:
    """A scheduler that is running, and its workers by name. Leaving the context kills all of them.

    :param folder: an empty folder for logs and caches.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"

    def __enter__(self) -> Self:
        host, _, port = self.address.partition(":")
        self._start("scheduler", "scheduler", "--host", host, "--port", port)
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return self
            time.sleep(0.1)
        raise TimeoutError((self.folder / "scheduler.log").read_text())

    def __exit__(self, *error: object) -> None:
        for name in list(self.processes):
            self.kill(name)

    def add_worker(self, name: str, cache: Path, **environment: str) -> None:
        """Start a worker of one core. It has no nanny that starts it again."""
        address = f"tcp://{self.address}"
        words = ("worker", address, "--name", name, "--nthreads", "1", "--no-nanny", "--memory-limit", "2GiB")
        more = {"WHEELSMITH_CACHE": str(cache), **environment}
        self._start(name, *words, "--local-directory", str(self.folder), environment=more)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process."""
        self.processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Kill a process, and wait for its end."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def _start(self, name: str, *words: str, environment: dict[str, str] | None = None) -> None:
        argv = (sys.executable, "-m", "dask", *words, "--no-dashboard")
        paths = os.pathsep.join(filter(None, ((environment or {}).get("PYTHONPATH"), str(ROOT))))
        whole = {**os.environ, **(environment or {}), "PYTHONPATH": paths}
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(argv, env=whole, stdout=log, stderr=log)
