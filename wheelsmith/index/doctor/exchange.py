"""One request and what came back, as it was recorded."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

# What they send and what they take was read from pip 26.3 and uv 0.13.8, and seen on the wire.
PIP_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"
UV_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
BROWSER_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
JSON = "application/vnd.pypi.simple.v1+json"
HTML = "application/vnd.pypi.simple.v1+html"
Origin = tuple[str, str, int | None]
ACCEPTED = ("text/html", HTML, JSON)
_OK = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request, the redirects that were followed, and the last answer.

    :param url: what was asked for, without credentials.
    :param sent: the headers that mattered.
    :param status: of the last answer; 0 when there was none.
    :param headers: of the last answer, names in lower case.
    :param body: pages as they read once decompressed, files as they travelled.
    :param truncated: the body is longer than this.
    :param hops: where each redirect led, in order.
    :param failure: why there was no answer.
    """

    url: str
    method: str = "GET"
    sent: Mapping[str, str] = field(default_factory=dict)
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    truncated: bool = False
    hops: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def ok(self) -> bool:
        """Say whether what was asked for came."""
        return self.failure is None and self.status in _OK

    @property
    def final(self) -> str:
        """Return the URL that answered, to which links on a page are relative."""
        return self.hops[-1] if self.hops else self.url

    @property
    def media(self) -> str:
        """Return the content type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def answer(self) -> str:
        """Return the outcome in a few words."""
        return self.failure or f"status {self.status}"

    @property
    def command(self) -> str:
        """Return the curl command that shows the same."""
        shown = ["-I"] if self.method == "HEAD" else ["-D", "-", "-o", "/dev/null"]
        headers = [part for name, value in self.sent.items() for part in ("-H", f"{name}: {value}")]
        return shlex.join(["curl", "-sSL", *shown, *headers, self.url])


def origin(url: str) -> Origin:
    """Return scheme, host and port; a port that is the scheme's own is None."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", None if parts.port == usual else parts.port
