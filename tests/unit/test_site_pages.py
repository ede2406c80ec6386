"""The navigation of the documentation site and its home page contain every page."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def pages_of(entry):
    """Return the pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages_of(part)]


def test_the_navigation_has_every_page_once():
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())
    assert sorted(pages_of(settings["project"]["nav"])) == PAGES


def test_the_home_page_links_to_every_other_page():
    links = re.findall(r"\]\((.*?\.md)\)", (DOCS / "README.md").read_text())
    assert sorted({"README.md", *links}) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_that_are_in_the_documentation(page):
    text = re.sub(r"^ *```.*?^ *```", "", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = {
        (DOCS / page).parent.joinpath(link).resolve()
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text)
        if not re.match(r"https?:", link)
    }
    assert [path for path in targets if not (path.is_file() and path.is_relative_to(DOCS))] == []
