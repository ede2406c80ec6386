"""Send and record requests to a live index."""

from __future__ import annotations

import netrc
import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import httpx

from wheelsmith.base.deadline import deadline
from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.redact import AMBIGUOUS, is_ambiguous, redact
from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import show_duration
from wheelsmith.toolchain.http import REQUEST_ERRORS, failure_reason, open_response

JSON = "application/vnd.pypi.simple.v1+json"
PIP_ACCEPT = f"{JSON}, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"
MAX_PAGE = 8 * 2**20  # bytes
_REQUEST_SECONDS, _SECONDS = 20.0, 300.0  # deadlines of one request and of all
_OK = range(200, 300)
_HEADERS = {"user-agent": "wheelsmith-doctor"}


class OutOfTimeError(Exception):
    """The examination exceeded its time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its response, after redirects.

    :param url: the requested URL, without credentials.
    :param sent: the request headers.
    :param status: the HTTP status, or 0 if there was no response.
    :param headers: the response headers, with names in lower case.
    :param truncated: True if the response is longer than ``body``.
    :param final: the URL after redirects. Links on a page are relative to it.
    :param failure: the reason if there was no response.
    """

    url: str
    sent: Mapping[str, str] = field(default_factory=dict)
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    truncated: bool = False
    final: str = ""
    failure: str | None = None

    @property
    def ok(self) -> bool:
        """Return True if the server sent the file."""
        return self.failure is None and self.status in _OK

    @property
    def media(self) -> str:
        """Return the content type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def answer(self) -> str:
        """Return the status, or the reason if there was no response."""
        return self.failure or str(self.status)

    @property
    def command(self) -> str:
        """Return a curl command that sends the same request."""
        headers = [part for name, value in self.sent.items() for part in ("-H", f"{name}: {value}")]
        return shlex.join(["curl", "-sSL", "-D", "-", "-o", "/dev/null", *headers, self.url])


class IndexClient:
    """Sends requests to an index. Repeated requests return the first response.

    The user's credentials are sent to the index's own origin only.

    :param url: URL of the index, may contain credentials.
    :raises PackageIndexError: the URL is not an http or https URL.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = httpx.URL(url)
        except httpx.InvalidURL:
            parts = httpx.URL("")
        if is_ambiguous(url) or parts.scheme not in {"http", "https"} or not parts.host:
            remedy = AMBIGUOUS if is_ambiguous(url) else "name one that begins with https:// or http://"
            raise PackageIndexError(f"{visible(redact(url))} is not the URL of a live index", remedy=remedy)
        self.url = f"{redact(url).rstrip('/')}/"
        self.requests = 0
        self._origin = _origin(parts)
        self._userinfo = parts.userinfo or _netrc_credentials(parts.host)
        self._deadline = time.monotonic() + _SECONDS
        self._tls = httpx.create_ssl_context()  # shared by all requests, because reading the certificates is slow
        self._exchanges: dict[tuple[object, ...], Exchange] = {}

    def get(self, url: str, limit: int, **headers: str) -> Exchange:
        """Send a GET request and read at most ``limit`` bytes of the response.

        :param headers: request headers, with underscores instead of hyphens.
        :raises OutOfTimeError: the examination exceeded its time limit.
        """
        key = (url, limit, *headers.items())
        if key not in self._exchanges:
            if time.monotonic() > self._deadline:
                raise OutOfTimeError(f"the time limit of {show_duration(_SECONDS)} was reached")
            sent = {"accept-encoding": "identity", **{name.replace("_", "-"): text for name, text in headers.items()}}
            self._exchanges[key] = self._send(Exchange(url=redact(url), final=redact(url), sent=sent), url, limit)
        return self._exchanges[key]

    def _send(self, exchange: Exchange, url: str, limit: int) -> Exchange:
        self.requests += 1
        try:
            address = httpx.URL(url)
            if self._userinfo and _origin(address) == self._origin:
                address = address.copy_with(userinfo=self._userinfo)
            with (
                httpx.Client(verify=self._tls, timeout=_REQUEST_SECONDS, headers=_HEADERS) as client,
                deadline(client, _REQUEST_SECONDS),
                open_response(client, str(address), exchange.sent) as response,
            ):
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > limit:
                        break
        except (*REQUEST_ERRORS, ValueError, RuntimeError) as error:
            return replace(exchange, failure=failure_reason(error))
        return replace(
            exchange,
            status=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            body=bytes(body[:limit]),
            truncated=len(body) > limit,
            final=str(response.url.copy_with(userinfo=b"")),
        )


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _netrc_credentials(host: str) -> bytes:
    """Return the credentials that pip, uv and curl take from the user's .netrc."""
    try:
        found = netrc.netrc(os.environ.get("NETRC")).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return b""
    return httpx.URL("https://h", username=found[0], password=found[2] or "").userinfo if found else b""
