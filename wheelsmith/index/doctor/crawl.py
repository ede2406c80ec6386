"""Visit the pages and wheels of a live index as installers do."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.projects import is_known_project
from wheelsmith.base.units import show_binary_size
from wheelsmith.index.doctor.finding import Diagnosis, IndexFinding, Severity, finding, host_of, merge_findings
from wheelsmith.index.doctor.http_exchange import MAX_PAGE, PIP_ACCEPT, Exchange, IndexClient, OutOfTimeError
from wheelsmith.index.doctor.pages import (
    MAX_METADATA,
    PLATFORM,
    PageFile,
    UnreadablePageError,
    check_absent,
    check_metadata_file,
    check_page,
    check_platforms,
    check_project,
    check_range_request,
    check_requirements,
    check_transport,
    check_wheel,
    read_projects,
    read_wheels,
)

_ABSENT_PROJECT = "wheelsmith-doctor-requests-an-absent-project"
_MAX_WHEEL = 64 * 2**20  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlScope:
    """The parts of an index to examine.

    :param roots: names of roots below the URL, such as ``cu130``. If empty, all roots found are examined.
    :param projects: names of projects. If empty, the first projects of each root are examined.
    :param max_projects: maximum number of projects per root if ``projects`` is empty.
    :param max_wheels: maximum number of wheels per project.
    """

    roots: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    max_projects: int = 3
    max_wheels: int = 2


def examine(url: str, scope: CrawlScope | None = None) -> Diagnosis:
    """Examine a live index. This changes nothing and downloads little.

    :param url: URL of the index or of one of its roots. Credentials in it are used but never shown.
    :raises PackageIndexError: the URL is invalid or cannot be reached.
    """
    return _Crawl(IndexClient(url), scope or CrawlScope()).run()


class _Crawl:
    """One examination and its findings so far."""

    def __init__(self, client: IndexClient, scope: CrawlScope) -> None:
        self._client = client
        self._scope = scope
        self._findings: list[IndexFinding] = []
        self._unexamined: dict[str, None] = {}
        self._roots: list[str] = []
        self._platforms: set[str] = set()
        self._wheels: set[str] = set()
        self._pages = 0
        self._is_empty = True

    def run(self) -> Diagnosis:
        url = self._client.url
        first = Exchange(url=url, final=url)
        try:
            first = self._client.get(url, MAX_PAGE, accept="text/html")
            if first.failure:
                raise PackageIndexError(f"{url} cannot be reached: {first.failure}", remedy="fix the URL")
            self._add(check_transport(url, first))
            self._visit_roots(url)
            if self._is_empty:
                self._add([finding("no-project", first)])
        except OutOfTimeError as error:
            self._unexamined[f"the rest: {error}"] = None
        return Diagnosis(
            url=url,
            host=host_of(first),
            findings=merge_findings(self._findings),
            roots=tuple(self._roots),
            pages=self._pages,
            wheels=len(self._wheels),
            requests=self._client.requests,
            unexamined=tuple(self._unexamined),
        )

    def _visit_roots(self, url: str) -> None:
        if self._scope.roots:
            for name in self._scope.roots:
                self._visit_root(f"{url}{name.strip('/')}/")
        elif _is_root(url) or not any(
            self._client.get(f"{url}simple/{name}", MAX_PAGE, accept=PIP_ACCEPT).ok for name in ("", "index.html")
        ):
            self._visit_root(url)
            return
        else:
            self._visit_root(f"{url}simple/")
            for platform in sorted(self._platforms):
                self._visit_root(f"{url}{platform}/")
        state = self._client.get(f"{url}_state/.listing.json", MAX_PAGE)
        if state.ok and state.body.lstrip()[:1] == b"{":
            self._add([finding("state", state)])

    def _visit_root(self, root: str) -> None:
        page, *others = self._check_page(root, "the list of projects", Severity.WARNING)
        if page.ok:
            self._roots.append(root)
        projects = self._scope.projects or self._listed_projects(page, *others)
        if not projects:
            self._unexamined[f"{root}: no project was found; name one with --project"] = None
            return
        self._is_empty = False
        visited = [self._visit_project(root, canonicalize_name(name)) for name in projects]
        if any(visited):
            self._add(check_absent(self._client.get(f"{root}{_ABSENT_PROJECT}/", MAX_PAGE, accept=PIP_ACCEPT)))

    def _listed_projects(self, *pages: Exchange) -> tuple[str, ...]:
        """Return the first projects of a root, copies of PyPI's first, from the first readable form of its list."""
        for exchange in pages:
            if exchange.ok:
                with suppress(UnreadablePageError):
                    copies_first = sorted(read_projects(exchange), key=is_known_project, reverse=True)
                    return tuple(copies_first[: self._scope.max_projects])
        return ()

    def _visit_project(self, root: str, project: str) -> bool:
        page, *_ = self._check_page(f"{root}{project}/", "the page of a project", Severity.ERROR)
        if not page.ok:
            return False
        self._pages += 1
        if page.truncated:
            self._unexamined[f"{page.url}: it is larger than {show_binary_size(MAX_PAGE)}"] = None
            return True
        try:
            wheels = read_wheels(page, project)
        except UnreadablePageError as error:
            self._add([finding("unreadable-page", page, reason=error)])
            return True
        self._platforms.update(*(file.platforms for file in wheels))
        known = [file for file in wheels if file.yanked in {None, False}]
        self._add(check_platforms(page, urlsplit(root).path.split("/")[-2], known), check_project(page, project, known))
        self._add(check_requirements(page, known, self._client))
        for file in _sample_wheels(wheels, self._scope.max_wheels):
            if file.url not in self._wheels:
                self._wheels.add(file.url)
                self._visit_wheel(file)
        return True

    def _visit_wheel(self, file: PageFile) -> None:
        url = file.quoted_url
        raw = self._client.get(file.url, 0) if url != file.url else None
        whole = self._client.get(url, _MAX_WHEEL)
        self._add(check_wheel(whole, raw, file))
        if whole.truncated:
            self._unexamined[f"{file.filename}: its hash, because it is larger than {show_binary_size(_MAX_WHEEL)}"] = (
                None
            )
        if whole.ok and whole.headers.get("content-encoding", "identity") == "identity":
            self._add(check_range_request(whole, self._client.get(url, _MAX_WHEEL, range="bytes=0-99")))
            self._add(check_metadata_file(self._client.get(file.metadata_url, MAX_METADATA), file))

    def _check_page(self, url: str, description: str, severity: Severity) -> list[Exchange]:
        """Check a page. Return the response to pip first, then other responses that may contain the page."""
        pip = self._client.get(url, MAX_PAGE, accept=PIP_ACCEPT)
        inside = None if pip.ok else self._client.get(f"{url}index.html", MAX_PAGE, accept=PIP_ACCEPT)
        html = self._client.get(url, MAX_PAGE, accept="text/html")
        self._add(check_page(pip, html, inside, description, severity))
        return [pip, *([inside] if inside else []), html]

    def _add(self, *findings: Iterable[IndexFinding]) -> None:
        for each in findings:
            self._findings += each


def _is_root(url: str) -> bool:
    name = urlsplit(url).path.rstrip("/").rpartition("/")[2]
    return name == "simple" or PLATFORM.fullmatch(name) is not None


def _sample_wheels(files: tuple[PageFile, ...], count: int) -> list[PageFile]:
    """Return the wheels to download: one with ``+`` in its name, one variant wheel, then the newest."""
    wheels = [(file.wheel, file) for file in files if file.wheel and urlsplit(file.url).scheme in {"http", "https"}]
    newest = sorted(wheels, key=lambda item: item[0].version, reverse=True)
    plus = [file for name, file in newest if "+" in file.filename and not name.label]
    variants = [file for name, file in newest if name.label]
    chosen = [*plus[:1], *variants[:1], *(file for _, file in newest)]
    return list({file.url: file for file in chosen}.values())[:count]
