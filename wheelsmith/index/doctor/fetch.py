"""Requests that cannot run away: few, short and small, whatever the other side does."""

from __future__ import annotations

import netrc
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from wheelsmith.base.deadline import TooSlowError, ended_after
from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.redact import AMBIGUOUS, is_ambiguous, redact
from wheelsmith.base.sanitize import visible
from wheelsmith.index.doctor.exchange import Exchange, Origin, origin

if TYPE_CHECKING:
    import httpx

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 10  # as uv; pip follows 30
_SHOWN = ("accept", "accept-encoding", "range", "if-none-match", "if-modified-since")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchBounds:
    """The most that a look at an index may cost.

    :param requests: in all, redirects counted.
    :param page: bytes of a page once decompressed.
    :param file: bytes of a wheel that is fetched whole; of a larger one only the end is.
    :param total: bytes in all.
    :param patience: seconds for one request.
    :param time: seconds in all.
    """

    requests: int = 500
    page: int = 8 * 2**20
    file: int = 64 * 2**20
    total: int = 512 * 2**20
    patience: float = 20.0
    time: float = 300.0


class RequestLimitError(Exception):
    """A bound is reached; the text says which."""


class Fetcher:
    """Asks each question once, and keeps the account."""

    def __init__(
        self,
        open_client: Callable[[], httpx.Client],
        bounds: FetchBounds,
        credentials: tuple[str, str] | None,
        home: Origin,
    ) -> None:
        self._open = open_client
        self._client = open_client()
        self._bounds = bounds
        self._credentials = credentials
        self._home = home
        self._deadline = time.monotonic() + bounds.time
        self._known: dict[tuple[object, ...], Exchange] = {}
        self._bytes = 0
        self.requests = 0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def page(self, url: str, **headers: str) -> Exchange:
        """Ask for a page, as installers do: compressed if the server likes.

        :raises RequestLimitError: a bound is reached.
        """
        sent = {"accept-encoding": "gzip, deflate", **_named(headers)}
        return self._once("GET", url, sent, self._bounds.page, decoded=True)

    def file(self, url: str, *, most: int, **headers: str) -> Exchange:
        """Ask for a file, as installers do: as it is. At most ``most`` bytes of it are kept.

        :raises RequestLimitError: a bound is reached.
        """
        return self._once("GET", url, {"accept-encoding": "identity", **_named(headers)}, most, decoded=False)

    def head(self, url: str) -> Exchange:
        """Ask for the headers of a file.

        :raises RequestLimitError: a bound is reached.
        """
        return self._once("HEAD", url, {"accept-encoding": "identity"}, 0, decoded=False)

    def _once(self, method: str, url: str, sent: dict[str, str], most: int, *, decoded: bool) -> Exchange:
        key = (method, url, tuple(sent.items()), most)
        if key not in self._known:
            self._known[key] = self._follow(method, url, sent, most, decoded=decoded)
        return self._known[key]

    def _follow(self, method: str, url: str, sent: dict[str, str], most: int, *, decoded: bool) -> Exchange:
        shown = {name: value for name, value in sent.items() if name in _SHOWN}
        record = Exchange(url=redact(url), method=method, sent=shown)
        hops: list[str] = []
        here, headers = url, record.headers
        for _ in range(_MOST_REDIRECTS + 1):
            answer, location = self._ask(replace(record, hops=tuple(hops)), here, sent, most, decoded=decoded)
            if location is None:
                # Who redirected tells the host, where nobody answers.
                return answer if answer.headers else replace(answer, headers=headers)
            headers = answer.headers
            try:
                here = urljoin(here, location)
                hops.append(redact(here))
            except ValueError:
                return replace(answer, failure="it redirects to what is no URL")
        return replace(record, hops=tuple(hops), headers=headers, failure="it redirects without end")

    def _ask(
        self, record: Exchange, url: str, sent: Mapping[str, str], most: int, *, decoded: bool
    ) -> tuple[Exchange, str | None]:
        import httpx

        self._account()
        try:
            scheme = urlsplit(url).scheme
            if scheme not in {"http", "https"}:
                return replace(record, failure=f"it redirects to {scheme}:, which is not the web"), None
            # Credentials go where the user sent them, and nowhere that a page or a redirect names.
            credentials = self._credentials if origin(url) == self._home else None
            if self._client.is_closed:
                self._client = self._open()
            with (
                # The headers, and then the body, which has its own end.
                ended_after(self._client, 2 * self._bounds.patience),
                self._client.stream(record.method, url, headers=dict(sent), auth=credentials) as response,
            ):
                status, headers = response.status_code, {k.lower(): v for k, v in response.headers.items()}
                if status in _REDIRECTS and (location := headers.get("location")) is not None:
                    return replace(record, status=status, headers=headers), location
                # Without a size of its own, each chunk comes as it arrives, so that a drip is noticed.
                chunks = response.iter_bytes() if decoded else response.iter_raw()
                body, truncated = self._read(chunks, most)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, TooSlowError) as error:
            return replace(record, failure=_reason(error)), None
        return replace(record, status=status, headers=headers, body=body, truncated=truncated), None

    def _read(self, chunks: Iterator[bytes], most: int) -> tuple[bytes, bool]:
        """Return what comes while the bounds last, and whether there was more."""
        deadline, kept = time.monotonic() + self._bounds.patience, bytearray()
        for chunk in chunks:
            self._bytes += len(chunk)
            if len(kept) + len(chunk) > most:
                return bytes(kept + chunk[: most - len(kept)]), True
            kept += chunk
            if time.monotonic() > deadline:
                return bytes(kept), True
        return bytes(kept), False

    def _account(self) -> None:
        if self.requests >= self._bounds.requests:
            raise RequestLimitError(f"{self._bounds.requests} requests were made")
        if self._bytes >= self._bounds.total:
            raise RequestLimitError(f"{self._bounds.total // 2**20} MiB were read")
        if time.monotonic() > self._deadline:
            raise RequestLimitError(f"{self._bounds.time:g} s went by")
        self.requests += 1


