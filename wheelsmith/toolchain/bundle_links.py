"""Where an index says that what was signed of a wheel is: a key of wheelsmith's own in JSON, an attribute in HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

_KEY = "_sigstore-bundle"
_ATTRIBUTE = "data-sigstore-bundle"


def bundle_url(file: Mapping[str, Any]) -> str | None:
    """Return the address of what was signed of a file of a JSON page, as the page has it; None where it names none."""
    said = file.get(_KEY)
    url = said.get("url") if isinstance(said, Mapping) else None
    return url if isinstance(url, str) else None


def html_bundle_urls(page: str) -> dict[str, str]:
    """Return them for a page in HTML: file name → address."""
    reader = _BundleLinks()
    if _ATTRIBUTE in page:
        reader.feed(page)
    return reader.found


def html_base(page: str, address: str) -> str:
    """Return what the links of a page in HTML are relative to, as browsers and installers take it."""
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
        """Take note of a link of a wheel."""
        given = dict(attrs)
        link, bundle = given.get("href"), given.get(_ATTRIBUTE)
        if tag == "base" and link and self.base is None:
            self.base = link
        if tag == "a" and link and bundle:
            name = unquote(urlsplit(link).path).rpartition("/")[2]
            self.found[name] = urldefrag(bundle).url
