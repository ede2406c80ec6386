"""Read and check a server's responses to the requests of installers."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit

from mousebender import simple
from packaging.utils import canonicalize_name, is_normalized_name
from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wheelsmith.base.projects import is_known_project
from wheelsmith.base.units import listed
from wheelsmith.frameworks import read_local_version
from wheelsmith.index.doctor.finding import IndexFinding, Severity, finding
from wheelsmith.index.doctor.http_exchange import JSON, Exchange, IndexClient
from wheelsmith.index.entries.metadata import differing_requirements
from wheelsmith.index.resolve.choose import runs_with_torch
from wheelsmith.model import ARCHES, WheelName, read_wheel_name
from wheelsmith.toolchain.package_index import html_base

ACCEPTED = ("text/html", "application/vnd.pypi.simple.v1+html", JSON)
PLATFORM = re.compile(r"cpu|xpu|cu\d+|rocm\d[\d.]*")
_NAMELESS_HASH = re.compile(r"(?<!&)#[^#\"'=<>\s]*(?=[\"'\s>])")  # mousebender fails on it, installers ignore it


class UnreadablePageError(Exception):
    """A page that installers refuse."""


class PageFile(BaseModel):
    """A file on a page, with the fields of the JSON API."""

    model_config = ConfigDict(frozen=True, strict=True)

    filename: str
    url: str
    hashes: dict[str, str]
    core_metadata: bool | dict[str, str] | None = Field(None, alias="core-metadata")
    size: int | None = None
    yanked: bool | str | None = None
    wheelsmith: Any = Field(None, alias="_wheelsmith")

    @property
    def wheel(self) -> WheelName | None:
        """Return the parts of the file name, or None if it is not the name of a wheel."""
        try:
            return read_wheel_name(self.filename) if self.filename.endswith(".whl") else None
        except ValueError:
            return None

    @property
    def quoted_url(self) -> str:
        """Return the URL with ``%2B`` for ``+``, which some hosts read as a space."""
        parts = urlsplit(self.url)
        return parts._replace(path=parts.path.replace("+", "%2B")).geturl()

    @property
    def metadata_url(self) -> str:
        """Return the URL of the file's METADATA, quoted in the same way."""
        parts = urlsplit(self.quoted_url)
        return parts._replace(path=f"{parts.path}.metadata").geturl()

    @property
    def platforms(self) -> set[str]:
        """Return the compute platforms that the file serves, from its version and the cells that wheelsmith writes."""
        cells = self.wheelsmith.get("cells") if isinstance(self.wheelsmith, dict) else None
        words = {word for cell in cells or () for word in str(cell).split("-")}
        words.add(((self.wheel and self.wheel.version.local) or "").partition(".")[0])
        return {word for word in words if PLATFORM.fullmatch(word)}


class _ProjectPage(BaseModel):
    files: list[PageFile]


class _ListedProject(BaseModel):
    name: str


class _ProjectList(BaseModel):
    projects: list[_ListedProject]


def read_wheels(exchange: Exchange, project: str) -> tuple[PageFile, ...]:
    """Return the wheels on the page of a project, with absolute URLs.

    :raises UnreadablePageError: installers refuse the page.
    """
    base = exchange.final
    with _convert_errors():
        if _is_json(exchange):
            page = _ProjectPage.model_validate_json(exchange.body)
        else:
            text = _NAMELESS_HASH.sub("", exchange.body.decode())
            page = _ProjectPage.model_validate(simple.from_project_details_html(text, project))
            base = html_base(text, base)
        wheels = [file for file in page.files if file.wheel]
        return tuple(file.model_copy(update={"url": _absolute_url(base, file.url)}) for file in wheels)


def read_projects(exchange: Exchange) -> tuple[str, ...]:
    """Return the normalized names on a list of projects.

    :raises UnreadablePageError: installers refuse the page.
    """
    with _convert_errors():
        if _is_json(exchange):
            listed = _ProjectList.model_validate_json(exchange.body)
        else:
            listed = _ProjectList.model_validate(simple.from_project_index_html(exchange.body.decode()))
    names = (canonicalize_name(project.name.strip().rstrip("/")) for project in listed.projects)
    return tuple(dict.fromkeys(name for name in names if is_normalized_name(name)))