@contextmanager
def fetching(url: str, bounds: FetchBounds) -> Iterator[Fetcher]:
    """Open a way to an index, with the credentials that its URL holds, and the user's proxies and certificates.

    :raises PackageIndexError: it is no URL of the web.
    """
    import httpx

    parts, home = _parsed(url)
    credentials = (parts.username, parts.password) if parts.username or parts.password else _netrc(parts.host)
    headers = {"user-agent": "wheelsmith-doctor", "accept": "*/*"}

    def open_client() -> httpx.Client:
        return httpx.Client(timeout=bounds.patience, follow_redirects=False, headers=headers)

    fetcher = Fetcher(open_client, bounds, credentials, home)
    try:
        yield fetcher
    finally:
        fetcher.close()


def _parsed(url: str) -> tuple[httpx.URL, Origin]:
    """Return the parts of a URL of the web, and its origin.

    :raises PackageIndexError: it is none.
    """
    import httpx

    shown = visible(redact(url))
    try:
        parts, home = httpx.URL(url), origin(redact(url))
    except (httpx.InvalidURL, ValueError):
        raise PackageIndexError(f"{shown} is no URL") from None
    if is_ambiguous(url) or parts.scheme not in {"http", "https"} or not parts.host:
        remedy = AMBIGUOUS if is_ambiguous(url) else "name one that begins with https:// or http://"
        raise PackageIndexError(f"{shown} is no URL of a live index", remedy=remedy)
    return parts, home


def _netrc(host: str) -> tuple[str, str] | None:
    """Return the credentials that pip, uv and curl would take from the user's .netrc."""
    try:
        found = netrc.netrc(os.environ.get("NETRC")).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return (found[0], found[2] or "") if found else None


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _reason(error: Exception) -> str:
    # httpx's own text may be empty, as for a time-out.
    return redact(str(error)) or type(error).__name__
