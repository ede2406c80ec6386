"""Judge how long installers keep what they were given: pages must be asked for again, wheels need not be.

pip from 26.2 on and uv obey these headers; both were watched doing so.
"""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.index.doctor.exchange import Exchange
from wheelsmith.index.doctor.finding import BOTH, PIP, UV, IndexFinding, Severity, finding
from wheelsmith.index.doctor.visit import PageVisit, WheelVisit

_NOT_MODIFIED = 304
_NEW_PIP = ("pip from 26.2", UV)
# Below this, compressing a page saves no round trip worth a word; bytes.
_LARGE = 100_000
# A day: shorter, and a wheel is asked for again by each pipeline that runs; seconds.
_LONG = 86_400


def directives(exchange: Exchange) -> dict[str, str]:
    """Read Cache-Control: directive → value, empty where it has none."""
    parts = (part.strip().partition("=") for part in exchange.headers.get("cache-control", "").lower().split(","))
    return {name.strip(): value.strip().strip('"') for name, _, value in parts if name.strip()}


def judge_page_caching(visit: PageVisit) -> Iterator[IndexFinding]:
    """Judge whether a new wheel is seen at once, and an unchanged page costs no transfer."""
    if not visit.pip.ok:
        return
    yield from _judge_freshness(visit.pip)
    yield from _judge_asking_again(visit)
    if not visit.pip.headers.get("content-encoding") and len(visit.pip.body) > _LARGE:
        message = "a page of more than 100 kB is sent without compression"
        yield finding("uncompressed", Severity.ADVICE, message, visit.pip, BOTH)


def _judge_freshness(page: Exchange) -> Iterator[IndexFinding]:
    given = directives(page)
    if "no-store" in given:
        message = "pages may not be kept (no-store): each run fetches all of each page"
        yield finding("no-store", Severity.WARNING, message, page, _NEW_PIP)
        return
    if "no-cache" in given:
        return
    seconds = _seconds(given)
    if seconds is not None and seconds > 0:
        message = f"pages count as fresh for {seconds} s: a new wheel is invisible for as long"
        yield finding("stale-pages", Severity.WARNING, message, page, _NEW_PIP)
    elif seconds is None and "expires" in page.headers:
        message = "pages say by Expires alone how long they are fresh: a new wheel is invisible for as long"
        yield finding("stale-pages", Severity.WARNING, message, page, _NEW_PIP)
    elif seconds is None and "last-modified" in page.headers:
        message = "pages do not say how long they are fresh: uv takes them as fresh for 600 s"
        yield finding("stale-pages", Severity.WARNING, message, page, (UV,))


def _judge_asking_again(visit: PageVisit) -> Iterator[IndexFinding]:
    if "etag" not in visit.pip.headers and "no-store" not in directives(visit.pip):
        message = "pages have no ETag: each run fetches all of each page"
        hurts = BOTH if "last-modified" not in visit.pip.headers else (PIP,)  # which asks again by ETag alone
        yield finding("no-validator", Severity.WARNING, message, visit.pip, hurts)
    if visit.changed is not None and visit.changed.status == _NOT_MODIFIED:
        message = "a page is said to be unchanged (304) whatever the client has: a new wheel is never seen"
        yield finding("always-unchanged", Severity.ERROR, message, visit.changed, BOTH)
    elif visit.again is not None and visit.again.ok:
        message = "who asks again with a page's own ETag is sent all of it, not 304"
        yield finding("never-unchanged", Severity.WARNING, message, visit.again, BOTH)
    tag = visit.pip.headers.get("etag")
    if tag and visit.html.ok and visit.html.media != visit.pip.media and visit.html.headers.get("etag") == tag:
        message = "HTML and JSON have the same ETag: a client may keep the one for the other"
        yield finding("shared-etag", Severity.WARNING, message, visit.html, BOTH)


def judge_wheel_caching(visit: WheelVisit) -> Iterator[IndexFinding]:
    """Judge whether a wheel, which never changes, is kept."""
    if not visit.whole.ok:
        return
    given = directives(visit.whole)
    seconds = _seconds(given)
    if given.keys() & {"no-store", "no-cache"}:
        word = "no-store" if "no-store" in given else "no-cache"
        message = f"wheels are sent with {word}, though a published file never changes"
        yield finding("wheel-caching", Severity.WARNING, message, visit.whole, BOTH)
    elif seconds is None:
        message = "wheels do not say how long they stay fresh: caches and CDNs must guess"
        yield finding("wheel-caching", Severity.ADVICE, message, visit.whole, ("pip", "uv", "CDNs"))
    elif seconds < _LONG:
        message = f"wheels count as fresh for {seconds} s only, though a published file never changes"
        yield finding("wheel-caching", Severity.ADVICE, message, visit.whole, ("pip", "uv", "CDNs"))


def _seconds(given: dict[str, str]) -> int | None:
    """Return max-age; one that is no number counts as none, and as a very large one what is too large."""
    text = given.get("max-age", "")
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text[:12])
