"""Find a pinned file on the user's indexes by its name and hash, with its signature bundle."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import httpx
from packaging.utils import canonicalize_name

from wheelsmith.base.deadline import deadline
from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.offline import VENDOR_REMEDY, is_offline
from wheelsmith.base.redact import redact
from wheelsmith.base.units import show_binary_size
from wheelsmith.frameworks import prerelease_indexes
from wheelsmith.model import TORCH, PinnedFile
from wheelsmith.toolchain.http import REQUEST_ERRORS, failure_reason, open_response
from wheelsmith.toolchain.pip import PipSettings, local_folder

if TYPE_CHECKING:
    from mousebender.simple import ProjectFileDetails

_BUNDLE_KEY = "_sigstore-bundle"
_BUNDLE_ATTRIBUTE = "data-sigstore-bundle"
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_PAGE_TIMEOUT = 120.0  # seconds for a page
_MAX_PAGE = 64 << 20  # bytes of a page; the page of a project with nightly releases has one million


def bundle_url(file: Mapping[str, Any]) -> str | None:
    """Return the address of a file's signature bundle as it is in a JSON page, or None."""
    bundle = file.get(_BUNDLE_KEY)
    url = bundle.get("url") if isinstance(bundle, Mapping) else None
    return url if isinstance(url, str) else None


def html_bundle_urls(page: str) -> dict[str, str]:
    """Return the signature bundles in an HTML page: file name → address."""
    reader = _BundleLinks()
    if _BUNDLE_ATTRIBUTE in page:
        reader.feed(page)
    return reader.found


def html_base(page: str, address: str) -> str:
    """Return the base address for the links of an HTML page, as browsers and installers compute it."""
    if "<base" not in page.lower():
        return address
    reader = _BundleLinks()
    reader.feed(page)
    return urljoin(address, reader.base) if reader.base else address