def _is_json(exchange: Exchange) -> bool:
    """Return True if the page is JSON. If the content type is wrong, the first character of the body decides."""
    return exchange.media == JSON or (exchange.media not in ACCEPTED and exchange.body.lstrip()[:1] == b"{")


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert the errors of pydantic, mousebender and urllib into UnreadablePageError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", simple.APIVersionWarning)
            yield
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise UnreadablePageError(f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()) from None
    except (ValueError, AssertionError, simple.UnsupportedAPIVersion) as error:
        raise UnreadablePageError(str(error) or "the HTML is broken") from None


def _absolute_url(base: str, link: str) -> str:
    url = urljoin(base, link)
    urlsplit(url).port  # noqa: B018  # raises ValueError
    return url


_NOT_FOUND, _PARTIAL = 404, 206
MAX_METADATA = 2 * 2**20  # bytes
_MAX_COMPARED = 4  # versions of a project, and METADATA files of a version
_REFUSED = (401, 403)


def check_page(
    pip: Exchange, html: Exchange, inside: Exchange | None, description: str, severity: Severity
) -> Iterator[IndexFinding]:
    """Check the responses for a page, but not its content.

    :param pip: the response to pip's Accept header.
    :param html: the response to ``Accept: text/html``.
    :param inside: the response for ``index.html``, if the page itself is missing.
    :param description: a description of the page.
    :param severity: severity if the page cannot be read; lower for the list of projects, which installers do not read.
    """
    if not pip.ok:
        rule = "refused" if pip.status in _REFUSED else "page-missing"
        rule = "no-answer" if pip.failure else "folder-index" if inside and inside.ok else rule
        yield finding(rule, pip, severity=severity, what=description, answer=pip.answer)
        return
    # uv compares the text before the semicolon unchanged. pip ignores case.
    media = pip.headers.get("content-type", "").split(";")[0]
    if media not in ACCEPTED:
        yield finding("content-type", pip, severity=severity, media=media or "no content type")
    else:
        yield from _check_content_negotiation(pip, html)
    if urlsplit(pip.url).scheme == "https" and urlsplit(pip.final).scheme == "http":
        yield finding("downgrade", pip)
    if not urlsplit(pip.final).path.endswith("/"):
        yield finding("slash-dropped", pip)
    yield from _check_caching(pip)


def check_transport(url: str, exchange: Exchange) -> Iterator[IndexFinding]:
    """Check that pip trusts the connection."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_local(parts.hostname or ""):
        yield finding("no-tls", exchange)


def check_absent(exchange: Exchange) -> Iterator[IndexFinding]:
    """Check the response for a project that is not in the index."""
    if exchange.status != _NOT_FOUND:
        yield finding("absent-project", exchange, answer=exchange.answer)


def check_wheel(whole: Exchange, raw: Exchange | None, file: PageFile) -> Iterator[IndexFinding]:
    """Check the download of a wheel.

    :param whole: the response for the complete wheel, at the link's URL with ``+`` written as ``%2B``, as pip does.
    :param raw: the response for the first bytes at the link's URL, if the URL contains a ``+``.
    """
    if raw is not None and raw.ok and not whole.ok:
        yield finding("plus-quoted", whole)
    elif raw is not None:
        yield finding("plus-raw", raw, severity=Severity.ADVICE if raw.ok else None)
    encoding = whole.headers.get("content-encoding", "identity")
    if not whole.ok:
        if raw is None or not raw.ok:
            yield finding("wheel-missing", whole, answer=whole.answer)
    elif encoding != "identity":
        yield finding("wheel-encoding", whole, encoding=encoding)
    elif not whole.truncated and not _matches(file.hashes, whole.body):
        yield finding("wheel-hash", whole)


def check_range_request(whole: Exchange, part: Exchange) -> Iterator[IndexFinding]:
    """Check that the server supports range requests for a wheel."""
    if part.status != _PARTIAL or not whole.body.startswith(part.body):
        yield finding("ranges", part)


def check_metadata_file(response: Exchange, file: PageFile) -> Iterator[IndexFinding]:
    """Check the metadata file of a wheel, if the page announces one."""
    if not file.core_metadata:
        return
    if not response.ok:
        yield finding("side-car-missing", response, answer=response.answer)
    elif isinstance(file.core_metadata, dict) and not _matches(file.core_metadata, response.body):
        yield finding("side-car-hash", response)


def check_platforms(page: Exchange, root: str, wheels: Sequence[PageFile]) -> Iterator[IndexFinding]:
    """Check that a root such as ``cu130`` lists no wheels for other platforms only."""
    others: set[str] = set()
    for file in wheels if PLATFORM.fullmatch(root) else ():
        compute = read_local_version(file.wheel.version.local if file.wheel else None).compute
        own = file.platforms | ({compute} if compute else set())
        others |= set() if any(root.startswith(each) or runs_with_torch(each, root) for each in own) else own
    if others:
        yield finding("other-platforms", page, root=root, others=listed(sorted(others)))


def check_project(page: Exchange, project: str, wheels: Sequence[PageFile]) -> Iterator[IndexFinding]:
    """Check that the newest version has wheels for all architectures, and that the project is no copy of PyPI's."""
    archs: dict[Version, set[str]] = {}
    names = [file.wheel for file in wheels if file.wheel]
    for name in (each for each in names if not each.version.is_prerelease):
        ends = " ".join(f"{tag.platform} " for tag in name.tags).replace("any ", f"{' '.join(ARCHES)} ")
        own = {arch for arch in ARCHES if f"{arch} " in ends}
        archs.setdefault(Version(name.version.public), set()).update(own)
    newest = max(archs, default=None)
    if newest and (missing := set[str]().union(*archs.values()) - archs[newest]):
        yield finding("architecture", page, project=project, version=newest, missing=listed(sorted(missing)))
    if is_known_project(project) and any(name.version.local is None for name in names):
        yield finding("copy", page, project=project)


