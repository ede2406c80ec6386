"""Read a page of the simple API with all its faults: what other parsers fix or refuse is what is looked for here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from wheelsmith.index.doctor.exchange import ACCEPTED, JSON, Exchange
from wheelsmith.index.doctor.names import VARIANTS

_FILES = (".whl", ".tar.gz", ".zip", VARIANTS)
# More than any project has; a page that was made to hurt could hold half a million.
MOST_LINKS = 20_000


class UnreadablePageError(Exception):
    """A page that its content type does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A file as a page offers it.

    :param href: as the page writes it, without the fragment; ``url``: absolute.
    :param fragment: what HTML has after ``#``; None for JSON.
    :param text: what HTML shows for the file; None for JSON.
    :param metadata: hashes of the side-car, True where it has none, None where there is no side-car.
    :param old_key: JSON has ``dist-info-metadata``, and no text in it.
    :param yanked: None for a file in good standing.
    """

    filename: str
    href: str
    url: str
    hashes: Mapping[str, str]
    fragment: str | None = None
    text: str | None = None
    requires_python: str | None = None
    metadata: Mapping[str, str] | bool | None = None
    old_key: bool = False
    yanked: str | bool | None = None
    size: int | None = None
    upload_time: str | None = None

    @property
    def scheme(self) -> str:
        """Return the URL's scheme."""
        return urlsplit(self.url).scheme


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, as an installer would understand it.

    :param kind: ``html`` or ``json``.
    :param version: of the API.
    :param name: the project's own, which HTML does not have.
    :param names: what a list of projects lists.
    :param strange: links that are neither files nor projects, such as ``javascript:``.
    :param broken: links that cannot be read as URLs.
    :param mistyped: what of JSON has another type than the standard's; uv refuses the whole page then.
    :param cells: ids of the cells that our own index says its wheels serve.
    :param cut: there are more links, which were not read.
    """

    kind: str
    version: str | None
    links: tuple[Link, ...] = ()
    name: str | None = None
    names: tuple[str, ...] = ()
    versions: tuple[str, ...] | None = None
    strange: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    mistyped: tuple[str, ...] = ()
    cells: frozenset[str] = frozenset()
    cut: bool = False


def read_page(exchange: Exchange) -> Page:
    """Read a page by its content type.

    :raises UnreadablePageError: it is none, or not what its content type says.
    """
    if exchange.media not in ACCEPTED:
        raise UnreadablePageError(f"its content type is {exchange.media or 'missing'}")
    if exchange.media == JSON:
        return _read_json(exchange)
    return _read_html(exchange)


def guess_page(exchange: Exchange) -> Page | None:
    """Read a page by its looks, where its content type is wrong: the faults behind that one are worth finding too."""
    looks = JSON if exchange.body.lstrip()[:1] == b"{" else "text/html"
    try:
        return read_page(replace(exchange, headers={**exchange.headers, "content-type": looks}))
    except UnreadablePageError:
        return None


def _read_json(exchange: Exchange) -> Page:
    try:
        data = json.loads(exchange.body)
    except (ValueError, RecursionError) as error:
        raise UnreadablePageError("it is sent as JSON and is none") from error
    if not isinstance(data, dict):
        raise UnreadablePageError("its JSON is not an object")
    mistyped: list[str] = []
    files = _typed(data, "files", list, mistyped) if "files" in data else []
    links, broken, cells = [], [], set()
    for item in (files or [])[:MOST_LINKS]:
        if not isinstance(item, dict):
            mistyped.append("a file is not an object")
            continue
        try:
            links += _json_link(item, exchange.final, mistyped)
        except ValueError:
            broken.append(str(item.get("url")))
        cells |= _cells(item)
    projects = [p.get("name") for p in data.get("projects") or () if isinstance(p, dict)] if "projects" in data else []
    if "files" not in data and "projects" not in data:
        mistyped.append("files is missing")
    meta = data.get("meta") if isinstance(data.get("meta"), dict) else {}
    versions = data.get("versions")
    return Page(
        kind="json",
        version=_text(meta.get("api-version")) if meta else None,
        links=tuple(links),
        name=_text(data.get("name")),
        names=tuple(name for name in projects if isinstance(name, str)),
        versions=tuple(v for v in versions if isinstance(v, str)) if isinstance(versions, list) else None,
        broken=tuple(broken),
        mistyped=tuple(dict.fromkeys(mistyped)),
        cells=frozenset(cells),
        cut=len(files or []) > MOST_LINKS,
    )


def _json_link(item: dict[str, Any], base: str, mistyped: list[str]) -> list[Link]:
    filename = _typed(item, "filename", str, mistyped)
    href = _typed(item, "url", str, mistyped)
    hashes = _typed(item, "hashes", dict, mistyped)
    for key, kind in (("size", int), ("upload-time", str), ("requires-python", str)):
        if item.get(key) is not None:
            _typed(item, key, kind, mistyped)
    if filename is None or href is None:
        return []
    metadata = item.get("core-metadata", item.get("dist-info-metadata"))
    size, yanked = item.get("size"), item.get("yanked", False)
    link = Link(
        filename=filename,
        href=href,
        url=_absolute(base, href),
        hashes={k: v for k, v in (hashes or {}).items() if isinstance(v, str)},
        requires_python=_text(item.get("requires-python")),
        metadata=metadata if isinstance(metadata, dict) else True if metadata else None,
        old_key=not isinstance(item.get("dist-info-metadata"), (str, type(None))),
        yanked=None if yanked is False else yanked if isinstance(yanked, str) else True,
        size=size if isinstance(size, int) else None,
        upload_time=_text(item.get("upload-time")),
    )
    return [link]


def _typed(item: dict[str, Any], key: str, kind: type, mistyped: list[str]) -> Any:
    if key not in item:
        mistyped.append(f"{key} is missing")
        return None
    value = item[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        mistyped.append(f"{key} has another type than {kind.__name__}")
        return None
    return value


def _cells(item: dict[str, Any]) -> set[str]:
    ours = item.get("_wheelsmith")
    cells = ours.get("cells") if isinstance(ours, dict) else None
    return {cell for cell in cells if isinstance(cell, str)} if isinstance(cells, list) else set()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


class _Reader(HTMLParser):
    """Keeps what pip keeps: the first base, every anchor; and the metas of PEP 629."""

    def __init__(self) -> None:
        super().__init__()
        self.base: str | None = None
        self.version: str | None = None
        self.anchors: list[tuple[dict[str, str | None], list[str]]] = []
        self.cut = False
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "base" and self.base is None:
            self.base = found.get("href")
        elif tag == "meta" and found.get("name") == "pypi:repository-version":
            self.version = found.get("content")
        elif tag == "a":
            self.cut = len(self.anchors) >= MOST_LINKS
            self._inside = not self.cut
            if not self.cut:
                self.anchors.append((found, []))

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.anchors[-1][1].append(data)


def _read_html(exchange: Exchange) -> Page:
    reader = _Reader()
    try:
        reader.feed(exchange.body.decode())
    except UnicodeDecodeError as error:
        raise UnreadablePageError("it is not UTF-8") from error
    except AssertionError as error:  # what html.parser does on a broken declaration, and pip with it
        raise UnreadablePageError("it is broken HTML") from error
    links, names, strange, broken = [], [], [], []
    for attributes, words in reader.anchors:
        href, text = (attributes.get("href") or "").strip(), "".join(words).strip()
        if not href:
            continue
        try:
            base = urljoin(exchange.final, reader.base or "")
            target = urlsplit(_absolute(base, href))
        except ValueError:
            broken.append(href)
            continue
        filename = unquote(target.path.rpartition("/")[2])
        if filename.endswith(_FILES):
            links.append(_html_link(attributes, href, text, base, filename))
        elif target.scheme not in {"http", "https"}:
            strange.append(href)
        elif not urlsplit(exchange.final).path.startswith(target.path):
            names.append(_listed_name(text, target.path))
    return Page(
        kind="html",
        version=reader.version,
        links=tuple(links),
        names=tuple(names),
        strange=tuple(strange),
        broken=tuple(broken),
        cut=reader.cut,
    )


def _listed_name(text: str, path: str) -> str:
    """Return the project that a link of a list is for: what it shows, less the slash of a folder's name."""
    return text.rstrip("/") or unquote(path.rstrip("/").rpartition("/")[2])


def _html_link(attributes: dict[str, str | None], href: str, text: str, base: str, filename: str) -> Link:
    plain, fragment = urldefrag(href)
    announced = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata"))
    metadata: Mapping[str, str] | bool | None = None
    if announced:
        algorithm, separator, digest = announced.partition("=")
        metadata = {algorithm: digest} if separator else announced == "true" or None
    size = attributes.get("data-size") or ""
    return Link(
        filename=filename,
        href=plain,
        url=_absolute(base, plain),
        hashes=dict([fragment.split("=", 1)]) if "=" in fragment else {},
        fragment=fragment,
        text=text,
        requires_python=attributes.get("data-requires-python"),
        metadata=metadata,
        yanked=(attributes["data-yanked"] or True) if "data-yanked" in attributes else None,
        size=int(size) if size.isascii() and size.isdigit() and len(size) < 20 else None,  # noqa: PLR2004  # 64 bits
        upload_time=attributes.get("data-upload-time"),
    )


def _absolute(base: str, href: str) -> str:
    """Join as browsers do.

    :raises ValueError: it is no URL, such as one with half an IPv6 address or a port that is no number.
    """
    url = urljoin(base, href)
    urlsplit(url).port  # noqa: B018  # reading it is the check
    return url
