"""Run pip from wheelsmith's environment, and read its configuration, which has the user's indexes."""

from __future__ import annotations

import ast
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.offline import WHEELS, is_offline, vendored_folder
from wheelsmith.toolchain.program import run_program

if TYPE_CHECKING:
    import httpx

_DEFAULT_INDEX = "https://pypi.org/simple"  # pip's default
_CONFIG_TIMEOUT = 60.0  # seconds; covers a start from a cold disk
_TRUE = {"1", "true", "yes", "on"}
_SECTIONS = ("global", "download", "install", ":env:")


def run_pip(*argv: str, seconds: float, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run pip to its end.

    :param seconds: the time limit.
    :raises ToolchainError: pip is not installed, or exceeded the limit.
    """
    # -P: the current folder may be untrusted and contain a pip.py.
    command = [sys.executable, "-P", "-m", "pip", *argv, "--disable-pip-version-check"]
    completed = run_program(command, f"pip {argv[0]}", env=_environment(), seconds=seconds, stdin=stdin)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSettings:
    """The parts of pip's configuration that concern indexes and connections.

    :param indexes: URLs of simple indexes in pip's order; ``file:`` URLs are allowed.
    :param find_links: folders, or pages with links to files.
    :param cert: a CA bundle; None means the system's.
    :param timeout: in seconds.
    :param constraints: paths and URLs of constraints files.
    :param keyring: the provider of passwords: ``auto``, ``disabled``, ``import`` or ``subprocess``.
    :param prereleases: True if pre-releases are as good as other releases.
    :param uploaded_before: a time or duration; newer files do not count.
    """

    indexes: tuple[str, ...]
    find_links: tuple[str, ...]
    cert: str | None
    client_cert: str | None
    proxy: str | None
    trusted_hosts: tuple[str, ...]
    timeout: float
    constraints: tuple[str, ...] = ()
    keyring: str = "auto"
    prereleases: bool = False
    uploaded_before: str | None = None

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
    indexes = [] if is_offline() or options.get("no-index") in _TRUE else _indexes(options)
    links = options.get("find-links", "").split()
    return PipSettings(
        indexes=tuple(indexes),
        find_links=(*_vendored_links(), *(link for link in links if local_folder(link) or not is_offline())),
        cert=options.get("cert"),
        client_cert=options.get("client-cert"),
        proxy=options.get("proxy"),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        timeout=float(options.get("timeout") or options.get("default-timeout") or 30),
        constraints=tuple(options.get("constraint", "").split()),
        keyring=options.get("keyring-provider", "auto"),
        prereleases=options.get("pre") in _TRUE,
        uploaded_before=options.get("uploaded-prior-to"),
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
