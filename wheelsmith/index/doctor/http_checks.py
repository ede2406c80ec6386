"""Check that installers reach a page, accept its type and see changes of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from wheelsmith.index.doctor.finding import IndexFinding, Severity, finding
from wheelsmith.index.doctor.http_exchange import JSON, Exchange

ACCEPTED = ("text/html", "application/vnd.pypi.simple.v1+html", JSON)
_NOT_FOUND = 404
_REFUSED = (401, 403)
_DAY = 86_400  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PageExchanges:
    """Requests for one page.

    :param pip: with pip's Accept header; ``html``: with Accept: text/html.
    :param inside: for ``index.html``, if the page itself is missing.
    """

    pip: Exchange
    html: Exchange
    inside: Exchange | None = None


def check_page(page: PageExchanges, what: str, severity: Severity) -> Iterator[IndexFinding]:
    """Check the responses for a page, but not its content.

    :param what: the page in words.
    :param severity: of a page that cannot be read; installers do not read the list of projects.
    """
    if not page.pip.ok:
        yield _missing(page, what, severity)
        return
    # uv compares the text before the semicolon as it is, pip ignores case.
    media = page.pip.headers.get("content-type", "").split(";")[0]
    if media not in ACCEPTED:
        yield finding("content-type", page.pip, severity=severity, media=media or "no content type")
    else:
        yield from _check_negotiation(page)
    if urlsplit(page.pip.url).scheme == "https" and urlsplit(page.pip.final).scheme == "http":
        yield finding("downgrade", page.pip)
    if not urlsplit(page.pip.final).path.endswith("/"):
        yield finding("slash-dropped", page.pip)
    yield from _check_caching(page.pip)


def check_transport(url: str, exchange: Exchange) -> Iterator[IndexFinding]:
    """Check that pip trusts the connection."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_local(parts.hostname or ""):
        yield finding("no-tls", exchange)


def check_absent(exchange: Exchange) -> Iterator[IndexFinding]:
    """Check the response for a project that the index does not have."""
    if exchange.status != _NOT_FOUND:
        yield finding("absent-project", exchange, answer=exchange.answer)


def check_wheel_caching(wheel: Exchange) -> Iterator[IndexFinding]:
    """Check that caches keep a wheel, which never changes."""
    given = _cache_control(wheel)
    seconds = _max_age(given)
    if given.keys() & {"no-store", "no-cache"} or seconds is None or seconds < _DAY:
        refused = given.keys() & {"no-store", "no-cache"}
        control = wheel.headers.get("cache-control", "")
        yield finding("wheel-caching", wheel, severity=None if refused else Severity.ADVICE, control=control)


def _missing(page: PageExchanges, what: str, severity: Severity) -> IndexFinding:
    rule = "refused" if page.pip.status in _REFUSED else "page-missing"
    rule = "no-answer" if page.pip.failure else "folder-index" if page.inside and page.inside.ok else rule
    return finding(rule, page.pip, severity=severity, what=what, answer=page.pip.answer)


def _check_negotiation(page: PageExchanges) -> Iterator[IndexFinding]:
    if page.html.ok and page.html.media != page.pip.media:
        for exchange in (page.pip, page.html):
            vary = {name.strip().lower() for name in exchange.headers.get("vary", "").split(",")}
            if not vary & {"accept", "*"}:
                yield finding("vary", exchange)
                return
    elif page.pip.media != JSON:
        yield finding("no-json", page.pip)


def _check_caching(page: Exchange) -> Iterator[IndexFinding]:
    given = _cache_control(page)
    seconds = _max_age(given)
    if "no-store" in given:
        yield finding("no-store", page)
        return
    if "etag" not in page.headers:
        yield finding("no-validator", page)
    if "no-cache" in given or seconds == 0:
        return
    elif seconds:
        yield finding("stale-pages", page, seconds=f"{seconds} s")
    elif "expires" in page.headers:
        yield finding("stale-pages", page, seconds="as long as Expires says")
    elif "last-modified" in page.headers:
        yield finding("stale-pages", page, seconds="600 s (uv's guess without Cache-Control)")


def _cache_control(exchange: Exchange) -> dict[str, str]:
    """Return the directives of Cache-Control, with their values or empty texts."""
    parts = (part.strip().partition("=") for part in exchange.headers.get("cache-control", "").lower().split(","))
    return {name.strip(): value.strip().strip('"') for name, _, value in parts if name.strip()}


def _max_age(directives: dict[str, str]) -> int | None:
    text = directives.get("max-age", "")[:12]
    return int(text) if text.isascii() and text.isdigit() else None


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
