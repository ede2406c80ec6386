"""pypiserver, in PyPI's place: it takes uploads by the same protocol, but refuses less."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import wants


@contextmanager
def upload_server(packages: Path) -> Iterator[str]:
    """Let anybody upload to a folder, and install from ``/simple/``; gives the address, without a slash."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    packages.mkdir()
    command = [wants.script("pypi-server"), "run", "-i", "127.0.0.1", "-p", str(port), "-P", ".", "-a", ".", packages]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            while not _answers(address):
                assert server.poll() is None
                time.sleep(0.05)
            yield address
        finally:
            server.terminate()


def _answers(address: str) -> bool:
    with contextlib.suppress(URLError):
        urllib.request.urlopen(f"{address}/simple/").close()
        return True
    return False
