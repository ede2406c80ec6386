"""A loopback S3: moto's server in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

BUCKET = "wheels"
_MISSING = [name for name in ("obstore", "moto", "flask") if find_spec(name) is None]
# In CI nothing is left out in silence: there the tests fail where something is missing.
needs_s3 = pytest.mark.skipif(
    bool(_MISSING) and os.environ.get("CI") != "true",
    reason=f"{', '.join(_MISSING)} is not installed",
)


CLOUDS = ("AWS_", "GOOGLE_", "AZURE_", "GITHUB_", "GH_")


def environment(endpoint: str, *, patience: float = 60.0) -> dict[str, str]:
    """Return the variables with which an endpoint is reached.

    :param patience: seconds after which an answer is not waited for any longer.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "AKIALOOPBACK",
        "AWS_SECRET_ACCESS_KEY": "not-a-secret",
        "AWS_REGION": "us-east-1",
        "AWS_TIMEOUT": f"{patience} seconds",
    }


@contextmanager
def only(environ: dict[str, str]) -> Iterator[None]:
    """Let these be the clouds' variables, and nothing of this machine's own."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(CLOUDS)]:
        del os.environ[name]
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def loopback_s3() -> Iterator[int]:
    """Yield the port of an S3 with one bucket, ``BUCKET``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("atomic_s3.py"), str(port)],
        env={name: value for name, value in os.environ.items() if not name.startswith(CLOUDS)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _make_bucket(port, server)
        yield port
    finally:
        server.kill()
        server.wait()


def _make_bucket(port: int, server: subprocess.Popen[bytes]) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(600):
        try:
            opener.open(request, timeout=60).close()
        except (urllib.error.URLError, ConnectionError):
            if server.poll() is not None:
                raise RuntimeError("moto's server does not start: pip install 'moto[server]'") from None
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("moto's server does not answer")
