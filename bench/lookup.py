"""Serve indexes and measure requests to them."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.catalogue import Item, project_of
from bench.publishers import Site
from bench.stopwatch import CommandCost, run_timed
from wheelsmith.base.errors import WheelsmithError

_START_SECONDS = 120.0
_LOOK_SECONDS = 0.005
# The Accept header of pip.
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response to a request: seconds and size in bytes."""

    wall: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A served index.

    :param url: the ``--index-url`` for pip.
    :param process: the process id of the server.
    """

    url: str
    process: int

    def page(self, distribution: str) -> Answer:
        """Fetch the page of a project."""
        start = time.monotonic()
        data = _get(f"{self.url}{project_of(distribution)}/")
        return Answer(wall=time.monotonic() - start, bytes=len(data))

    def resolve(self, distribution: str, site: Site) -> tuple[CommandCost, str]:
        """Run pip to resolve a package without dependencies and cache. Return the cost and the chosen version."""
        options = ("--dry-run", "--no-deps", "--ignore-installed", "--no-cache-dir", "--quiet", "--report", "-")
        pip = (site.tools / "bin" / "python", "-m", "pip", "install", *options)
        outputs: list[str] = []
        took = run_timed((*pip, "--index-url", self.url, project_of(distribution)), site.environment, outputs=outputs)
        return took, json.loads(outputs[0])["install"][0]["metadata"]["version"]

    def wait_for(self, item: Item) -> None:
        """Wait until the page of a project lists a wheel."""
        name = item.filename.replace("+", "%2B")
        give_up = time.monotonic() + _START_SECONDS
        while time.monotonic() < give_up:
            page = _get(f"{self.url}{project_of(item.distribution)}/").decode()
            if name in page or item.filename in page:
                return
            time.sleep(_LOOK_SECONDS)
        raise WheelsmithError(f"{self.url} does not show {item.filename}")

    def peak_memory(self) -> int:
        """Return the peak memory of the server in bytes."""
        lines = Path(f"/proc/{self.process}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@contextmanager
def serving(tools: dict[str, Any]) -> Iterator[dict[str, Lookup]]:
    """Serve the indexes until the block ends, and yield them by name."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(_served(tool)) for name, tool in tools.items()}


@contextmanager
def _served(tool: Any) -> Iterator[Lookup]:
    port = _free_port()
    command, root = tool.serve(port)
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([str(part) for part in command], env=tool.site.environment, **quiet) as process:
        try:
            yield _waited(Lookup(url=f"http://127.0.0.1:{port}/{root}", process=process.pid))
        finally:
            process.kill()


def _waited(lookup: Lookup) -> Lookup:
    give_up = time.monotonic() + _START_SECONDS
    while True:
        try:
            _get(lookup.url)
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > give_up:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return lookup


def _get(url: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": _ACCEPT})) as response:
        return response.read()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
