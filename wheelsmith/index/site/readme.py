"""Render a README as safe HTML: no markup of the author passes, no image loads, and links are http or https only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from markupsafe import Markup

from wheelsmith.index.entries.metadata import Readme, is_safe_link, remove_invisible

if TYPE_CHECKING:
    from markdown_it.token import Token

_PAGE_LEVEL = 2  # level of the heading above the README
_LAST_LEVEL = 6
_TABLE = '<section class="scroll" tabindex="0" aria-label="Table"><table>\n'


def render_readme(readme: Readme) -> Markup:
    """Return the HTML of a README. Text that is not Markdown keeps its line breaks."""
    if not readme.markdown:
        return Markup('<pre class="code">{}</pre>').format(remove_invisible(readme.text))
    from markdown_it import MarkdownIt

    # HTML is parsed, so that comments and tags do not appear as text. None of it is rendered.
    parser = MarkdownIt("js-default", {"html": True})
    parser.add_render_rule("table_open", lambda *_: _TABLE)
    parser.add_render_rule("table_close", lambda *_: "</table></section>\n")
    tokens = parser.parse(readme.text)
    _limit_blocks(tokens)
    html = parser.renderer.render(tokens, parser.options, {})
    return Markup(remove_invisible(html))  # noqa: S704  # every token with markup is limited above


def _limit_blocks(tokens: Sequence[Token]) -> None:
    """Replace the HTML in tokens by its text, and change attributes and headings so that they fit the page."""
    level = _PAGE_LEVEL
    for token in tokens:
        if token.type == "heading_open":
            # A README may begin with any level, but a level must not be skipped.
            level = min(_PAGE_LEVEL + int(token.tag[1]), level + 1, _LAST_LEVEL)
        if token.tag.startswith("h") and token.type.startswith("heading_"):
            token.tag = f"h{level}"
        if token.type == "html_block":
            text = _text_of(token.content)
            token.content = f"<p>{escape(text)}</p>\n" if text else ""
        if token.type in {"th_open", "td_open"} and (style := token.attrs.pop("style", None)):
            token.attrs["class"] = str(style).removeprefix("text-align:")
        token.children = list(_limited_inline(token.children)) if token.children else token.children


def _limited_inline(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield inline tokens without HTML and unsafe links. An image becomes its description."""
    is_linked = False
    for token in tokens:
        match token.type:
            case "html_inline":
                continue
            case "image":
                token.type, token.content = "text", token.content or "image"
            case "link_open":
                is_linked = is_safe_link(str(token.attrs["href"]))
                token.attrs["rel"] = "nofollow noreferrer"
            case _:
                pass
        # Links do not nest.
        if is_linked or token.type not in {"link_open", "link_close"}:
            yield token


def _text_of(html: str) -> str:
    parser = _TextParser()
    parser.feed(html)
    parser.close()
    return " ".join("".join(parser.parts).split())


class _TextParser(HTMLParser):
    """Collects the text of HTML, except scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is None:
            self.parts.append(data)
