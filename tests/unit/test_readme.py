"""The README of a project is shown on its page, and nothing in it becomes markup of its author."""

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import cell
from wheels import make_wheel, offer

from wheelsmith.index.entries.metadata import Readme, read_readme
from wheelsmith.index.entries.state import set_status
from wheelsmith.index.entries.stored_states import ProjectStatus
from wheelsmith.index.publish.verify import repair, verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.site.readme import render_readme
from wheelsmith.index.storage.folder import Folder

NOW = "2026-03-04T05:06:07Z"
ALLOWED = {
    *("p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "pre"),
    *("a", "code", "em", "strong", "s", "br", "section", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"href", "rel", "title", "class", "start", "tabindex", "aria-label"}


def shown(text):
    return str(render_readme(Readme(text=text, markdown=True)))


class Tags(HTMLParser):
    """Collects the tags and the attributes of a text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(attrs)

    def handle_data(self, data):
        self.text += data


def test_markdown_is_rendered_below_the_headings_of_the_page():
    html = shown("# k\n\nfast *sums*\n\n##### Deep\n\n| a | b |\n|---|--:|\n| 1 | `2` |\n")
    assert re.findall(r"<h\d>\w+", html) == ["<h3>k", "<h4>Deep"]
    assert "<em>sums</em>" in html
    assert '<td class="right"><code>2</code></td>' in html
    assert html.count("<section") == html.count("</section>") == 1


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a <b>c</b> <img src=x onerror=alert(1)>", "<p>a c </p>\n"),
        ("<!-- hidden -->\n\n<p align=center>A &amp; <a href=javascript:x>B</a></p>\n", "<p>A &amp; B</p>\n"),
        ("<script>\nalert(1)\n</script>\n", ""),
        ("[k](https://k.example)", '<p><a href="https://k.example" rel="nofollow noreferrer">k</a></p>\n'),
        ("[k](https://user@k.example) [d](docs/d.md) <ftp://k.example>", "<p>k d ftp://k.example</p>\n"),
        ("![logo](https://k.example/x.png) ![](y.png)", "<p>logo image</p>\n"),
        ("&#x202e;gpj\u2066", "<p>gpj</p>\n"),
    ],
)
def test_markup_images_and_unsafe_links_become_text(text, html):
    assert shown(text) == html


@given(st.text("<>/ab=\"'&;!-[]()#`*\n|: \\javscript", max_size=200))
def test_no_readme_brings_a_tag_or_an_attribute_of_its_own(text):
    found = Tags(shown(text))
    assert found.tags <= ALLOWED
    assert {name for name, _ in found.attributes} <= {
        "href",
        "rel",
        "title",
        "class",
        "start",
        "tabindex",
        "aria-label",
    }


@pytest.mark.parametrize("text", ["[", "*a_ ", "> ", "![[]()", "<!--"])
def test_no_readme_takes_long(text):
    began = time.process_time()
    shown((text * 20_000)[:20_000])
    assert time.process_time() - began < 10


def test_other_text_is_shown_as_it_is():
    text = "Title\n=====\n\n.. raw:: html\n\n   <b>x</b>\n"
    read = read_readme(f"Name: k\n\n{text}".encode())
    assert read == Readme(text=text.rstrip("\n"), markdown=False)
    assert "<pre" in render_readme(read)
    assert "&lt;b&gt;x" in render_readme(read)
    assert read_readme(b"Name: k\n\n\n") is None


def test_a_long_readme_ends_at_a_line():
    read = read_readme(b"Description-Content-Type: text/markdown; variant=GFM\n\n" + b"line\n" * 50_000)
    assert read.markdown
    assert len(read.text) < 50_010
    assert read.text.endswith("line\n\n…")


def page(root):
    return (root / "projects" / "k" / "index.html").read_text()


def test_the_page_shows_the_readme_of_the_newest_wheel(tmp_path):
    index = Index(Folder(tmp_path / "index"))
    for number in (1, 2):
        about = f"Description-Content-Type: text/markdown\n\nREADME of **{number}**\n"
        wheel = make_wheel(tmp_path, "k", f"{number}+cpu.torch2.13", about=about)
        index.add([offer(wheel, cell("2.13", None))], upload_time=NOW)
    assert "<p>README of <strong>2</strong></p>" in page(tmp_path / "index")
    assert verify(Folder(tmp_path / "index")) == ()
    for metadata in (tmp_path / "index").rglob("*.metadata"):
        metadata.unlink()
    assert repair(Folder(tmp_path / "index")).left == ()
    assert "<p>README of <strong>2</strong></p>" in page(tmp_path / "index")
    index.change("k", lambda state: set_status(state, ProjectStatus.QUARANTINED, None))
    assert "README" not in page(tmp_path / "index")
