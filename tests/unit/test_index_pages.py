import json

import pytest
from states import entry, project

from wheelsmith.index.entries.render import simple_pages, simple_roots
from wheelsmith.index.site.listing import listing_of
from wheelsmith.index.storage.serve import negotiate
from wheelsmith.model import Cell, CellSettings

CPU = Cell(release="2.11", toolkit=None, arch="x86_64")
CUDA = Cell(release="2.11", toolkit="13.0", arch="x86_64")
HIDDEN = Cell(release="2.11", toolkit="13.1", arch="x86_64", settings=CellSettings(advertise=False))


def test_each_compute_platform_has_a_root_and_simple_has_all():
    entries = (entry("1+cpu.torch2.11", CPU), entry("1+cu130.torch2.11", CUDA), entry("1+cu131", HIDDEN))
    pages = simple_pages(project(*entries))
    files = {name: [f["filename"] for f in json.loads(page)["files"]] for name, page in pages.items() if "json" in name}
    assert {name: len(found) for name, found in files.items()} == {
        "cpu/k/index.json": 1,
        "cu130/k/index.json": 1,
        "simple/k/index.json": 2,
    }
    assert set(simple_roots({"k": listing_of(project(*entries)).roots})) == {
        f"{root}/index.{kind}" for root in ("simple", "cpu", "cu130") for kind in ("html", "json")
    }


def test_html_escapes_what_it_is_given():
    page = simple_pages(project(entry("1+cpu", CPU, requires_python='>=3.9"><script>')))["simple/k/index.html"].decode()
    assert "<script>" not in page
    assert "&gt;=3.9" in page
    assert "%2B" in page


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "text/html"),
        ("application/vnd.pypi.simple.v1+json", "application/vnd.pypi.simple.v1+json"),
        # what pip and uv send
        (
            "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01",
            "application/vnd.pypi.simple.v1+json",
        ),
        ("application/vnd.pypi.simple.v1+json;q=0.2, text/html", "text/html"),
        ("image/png", None),
        ("text/html;q=0", None),
    ],
)
def test_negotiation(accept, kind):
    assert negotiate(accept) == kind
