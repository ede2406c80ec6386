"""Run pip from wheelsmith's environment, and read its configuration, which has the user's indexes."""

from __future__ import annotations

import ast
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.offline import WHEELS, is_offline, vendored_folder
from wheelsmith.base.units import show_duration

if TYPE_CHECKING:
    import httpx

_POLL_INTERVAL = 0.2  # seconds between checks of the cancel flag
_PROGRAM = str(files("wheelsmith.toolchain") / "pip_no_build.py")
_DEFAULT_INDEX = "https://pypi.org/simple"  # pip's default
_CONFIG_TIMEOUT = 60.0  # seconds; covers a start from a cold disk
_SECTIONS = ("global", "download", "install", ":env:")


def run_pip(*argv: str, seconds: float, cancel: Event | None = None) -> subprocess.CompletedProcess[str]:
    """Run pip to its end. It never runs fetched code.

    :param seconds: the time limit.
    :param cancel: stops pip when it is set.
    :raises ToolchainError: pip is not installed, exceeded the limit or was cancelled.
    """
    # -P: the current folder may be untrusted and contain a pip.py.
    command = [sys.executable, "-P", _PROGRAM, *argv, "--disable-pip-version-check"]
    completed = _run_until(command, _environment(), time.monotonic() + seconds, cancel or Event())
    if completed is None:
        raise ToolchainError(
            f"pip {argv[0]} took longer than {show_duration(seconds)}",
            remedy="check that the index responds; its address is in: python3 -m pip config list",
        )
    if completed.returncode and "No module named pip" in completed.stderr:
        raise ToolchainError(
            f"pip is not installed in wheelsmith's environment ({sys.executable})",
            remedy=f"uv pip install --python {sys.executable} pip, or {sys.executable} -m ensurepip",
        )
    return completed


def _environment() -> dict[str, str]:
    """Return the environment variables for pip. Offline, they disable all indexes."""
    if not is_offline():
        return dict(os.environ)
    # The other settings of pip may also name files on the network.
    others = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**others, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}


def _run_until(
    command: list[str], env: dict[str, str], deadline: float, cancel: Event
) -> subprocess.CompletedProcess[str] | None:
    """Return the completed command, or None if it exceeded its deadline."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            while time.monotonic() < deadline:
                if cancel.is_set():
                    raise ToolchainError("pip was cancelled")
                with suppress(subprocess.TimeoutExpired):
                    stdout, stderr = process.communicate(timeout=_POLL_INTERVAL)
                    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
        finally:
            process.kill()
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSettings:
    """The parts of pip's configuration that concern indexes and connections.

    :param indexes: URLs of simple indexes in pip's order; ``file:`` URLs are allowed.
    :param find_links: folders, or pages with links to files.
    :param cert: a CA bundle; None means the system's.
    :param timeout: in seconds.
    """

    indexes: tuple[str, ...]
    find_links: tuple[str, ...]
    cert: str | None
    client_cert: str | None
    proxy: str | None
    trusted_hosts: tuple[str, ...]
    timeout: float

    def client(self) -> httpx.Client:
        """Open a client for these indexes. Credentials come from the URLs and from .netrc."""
        import httpx

        context = ssl.create_default_context(cafile=self.cert)
        if self.client_cert:
            context.load_cert_chain(self.client_cert)
        mounts = {
            f"all://{host}": httpx.HTTPTransport(verify=False)  # pip's trusted-host disables verification
            for host in self.trusted_hosts
        }
        return httpx.Client(
            verify=context,
            timeout=self.timeout,
            follow_redirects=True,
            proxy=self.proxy,
            mounts=mounts,
            transport=None if self.proxy else httpx.HTTPTransport(verify=context, retries=3),
        )


def pip_settings() -> PipSettings:
    """Return pip's configuration. Its files and the PIP_* variables are merged as pip does."""
    options = _parse_config(run_pip("config", "list", seconds=_CONFIG_TIMEOUT).stdout)
    indexes = [] if is_offline() or options.get("no-index") in {"1", "true", "yes", "on"} else _indexes(options)
    links = options.get("find-links", "").split()
    return PipSettings(
        indexes=tuple(indexes),
        find_links=(*_vendored_links(), *(link for link in links if local_folder(link) or not is_offline())),
        cert=options.get("cert"),
        client_cert=options.get("client-cert"),
        proxy=options.get("proxy"),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        timeout=float(options.get("timeout") or options.get("default-timeout") or 30),
    )


def local_folder(location: str) -> Path | None:
    """Return the path for a path or ``file:`` URL, or None for a URL on the network."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return Path(location).expanduser() if parts.scheme == "" else None


def _vendored_links() -> Iterator[str]:
    if folder := vendored_folder():
        yield str(folder / WHEELS)


def _indexes(options: dict[str, str]) -> list[str]:
    return [options.get("index-url") or _DEFAULT_INDEX, *options.get("extra-index-url", "").split()]


def _parse_config(listing: str) -> dict[str, str]:
    """Parse the output of ``pip config list``. Later sections override earlier ones, and the environment is last."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found and value:
            found[section][name] = str(ast.literal_eval(value))
    return {name: value for section in _SECTIONS for name, value in found[section].items()}
