"""Where and how the user's pip finds packages, asked of pip itself."""

from __future__ import annotations

import ast
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wheelsmith.base.offline import WHEELS, is_offline, vendored_folder
from wheelsmith.toolchain.pip import run_pip

if TYPE_CHECKING:
    import httpx

_DEFAULT_INDEX = "https://pypi.org/simple"  # pip's own
_PATIENCE = 60.0  # seconds: it reads a few files, but starts from a cold disk
_SECTIONS = ("global", "download", "install", ":env:")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSettings:
    """What of pip's configuration decides where files come from.

    :param indexes: simple indexes in pip's own order; URLs, ``file:`` among them.
    :param find_links: folders or pages with links to files.
    :param cert: a CA bundle, or None for the system's.
    :param timeout: seconds.
    """

    indexes: tuple[str, ...]
    find_links: tuple[str, ...]
    cert: str | None
    client_cert: str | None
    proxy: str | None
    trusted_hosts: tuple[str, ...]
    timeout: float

    def client(self) -> httpx.Client:
        """Open a client that speaks to these indexes; credentials come from the URLs and from .netrc."""
        import httpx

        context = ssl.create_default_context(cafile=self.cert)
        if self.client_cert:
            context.load_cert_chain(self.client_cert)
        mounts = {
            f"all://{host}": httpx.HTTPTransport(verify=False)  # the user's own trusted-host
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
    """Read pip's configuration: its files and PIP_* variables, merged as pip merges them."""
    options = _options(run_pip("config", "list", seconds=_PATIENCE).stdout)
    indexes = [] if is_offline() or options.get("no-index") in {"1", "true", "yes", "on"} else _indexes(options)
    links = options.get("find-links", "").split()
    return PipSettings(
        indexes=tuple(indexes),
        find_links=(*_vendored(), *(link for link in links if local_folder(link) or not is_offline())),
        cert=options.get("cert"),
        client_cert=options.get("client-cert"),
        proxy=options.get("proxy"),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        timeout=float(options.get("timeout") or options.get("default-timeout") or 30),
    )


def local_folder(location: str) -> Path | None:
    """Return the folder that a path or ``file:`` URL names, or None for a page on the network."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return Path(location).expanduser() if parts.scheme == "" else None


def _vendored() -> Iterator[str]:
    if folder := vendored_folder():
        yield str(folder / WHEELS)


def _indexes(options: dict[str, str]) -> list[str]:
    return [options.get("index-url") or _DEFAULT_INDEX, *options.get("extra-index-url", "").split()]


def _options(listing: str) -> dict[str, str]:
    """Read ``pip config list``; later sections win, and the environment is the last of them."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found and value:
            found[section][name] = str(ast.literal_eval(value))
    return {name: value for section in _SECTIONS for name, value in found[section].items()}