def check_requirements(page: Exchange, wheels: Sequence[PageFile], client: IndexClient) -> Iterator[IndexFinding]:
    """Check that the wheels of one version require the same, for the newest versions."""
    found: dict[tuple[Version, str], dict[str, PageFile]] = {}
    for file in wheels:
        if file.wheel and isinstance(file.core_metadata, dict):
            found.setdefault((file.wheel.version, file.wheel.project), {})[str(file.core_metadata)] = file
    for version, project in [each for each in sorted(found, reverse=True) if len(found[each]) > 1][:_MAX_COMPARED]:
        files = list(found[version, project].values())[:_MAX_COMPARED]
        answers = [(file, client.get(file.metadata_url, MAX_METADATA)) for file in files]
        right = (answer.body for file, answer in answers if answer.ok and not [*check_metadata_file(answer, file)])
        if differing := differing_requirements(right):
            yield finding("requirements", page, project=project, version=version, requirements=", ".join(differing))


def _check_content_negotiation(pip: Exchange, html: Exchange) -> Iterator[IndexFinding]:
    if html.ok and html.media != pip.media:
        for exchange in (pip, html):
            vary = {name.strip().lower() for name in exchange.headers.get("vary", "").split(",")}
            if not vary & {"accept", "*"}:
                yield finding("vary", exchange)
                return
    elif pip.media != JSON:
        yield finding("no-json", pip)


def _check_caching(page: Exchange) -> Iterator[IndexFinding]:
    parts = (part.strip().partition("=") for part in page.headers.get("cache-control", "").lower().split(","))
    directives = {name: value.strip('" ') for name, _, value in parts}
    seconds = directives.get("max-age", "")
    if "etag" not in page.headers:
        yield finding("no-validator", page)
    if directives.keys() & {"no-cache", "no-store"} or seconds == "0":
        return
    if seconds:
        yield finding("stale-pages", page, seconds=f"{seconds} s")
    elif "expires" in page.headers:
        yield finding("stale-pages", page, seconds="the time in Expires")
    elif "last-modified" in page.headers:
        yield finding("stale-pages", page, seconds="600 s (uv's guess without Cache-Control)")


def _matches(hashes: Mapping[str, str], data: bytes) -> bool:
    supported = hashes.keys() & {"sha256", "sha384", "sha512", "md5"}
    return all(hashlib.new(name, data, usedforsecurity=False).hexdigest() == hashes[name].lower() for name in supported)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
