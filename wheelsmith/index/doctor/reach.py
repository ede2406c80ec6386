"""Judge whether installers reach a page, and get it as something that they read."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

from wheelsmith.index.doctor.exchange import ACCEPTED, JSON, Exchange, origin
from wheelsmith.index.doctor.finding import BOTH, PIP, UV, IndexFinding, Severity, finding
from wheelsmith.index.doctor.page import Page, UnreadablePageError, read_page
from wheelsmith.index.doctor.visit import PageVisit

_REFUSED = (401, 403)
_NOT_FOUND = 404
_DECODED = ("", "identity", "gzip", "deflate")


def judge_reach(visit: PageVisit) -> Iterator[IndexFinding]:
    """Judge whether the page comes, as what, and from where."""
    if not visit.pip.ok:
        yield _missing(visit)
        return
    yield from _judge_type(visit)
    yield from _judge_negotiation(visit)
    yield from _judge_slash(visit)
    yield from _judge_redirects(visit.pip)


def judge_transport(url: str, shown: Exchange) -> Iterator[IndexFinding]:
    """Judge whether pip trusts the way to the index."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_local(parts.hostname or ""):
        message = "the index is served without TLS: pip ignores it unless --trusted-host names its host"
        yield finding("no-tls", Severity.ERROR, message, shown, (PIP,))


def judge_absent(asked: Exchange) -> Iterator[IndexFinding]:
    """Judge the answer for a project that the index does not have: only 404 lets uv look into its next index."""
    if asked.status == _NOT_FOUND:
        return
    if asked.failure:
        yield finding("absent-project", Severity.ERROR, f"a project that is not there: {asked.failure}", asked, BOTH)
    elif asked.ok:
        message = f"a project that is not there is answered with {asked.status}, and so taken for one without files"
        yield finding("absent-project", Severity.ERROR, message, asked, (UV,))
    else:
        message = (
            f"a project that is not there is answered with {asked.status}: uv stops there, and asks no other index"
        )
        yield finding("absent-project", Severity.ERROR, message, asked, (UV,))


def readable(exchange: Exchange) -> Page | None:
    """Return the page, or None where another judgement says why there is none."""
    try:
        return read_page(exchange) if exchange.ok and not exchange.truncated else None
    except UnreadablePageError:
        return None


def is_downgraded(exchange: Exchange) -> bool:
    """Say whether a redirect left https."""
    schemes = [urlsplit(url).scheme for url in (exchange.url, *exchange.hops)]
    return "https" in schemes and "http" in schemes[schemes.index("https") :]


def _missing(visit: PageVisit) -> IndexFinding:
    # Nothing is installed through the list of projects; mirrors and people read it.
    severity = Severity.ERROR if visit.project else Severity.WARNING
    what, hurts = ("the page of a project", BOTH) if visit.project else ("the list of projects", ("mirrors",))
    if visit.pip.failure:
        return finding("no-answer", severity, f"{what} does not come: {visit.pip.failure}", visit.pip, hurts)
    if visit.inside is not None and visit.inside.ok:
        message = "a page is not found at its folder, only at index.html inside"
        return finding("folder-index", severity, message, visit.pip, hurts)
    if visit.pip.status in _REFUSED:
        message = f"{what} is refused with {visit.pip.status}"
        return finding("refused", severity, message, visit.pip, hurts)
    return finding("page-missing", severity, f"{what} is answered with {visit.pip.status}", visit.pip, hurts)


def _judge_type(visit: PageVisit) -> Iterator[IndexFinding]:
    hard = Severity.ERROR if visit.project else Severity.WARNING
    asked = {PIP: visit.pip, UV: visit.uv}
    refused = {client: exchange for client, exchange in asked.items() if _refuses(client, exchange)}
    if refused:
        shown = next(iter(refused.values()))
        given = shown.headers.get("content-type", "") or "no content type"
        message = f"pages are sent as {given[:100]}, which installers refuse"
        yield finding("content-type", hard, message, shown, tuple(refused))
    for exchange in asked.values():
        encoding = exchange.headers.get("content-encoding", "").lower()
        if encoding not in _DECODED:
            message = f"pages are sent in the encoding {encoding[:40]}, which was not asked for"
            yield finding("page-encoding", hard, message, exchange, BOTH)
        elif exchange.media in ACCEPTED and not exchange.truncated:
            try:
                read_page(exchange)
            except UnreadablePageError as error:
                yield finding("unreadable-page", hard, f"a page cannot be read: {error}", exchange, BOTH)