class _BundleLinks(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.base: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the base address and the bundles of links."""
        attributes = dict(attrs)
        link, bundle = attributes.get("href"), attributes.get(_BUNDLE_ATTRIBUTE)
        if tag == "base" and link and self.base is None:
            self.base = link
        if tag == "a" and link and bundle:
            name = unquote(urlsplit(link).path).rpartition("/")[2]
            self.found[name] = urldefrag(bundle).url


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The place of a file: either a URL or a path on this machine."""

    url: str | None = None
    path: Path | None = None


def locate(pin: PinnedFile, settings: PipSettings) -> Location:
    """Return the first place that offers exactly this file.

    :raises ToolchainError: no configured index has it, or no index is reachable.
    """
    for link in settings.find_links:
        folder = local_folder(link)
        # The hash is verified later. The size excludes other builds with the same name.
        if folder and (path := folder / pin.filename).is_file() and path.stat().st_size == pin.size:
            return Location(path=path)
    problems = []
    for index in (*settings.indexes, *prerelease_indexes([pin.version] if pin.project == TORCH else [])):
        try:
            files = list_files(pin.project, index, settings)
        except ToolchainError as error:
            problems.append(error.message)
            continue
        for file in files:
            if file.filename == pin.filename and file.sha256 in {pin.sha256, None}:
                return file.location
    raise _not_found(pin, problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A file of a project on an index.

    :param sha256: in hex; None if the index does not list it.
    :param yanked: the reason for the yank, which may be empty; None for a file that is not yanked.
    :param bundle: the place of its signature bundle.
    """

    filename: str
    location: Location
    sha256: str | None = None
    yanked: str | None = None
    bundle: Location | None = None


def list_files(project: str, index: str, settings: PipSettings) -> tuple[IndexFile, ...]:
    """Return the files of a project on an index, or none if the index lacks the project. Skip broken links.

    :param project: its normalized name.
    :raises ToolchainError: the index does not respond, or the response is not an index page.
    """
    with _wrap_errors(index, f"page of {project}"), settings.client() as client:
        # Each index needs its own client, because a deadline closes the client.
        return tuple(_list_files(project, index, client))


def list_files_strictly(project: str, index: str, settings: PipSettings) -> tuple[IndexFile, ...]:
    """Return the files of a project on an index, or none if the index lacks the project. Fail on a broken link.

    :raises ToolchainError: as for ``offers``, or a link is broken.
    """
    with _wrap_errors(index, f"page of {project}"), settings.client() as client:
        return tuple(_index_file(*found) for found in _page_files(project, index, client))


def list_projects(index: str, settings: PipSettings) -> tuple[str, ...]:
    """Return the normalized names of all projects on an index.

    :raises ToolchainError: the index does not respond, or the response is not a list of projects.
    """
    from mousebender import simple

    with _wrap_errors(index, "list of projects"), settings.client() as client:
        page = _fetch_page(f"{index.rstrip('/')}/", client)
        if page is None:
            raise ToolchainError(f"{_host(index)}: there is no index at this address")
        if "json" in page.content_type:
            found = simple.parse_project_index(page.text, page.content_type)
        else:
            with _any_minor_version():
                found = simple.from_project_index_html(page.text)
        return tuple(sorted({canonicalize_name(str(each["name"])) for each in found["projects"]}))


@contextmanager
def _wrap_errors(index: str, page: str) -> Iterator[None]:
    """Raise errors of the block as a ``ToolchainError`` that names the index."""
    from mousebender.simple import UnsupportedAPIVersion

    try:
        yield
    except (*REQUEST_ERRORS, OSError, ValueError, RuntimeError) as error:
        raise ToolchainError(f"{_host(index)}: {failure_reason(error)}") from error
    except (UnsupportedAPIVersion, LookupError, TypeError, AttributeError, AssertionError) as error:
        raise ToolchainError(f"{_host(index)}: its {page} cannot be read") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    text: str
    content_type: str
    address: str


def _list_files(project: str, index: str, client: httpx.Client) -> Iterator[IndexFile]:
    for file, base, bundles in _page_files(project, index, client):
        with suppress(ValueError, LookupError, TypeError, AttributeError):  # skip a broken link
            yield _index_file(file, base, bundles)


def _page_files(
    project: str, index: str, client: httpx.Client
) -> Iterator[tuple[ProjectFileDetails, str, Mapping[str, str]]]:
    """Yield each file of a page, the base address of its links, and the page's bundles: file name → address."""
    from mousebender import simple

    page = _fetch_page(f"{index.rstrip('/')}/{project}/", client)
    if page is None:
        return
    base = page.address
    if "json" in page.content_type:
        details, bundles = simple.parse_project_details(page.text, page.content_type, project), {}
    else:
        with _any_minor_version():
            details, bundles = simple.from_project_details_html(page.text, project), html_bundle_urls(page.text)
        base = html_base(page.text, page.address)
    yield from ((file, base, bundles) for file in details["files"])


@contextmanager
def _any_minor_version() -> Iterator[None]:
    """Accept newer minor versions of the index API silently. Their additions are not needed (PEP 629)."""
    from mousebender.simple import APIVersionWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", APIVersionWarning)
        yield


def _fetch_page(address: str, client: httpx.Client) -> _Page | None:
    """Return a page of an index, or None if it does not exist."""
    if folder := local_folder(address):
        page = folder / "index.html"
        if not page.is_file():
            return None
        return _Page(text=page.read_text(encoding="utf-8"), content_type="text/html", address=address)
    headers = {"Accept": _ACCEPT, "Accept-Encoding": "gzip"}
    with deadline(client, _PAGE_TIMEOUT), open_response(client, address, headers) as response:
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        response.raise_for_status()
        content_type = response.headers["content-type"]
        return _Page(text=_read_text(response), content_type=content_type, address=str(response.url))


def _read_text(response: httpx.Response) -> str:
    """Return the text of a page. Accept one compression only, because nested compression can grow a millionfold."""
    compression = response.headers.get("content-encoding", "identity").strip().lower()
    if compression not in {"identity", "gzip"}:
        raise ValueError("its page has an unsupported compression")
    data = bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        if len(data) > _MAX_PAGE:
            raise ValueError(f"its page is larger than {show_binary_size(_MAX_PAGE)}")
    # JSON and HTML pages are UTF-8. Ignore the server's charset, because some codecs take days.
    return data.decode("utf-8", "replace")


def _index_file(file: ProjectFileDetails, base: str, bundles: Mapping[str, str]) -> IndexFile:
    yanked, filename = file.get("yanked", False), str(file["filename"])
    bundle = bundle_url(file) or bundles.get(filename)
    return IndexFile(
        filename=filename,
        location=_resolve_link(file["url"], base),
        sha256=file["hashes"].get("sha256", "").lower() or None,
        yanked=None if yanked is False else yanked if isinstance(yanked, str) else "",
        bundle=_resolve_link(bundle, base) if bundle else None,
    )


def _resolve_link(link: str, base: str) -> Location:
    url = urljoin(base, link).split("#")[0]
    local = local_folder(url)
    if local and not local_folder(base):
        raise ValueError("a page on the network links to a file of this machine")
    return Location(path=local) if local else Location(url=url)


def _host(index: str) -> str:
    try:
        return httpx.URL(index).host or redact(index)
    except httpx.InvalidURL:
        return redact(index)


def _not_found(pin: PinnedFile, problems: list[str]) -> ToolchainError:
    if is_offline():
        return ToolchainError(
            f"{pin.filename} is not in the vendored folder, and wheelsmith is offline", remedy=VENDOR_REMEDY
        )
    if problems:
        return ToolchainError(
            f"{pin.filename} could not be looked up ({'; '.join(problems)})",
            remedy="check the network and pip's configuration: python3 -m pip config list",
        )
    return ToolchainError(
        f"no configured index offers {pin.filename} (sha256 {pin.sha256[:12]}…)",
        remedy="add an index that has it: PIP_EXTRA_INDEX_URL=… wheelsmith …",
    )
