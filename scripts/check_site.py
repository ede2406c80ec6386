"""Check the documentation site that scripts/docs built.

    python scripts/check_site.py

Every link and anchor must exist, no page may load a file from another host, and each page must have the same content on
the site as on GitHub. Zensical's strict mode checks only links between pages, and its Markdown differs from GitHub's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from itertools import islice, zip_longest
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from markdown_it import MarkdownIt

CONTENT = {"code", "h1", "h2", "h3", "h4", "h5", "h6", "img", "li", "ol", "pre", "table", "td", "th", "ul"}
SITE_ONLY = {"headerlink", "filename"}  # classes of text that GitHub does not show: links to anchors, titles of code


class Page(HTMLParser):
    """Collects the links, anchors and content of a page.

    :param html: the page; its content is in the element ``article``.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.files: list[str] = []
        self.content = [""]
        self._in_article = False
        self._omitted = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Record a link, an anchor, or an element of the content."""
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        self.links += [found[name] for name in ("href", "src") if name in found]
        if tag != "a" and found.get("rel") != "canonical":
            self.files += [found[name] for name in ("href", "src") if name in found]
        if tag == "article":
            self._in_article = True
        elif found.get("class") in SITE_ONLY:
            self._omitted = tag
        elif tag in CONTENT and self._in_article:
            self.content += [f"<{tag}>", ""]

    def handle_endtag(self, tag: str) -> None:
        """Record the end of an element of the content."""
        if tag == "article":
            self._in_article = False
        elif tag == self._omitted:
            self._omitted = ""
        elif tag in CONTENT and self._in_article:
            self.content += [f"</{tag}>", ""]

    def handle_data(self, data: str) -> None:
        """Add text to the content."""
        if self._in_article and not self._omitted:
            self.content[-1] += data

    def words(self) -> list[str]:
        """Return the elements and texts of the content, without unneeded white space."""
        return [words for text in self.content if (words := " ".join(text.split()))]


@cache
def read_page(path: Path) -> Page:
    """Return a page of the site."""
    return Page(path.read_text(encoding="utf-8"))


def broken_links(site: Path) -> Iterator[str]:
    """Yield the links to missing files and anchors, and the files that a page loads from another host."""
    for path in sorted(site.rglob("*.html")):
        page = read_page(path)
        place = path.relative_to(site).as_posix()
        yield from (f"{place}: loads {link}" for link in page.files if urlsplit(link).netloc)
        for link in page.links:
            address = urlsplit(urljoin(f"/{place}", link))
            if address.scheme or address.netloc:
                continue
            target = site / unquote(address.path).lstrip("/")
            target = target / "index.html" if address.path.endswith("/") else target
            if not target.is_file():
                yield f"{place}: {link} does not exist"
            elif address.fragment and unquote(address.fragment) not in read_page(target).anchors:
                yield f"{place}: {link} has no such anchor"


def differing_pages(docs: Path, site: Path) -> Iterator[str]:
    """Yield the first difference of each page between GitHub and the site."""
    markdown = MarkdownIt("commonmark").enable("table")
    for path in sorted(docs.rglob("*.md")):
        page = path.relative_to(docs)
        folder = page.parent if page.name == "README.md" else page.with_suffix("")
        github = Page(f"<article>{markdown.render(path.read_text(encoding='utf-8'))}</article>")
        pairs = zip_longest(github.words(), read_page(site / folder / "index.html").words())
        different = (f"docs/{page}: {one!r} on GitHub is {other!r} on the site" for one, other in pairs if one != other)
        yield from islice(different, 1)


def problems(root: Path) -> list[str]:
    """Return the problems of the site in a folder that contains docs/ and site/."""
    return [*broken_links(root / "site"), *differing_pages(root / "docs", root / "site")]


def main() -> None:
    """Print the problems, and exit with 1 if there are any."""
    found = problems(Path(__file__).parent.parent)
    for problem in found:
        print(problem)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