def _refuses(client: str, exchange: Exchange) -> bool:
    given = exchange.headers.get("content-type", "")
    if client == PIP:
        return not given.lower().startswith(ACCEPTED)
    # uv compares what stands before the semicolon as it is: Text/HTML and "text/html ;" are refused.
    return given.split(";")[0] not in ACCEPTED


def _judge_negotiation(visit: PageVisit) -> Iterator[IndexFinding]:
    if visit.pip.media not in ACCEPTED:
        return
    varies = {field.strip().lower() for field in visit.pip.headers.get("vary", "").split(",")}
    if visit.html.ok and visit.html.media == JSON:
        message = "who takes HTML alone is sent JSON"
        yield finding("only-json", Severity.WARNING, message, visit.html, ("pip before 22.2", "browsers"))
    negotiates = visit.html.ok and visit.pip.media != visit.html.media
    if negotiates:
        for exchange in (visit.pip, visit.html):
            vary = {field.strip().lower() for field in exchange.headers.get("vary", "").split(",")}
            if not vary & {"accept", "*"}:
                message = (
                    "the answer depends on Accept and does not say so: a cache gives HTML and JSON to the wrong clients"
                )
                yield finding("vary", Severity.WARNING, message, exchange, ("caches", "CDNs"))
                break
    elif visit.pip.media != JSON:
        message = (
            "there is no JSON: pip cannot honour --uploaded-prior-to, and newer parts of the standard have no HTML"
        )
        yield finding("no-json", Severity.ADVICE, message, visit.pip, (PIP,))
    if not negotiates and "accept" in varies:
        message = "Vary names Accept though every client gets the same: caches keep a copy for each"
        yield finding("needless-vary", Severity.ADVICE, message, visit.pip, ("caches", "CDNs"))


def _judge_slash(visit: PageVisit) -> Iterator[IndexFinding]:
    page = readable(visit.pip)
    if not urlsplit(visit.pip.final).path.endswith("/") and visit.pip.hops:
        lost = page is not None and any(_leads_elsewhere(visit.pip, link.href) for link in page.links)
        message = "a page is redirected to its URL without the slash"
        message += ", and its links lead elsewhere from there" if lost else ""
        severity = Severity.ERROR if lost else Severity.WARNING
        yield finding("slash-dropped", severity, message, visit.pip, BOTH)
        return
    bare = visit.bare
    # pip and uv add the slash themselves; who follows a link without it does not.
    others = ("--find-links", "browsers")
    if bare is None:
        return
    if not bare.ok and origin(bare.final) == origin(bare.url):
        message = f"without the slash at its end, a page is answered with {bare.answer.removeprefix('status ')}"
        yield finding("no-slash", Severity.ADVICE, message, bare, others)
    elif origin(bare.final) != origin(bare.url):
        scheme, name, port = origin(bare.final)
        message = f"without the slash at its end, a page is redirected to {scheme}://{name}{f':{port}' if port else ''}"
        yield finding("slash-redirect", Severity.WARNING, message, bare, others)
    elif (
        not urlsplit(bare.final).path.endswith("/") and page and any(_leads_elsewhere(bare, k.href) for k in page.links)
    ):
        message = "a page is served without the slash at its end too, and its links lead elsewhere from there"
        yield finding("slash-optional", Severity.WARNING, message, bare, others)


def _leads_elsewhere(exchange: Exchange, href: str) -> bool:
    try:
        return urljoin(exchange.final, href) != urljoin(exchange.final.rstrip("/") + "/", href)
    except ValueError:
        return False


def _judge_redirects(exchange: Exchange) -> Iterator[IndexFinding]:
    if is_downgraded(exchange):
        message = "a page is redirected from https to http"
        yield finding("downgrade", Severity.WARNING, message, exchange, BOTH)
    elif urlsplit(exchange.final).hostname != urlsplit(exchange.url).hostname:
        message = f"pages are redirected to {urlsplit(exchange.final).hostname}, to which credentials are not sent"
        yield finding("other-host", Severity.ADVICE, message, exchange, BOTH)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
