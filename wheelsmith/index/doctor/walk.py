"""Go through a live index as installers do, and judge what came back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from packaging.utils import canonicalize_name, is_normalized_name

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.redact import redact
from wheelsmith.index.doctor.caching import judge_page_caching, judge_wheel_caching
from wheelsmith.index.doctor.contents import judge_contents
from wheelsmith.index.doctor.exchange import BROWSER_ACCEPT, PIP_ACCEPT, UV_ACCEPT, Exchange
from wheelsmith.index.doctor.fetch import FetchBounds, Fetcher, RequestLimitError, fetching
from wheelsmith.index.doctor.finding import BOTH, Diagnosis, IndexFinding, Severity, finding, merged
from wheelsmith.index.doctor.hosts import host_of
from wheelsmith.index.doctor.names import VARIANTS, variant_of, wheel_of
from wheelsmith.index.doctor.page import MOST_LINKS, Link, Page, guess_page
from wheelsmith.index.doctor.reach import judge_absent, judge_reach, judge_transport
from wheelsmith.index.doctor.visit import PageVisit, WheelVisit
from wheelsmith.index.doctor.wheels import UnreadableWheelError, judge_variants, judge_wheel, metadata_of

_EVERYTHING = "simple"
_PLATFORM = re.compile(r"cpu|xpu|cu\d+|rocm\d[\d.]*")
# Nobody has a project of this name.
_ABSENT = "wheelsmith-doctor-asks-for-what-is-not-there"
_NEVER = '"wheelsmith-doctor"'
_SMALL = 256 * 1024  # bytes: a side-car or a state is smaller, and the start of a wheel tells enough
_END = 2 * 2**20  # bytes: METADATA stands at the end of a wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkScope:
    """What of an index is looked at.

    :param roots: names beneath the URL, such as ``cu130``; none: those that can be found.
    :param projects: names; none: the first of each root.
    :param most_projects: how many of each root, where none are named.
    :param most_wheels: how many of each project.
    """

    roots: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    most_projects: int = 3
    most_wheels: int = 2


def examine(url: str, scope: WalkScope | None = None, bounds: FetchBounds | None = None) -> Diagnosis:
    """Look at a live index and say what is wrong with it; nothing is changed, and little is fetched.

    :param url: of the index or of one of its roots; credentials in it are used and shown nowhere.
    :raises PackageIndexError: it is no URL, or nothing answers there.
    """
    with fetching(url, bounds or FetchBounds()) as fetcher:
        walk = _IndexWalk(fetcher, _folder(redact(url)), scope or WalkScope(), bounds or FetchBounds())
        return walk.go()


class _IndexWalk:
    """One look: what was seen so far."""

    def __init__(self, fetcher: Fetcher, url: str, scope: WalkScope, bounds: FetchBounds) -> None:
        self._fetcher = fetcher
        self._url = url
        self._scope = scope
        self._bounds = bounds
        self._findings: list[IndexFinding] = []
        self._unexamined: list[str] = []
        self._roots: list[str] = []
        self._seen_wheels: set[str] = set()
        self._platforms: set[str] = set()
        self._names: list[str] = []
        self._pages = 0

    def go(self) -> Diagnosis:
        first = Exchange(url=self._url)
        try:
            first = self._fetcher.page(self._url, accept=BROWSER_ACCEPT)
            if first.failure and not first.hops:
                raise PackageIndexError(
                    f"{self._url} cannot be reached: {first.failure}", remedy="fix the URL or the network"
                )
            self._findings += judge_transport(self._url, first)
            self._all_roots()
            if not self._names:
                message = "no page of a project was found, so next to nothing was judged"
                self._findings.append(finding("no-project", Severity.ERROR, message, first, BOTH))
        except RequestLimitError as spent:
            self._unexamined.append(f"the rest: {spent}")
        return Diagnosis(
            url=self._url,
            host=host_of(first),
            findings=merged(self._findings),
            roots=tuple(self._roots),
            pages=self._pages,
            wheels=len(self._seen_wheels),
            requests=self._fetcher.requests,
            unexamined=tuple(dict.fromkeys(self._unexamined)),
        )

    def _all_roots(self) -> None:
        if self._scope.roots:
            for name in self._scope.roots:
                self._root(f"{self._url}{name.strip('/')}/")
            self._site(self._url)
            return
        if self._is_root(self._url):
            self._root(self._url)
            return
        simple = f"{self._url}{_EVERYTHING}/"
        if not (self._ask(simple).ok or self._fetcher.page(f"{simple}index.html", accept=PIP_ACCEPT).ok):
            # An index of its own making, whose root has another name.
            self._root(self._url)
            return
        self._root(simple)
        for platform in sorted(self._platforms):
            self._root(f"{self._url}{platform}/")
        self._site(self._url)

    def _is_root(self, url: str) -> bool:
        name = urlsplit(url).path.rstrip("/").rpartition("/")[2]
        return name == _EVERYTHING or _PLATFORM.fullmatch(name) is not None

    def _root(self, root: str) -> None:
        visit = self._visit(root, None)
        self._judge(judge_reach(visit), judge_page_caching(visit))
        if visit.pip.ok:
            self._roots.append(root)
        projects = self._scope.projects or self._listed(visit)
        if not projects:
            self._unexamined.append(f"{root}: no project is known there; name one with --project")
        answered = [self._project(f"{root}{canonicalize_name(name)}/", name) for name in projects]
        if any(answered):
            self._judge(judge_absent(self._ask(f"{root}{_ABSENT}/")))

    def _listed(self, visit: PageVisit) -> tuple[str, ...]:
        shown = visit.inside if visit.inside is not None and visit.inside.ok else visit.pip
        # A list may be too long to be read as JSON; HTML can be read as far as it goes.
        page = (guess_page(shown) or guess_page(visit.html)) if shown.ok else None
        names = page.names if page else ()
        if visit.pip.truncated:
            self._unexamined.append(f"{visit.pip.url}: only the first {self._bounds.page // 2**20} MiB were read")
        strange = [name for name in names if not is_normalized_name(canonicalize_name(name))]
        if strange:
            message = f"the list of projects has {strange[0][:60]!r}, which is no project's name"
            self._findings.append(finding("project-name", Severity.WARNING, message, visit.pip, ("mirrors",)))
        honest = (name for name in names if is_normalized_name(canonicalize_name(name)))
        return tuple(dict.fromkeys(honest))[: self._scope.most_projects]

    def _project(self, url: str, name: str) -> bool:
        self._names.append(canonicalize_name(name))
        visit = self._visit(url, name)
        self._judge(judge_reach(visit), judge_page_caching(visit), judge_contents(visit))
        if not visit.pip.ok:
            return False
        self._pages += 1
        if visit.pip.truncated:
            self._unexamined.append(f"{url}: it is larger than {self._bounds.page // 2**20} MiB")
        page = guess_page(visit.pip) or guess_page(visit.html)
        if page is not None:
            if page.cut:
                self._unexamined.append(f"{url}: all but its first {MOST_LINKS} links")
            self._platforms |= _platforms(page)
            self._wheels(page, visit.pip)
        return True

    def _wheels(self, page: Page, shown: Exchange) -> None:
        described = (link for link in page.links if link.filename.endswith(VARIANTS))
        for link in (item for item in described if item.scheme in {"http", "https"}):
            self._judge(judge_variants(link, self._fetcher.file(link.url, most=_SMALL * 8)))
            break
        for link in _sample(page.links, self._scope.most_wheels):
            if link.url in self._seen_wheels:
                continue
            wheel = self._visit_wheel(link, shown.final)
            self._seen_wheels.add(link.url)
            self._judge(judge_wheel(wheel), judge_wheel_caching(wheel))
            if wheel.whole.ok and wheel.whole.truncated:
                self._unexamined.append(f"{link.filename}: its hash, for it was not fetched whole")
                try:
                    metadata_of(wheel)
                except UnreadableWheelError as error:
                    self._unexamined.append(f"{link.filename}: its METADATA: {error}")

    def _site(self, site: str) -> None:
        """Look at what is there beside the roots: the pages for people, and what nobody needs to see."""
        for url in (site, *(f"{site}{name}/" for name in self._names[:1])):
            page = self._fetcher.page(url, accept=BROWSER_ACCEPT)
            if page.ok and page.media != "text/html":
                message = f"pages for people are sent as {page.media[:60] or 'nothing that browsers know'}"
                self._findings.append(finding("page-for-people", Severity.WARNING, message, page, ("browsers",)))
        state = self._fetcher.page(f"{site}_state/.listing.json")
        if state.ok and _is_json(state):
            message = "the index's state is public: with it wheels that are listed nowhere, and the ends of failed logs"
            self._findings.append(finding("state", Severity.ADVICE, message, state, ("publishers",)))

    def _visit(self, url: str, project: str | None) -> PageVisit:
        asked = self._ask(url)
        uv = self._fetcher.page(url, accept=UV_ACCEPT)
        html = self._fetcher.page(url, accept="text/html")
        if not asked.ok:
            inside = self._fetcher.page(f"{url}index.html", accept=PIP_ACCEPT)
            return PageVisit(project=project, pip=asked, uv=uv, html=html, inside=inside)
        bare = None
        if urlsplit(url).path != "/":
            bare = self._fetcher.page(url.removesuffix("/"), accept=PIP_ACCEPT)
        again = changed = None
        if tag := asked.headers.get("etag"):
            again = self._fetcher.page(url, accept=PIP_ACCEPT, if_none_match=tag)
            changed = self._fetcher.page(url, accept=PIP_ACCEPT, if_none_match=_NEVER)
        elif since := asked.headers.get("last-modified"):
            again = self._fetcher.page(url, accept=PIP_ACCEPT, if_modified_since=since)
        return PageVisit(project=project, pip=asked, uv=uv, html=html, bare=bare, again=again, changed=changed)

    def _visit_wheel(self, link: Link, page: str) -> WheelVisit:
        # pip writes + as %2B whatever the page has; uv asks for what the page has.
        quoted = _escaped(link.url)
        raw = self._fetcher.head(link.url) if quoted != link.url else None
        head = self._fetcher.head(quoted)
        whole = self._fetcher.file(quoted, most=self._bounds.file)
        if not whole.ok:
            return WheelVisit(link=link, page=page, head=head, whole=whole, raw=raw)
        last = _END if whole.truncated else max(1, len(whole.body) // 2)
        return WheelVisit(
            link=link,
            page=page,
            head=head,
            whole=whole,
            end=self._fetcher.file(quoted, most=last, range=f"bytes=-{last}"),
            start=self._fetcher.file(quoted, most=_SMALL, range="bytes=0-99"),
            side_car=self._fetcher.file(_beside(quoted), most=_SMALL * 8),
            raw=raw,
        )

    def _ask(self, url: str) -> Exchange:
        return self._fetcher.page(url, accept=PIP_ACCEPT)

    def _judge(self, *judgements: Iterable[IndexFinding]) -> None:
        for findings in judgements:
            self._findings += findings


def _platforms(page: Page) -> set[str]:
    """Return the compute platforms that have roots of their own: from the cells of our index, else from versions."""
    words = {word for cell in page.cells for word in cell.split("-")}
    words |= {link.filename.partition("+")[2].partition("-")[0].partition(".")[0] for link in page.links}
    return {word for word in words if _PLATFORM.fullmatch(word)}


def _sample(links: tuple[Link, ...], most: int) -> list[Link]:
    """Choose wheels to look at: one whose name has +, a variant, the newest, the oldest, and so on."""
    wheels = []
    for link in links:
        named = wheel_of(link.filename) or variant_of(link.filename)
        if named and link.scheme in {"http", "https"}:
            wheels.append((named[1], link))
    ordered = [link for _, link in sorted(wheels, key=lambda item: item[0])]
    plus = [link for link in reversed(ordered) if "+" in link.filename and not variant_of(link.filename)]
    variants = [link for link in reversed(ordered) if variant_of(link.filename)]
    chosen = [*plus[:1], *variants[:1], *ordered[-1:], *ordered]
    return list({link.url: link for link in chosen}.values())[:most]


def _folder(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + "/", "", ""))


def _escaped(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.replace("+", "%2B")))


def _beside(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path}.metadata"))


def _is_json(exchange: Exchange) -> bool:
    try:
        return isinstance(json.loads(exchange.body), dict)
    except (ValueError, RecursionError):
        return False
