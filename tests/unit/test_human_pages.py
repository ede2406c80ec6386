import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from states import cell, entry, of_torch, project, provenance, unserved

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.sanitize import visible
from wheelsmith.index.entries.catalogue import catalogue_of, dump_catalogue, load_catalogue
from wheelsmith.index.entries.entry import NoWheel, ProjectStatus
from wheelsmith.index.publish.writer import project_pages, root_pages
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import quote_address
from wheelsmith.index.resolve.target import Choice, Target
from wheelsmith.index.site.grid import GridStatus, catalogue_cells, grids
from wheelsmith.index.site.human import human_pages, human_root
from wheelsmith.index.site.listing import listing_of

NASTY = "</script><script>alert(1)</script>&\"'\u2028<b>"
FOLDED = entry(
    "1.0+cu130.torch2.13", cell("2.13", "13.0"), cell("2.13", "13.2"), provenance=provenance(cell("2.13", "13.0"))
)
STATE = project(
    of_torch("2.11", None),
    of_torch("2.11", "13.0", gpu_archs=("8.0", "9.0+PTX")),
    of_torch("2.11", "13.0", "aarch64"),
    FOLDED,
    of_torch("2.9", "12.8", version="0.9"),
    of_torch("2.9", None, yanked="bad"),
    entry("1.0+cu130.torch2.14", cell("2.14", "13.0", hidden=True)),
    answers=(
        unserved(cell("2.11", "13.2"), NoWheel.EXCLUDED, f"not asked for {NASTY}"),
        unserved(cell("2.13", None), NoWheel.FAILED, "compile failed", tail=("first", NASTY)),
        unserved(cell("2.14", "13.2", hidden=True), NoWheel.FAILED, "secret"),
    ),
)


class Reader(HTMLParser):
    """Collects tags, texts of scripts and styles, ids and links."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.ids, self.links, self.inline, self._inside = [], [], [], {"script": [], "style": []}, None
        self.feed(page.decode())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in attrs if name == "href" and value.startswith("#")]
        self._inside = (tag, dict(attrs)) if tag in self.inline else None
        if self._inside:
            self.inline[tag].append("")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.inline[self._inside[0]][-1] += data


@pytest.fixture(scope="module")
def pages():
    return human_pages(STATE)


def test_a_project_has_a_page_and_a_catalogue_and_the_index_a_page(pages):
    assert set(pages) == {"projects/k/index.html", "projects/k/catalogue.json"}
    assert pages.items() <= project_pages(STATE).items()
    assert "index.html" in root_pages({"k": listing_of(STATE)})


def test_the_same_state_gives_the_same_bytes_in_any_order(pages):
    assert human_pages(replace(STATE, entries=STATE.entries[::-1])) == pages
    assert human_root({"k": listing_of(STATE)}) == human_root({"k": listing_of(STATE)})


def test_the_start_page_has_the_address_of_each_platform_and_simple_for_exact_versions():
    def addresses(state):
        page = human_root({"k": listing_of(state)})["index.html"]
        tags = Reader(page).tags
        copied = [attrs["data-copy"] for _, attrs in tags if attrs.get("data-copy", "command") != "command"]
        assert copied == [attrs["id"] for _, attrs in tags if "data-address" in attrs]
        return page, [attrs["data-address"] for _, attrs in tags if "data-address" in attrs]

    page, listed = addresses(STATE)
    assert listed == ["cpu/", "cu128/", "cu130/", "cu132/", "simple/"]
    assert b"<span>For exact versions</span>" in page
    page, listed = addresses(project(entry("1.0")))
    assert listed == ["simple/"]
    assert b"<span>Every wheel</span>" in page


def test_nothing_of_somebody_else_becomes_markup(pages):
    nasty = replace(STATE, status=ProjectStatus.DEPRECATED, status_reason=NASTY)
    nasty = replace(nasty, entries=(*nasty.entries, of_torch("2.12", "13.0", yanked=NASTY)))
    for state in (STATE, nasty):
        page = Reader(human_pages(state)["projects/k/index.html"])
        assert [attrs.get("type") for tag, attrs in page.tags if tag == "script"] == [
            None, "application/json", None, None, None,
        ]  # fmt: skip
        reasons = [answer.get("reason", "") for answer in json.loads(page.inline["script"][1])["answers"]]
        assert any(visible(" ".join(NASTY.split())) in reason for reason in reasons)


def test_the_policy_lets_the_page_own_scripts_and_style_run_and_nothing_else(pages):
    for page in (pages["projects/k/index.html"], human_root({"k": listing_of(STATE)})["index.html"]):
        read = Reader(page)
        policy = next(attrs["content"] for tag, attrs in read.tags if attrs.get("http-equiv"))
        assert policy.startswith("default-src 'none'")
        for kind in ("script", "style"):
            texts = [text for text in read.inline[kind] if not text.startswith("{")]
            digests = {
                f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts
            }
            allowed = re.search(rf"{kind}-src ([^;]*)", policy)[1]
            assert set(allowed.split()) == digests
        assert not [attrs for _, attrs in read.tags if "style" in attrs or any(name.startswith("on") for name in attrs)]


def test_what_is_kept_back_is_nowhere(pages):
    for data in pages.values():
        assert b"2.14" not in data.replace(b"2.14.", b"")
        assert b"secret" not in data
    assert human_pages(project(entry("1.0+cu130.torch2.14", cell("2.14", "13.0", hidden=True)))) == {}


def test_the_grid_says_how_every_cell_stands():
    found = {each.id: shown for each, shown in catalogue_cells(catalogue_of(STATE)).items()}
    assert {name: shown.status.value for name, shown in found.items()} == {
        "torch211-cxx11-cpu-x86_64-linux": "built",
        "torch211-cxx11-cu130-x86_64-linux": "built",
        "torch211-cxx11-cu130-aarch64-linux": "built",
        "torch213-cxx11-cu130-x86_64-linux": "built",
        "torch213-cxx11-cu132-x86_64-linux": "folded",
        "torch29-cxx11-cu128-x86_64-linux": "older",
        "torch29-cxx11-cpu-x86_64-linux": "yanked",
        "torch211-cxx11-cu132-x86_64-linux": "excluded",
        "torch213-cxx11-cpu-x86_64-linux": "failed",
    }
    assert found["torch213-cxx11-cu132-x86_64-linux"].detail == "of CUDA 13.0"
    assert found["torch29-cxx11-cu128-x86_64-linux"].detail == "0.9"
    x86, arm = grids(catalogue_cells(catalogue_of(STATE)))
    assert x86.columns == ("CPU", "CUDA 12.8", "CUDA 13.0", "CUDA 13.2")
    assert [row.heading for row in x86.rows] == ["torch 2.9", "torch 2.11", "torch 2.13"]
    assert (arm.caption, arm.columns) == ("aarch64", ("CUDA 13.0",))


def test_a_project_in_quarantine_has_a_page_that_says_so_and_offers_no_file():
    pages = human_pages(replace(STATE, status=ProjectStatus.QUARANTINED, status_reason="stolen key"))
    page = pages["projects/k/index.html"].decode()
    assert "stolen key" in page
    assert ".whl" not in page.split("</style>")[1]
    assert json.loads(pages["projects/k/catalogue.json"]).keys() == {
        "project", "schema_version", "status", "status_reason", "unserved",
    }  # fmt: skip


def test_a_project_whose_wheels_name_no_cell_is_shown_without_a_picker():
    page = human_pages(project(entry("1.0", tag="py3-none-any")))["projects/k/index.html"]
    assert 'class="picker"' not in page.decode()
    assert b"k-1.0-py3-none-any.whl" in page


# --- the catalogue ----------------------------------------------------------------------------------------------


def test_fields_of_later_versions_are_passed_over():
    data = json.loads(dump_catalogue(catalogue_of(STATE)))
    data["later"] = data["wheels"][0]["later"] = data["wheels"][0]["cells"][0]["later"] = 1
    data["wheels"][0]["provenance"]["later"] = data["unserved"][0]["later"] = data["unserved"][0]["cell"]["later"] = 1
    assert load_catalogue(json.dumps(data).encode(), "here") == catalogue_of(STATE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update(schema_version=99), "a newer wheelsmith"),
        (lambda data: data["wheels"][0].update(filename="k-1.0-py3-none-$(id).whl"), "not a valid catalogue"),
        (lambda data: data["wheels"][0].update(requires=["--index-url=x"]), "not a valid catalogue"),
        (lambda data: data["wheels"][0]["cells"][0].update(torch="2"), "not a valid catalogue"),
        (lambda data: data["wheels"][0].update(bundle="../../evil.json"), "not a valid catalogue"),
    ],
)
def test_a_catalogue_that_lies_is_refused(change, said):
    data = json.loads(dump_catalogue(catalogue_of(STATE)))
    change(data)
    with pytest.raises(PackageIndexError, match=said):
        load_catalogue(json.dumps(data).encode(), "here")


@pytest.mark.parametrize(("field", "lie"), [("path", "../../evil.whl"), ("version", "1.0; id"), ("roots", ["../x"])])
def test_what_follows_from_other_fields_is_not_read(field, lie):
    data = json.loads(dump_catalogue(catalogue_of(STATE)))
    data["wheels"][0][field] = lie
    assert load_catalogue(json.dumps(data).encode(), "here") == catalogue_of(STATE)


@pytest.mark.parametrize("later", [{"compute": "rocm9"}, {"framework": "paddle", "paddle": "1.0"}])
def test_a_cell_of_a_later_versions_platform_or_framework_is_passed_over(later):
    catalogue = catalogue_of(STATE)
    data = json.loads(dump_catalogue(catalogue))
    for served in (*data["wheels"][0]["cells"], data["unserved"][0]["cell"]):
        served.update(later)
    read = load_catalogue(json.dumps(data).encode(), "here")
    assert (read.wheels, read.unserved) == (catalogue.wheels[1:], catalogue.unserved[1:])


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("file:///srv/my wheels", "file:///srv/my%20wheels/"),
        ("https://h/$(id)`'\"\\;\n{", "https://h/%24%28id%29%60%27%22%5C%3B%0A%7B/"),
        ("https://h/ü%20", "https://h/%C3%BC%20/"),
    ],
)
def test_an_address_holds_nothing_that_a_shell_reads(address, base):
    assert quote_address(address) == base


@pytest.mark.parametrize(
    ("entries", "status"),
    [
        # torch 2.9 was built for CUDA 12.6, 12.8 and 13.0.
        ([of_torch("2.9", "13.0")], GridStatus.BUILT),
        ([of_torch("2.9", "13.2")], GridStatus.UNPAIRED),
        ([of_torch("2.9", "13.2", yanked="bad")], GridStatus.YANKED),
        # One that was made with CUDA 13.0 and serves 13.2 goes with the torch for 13.0.
        (
            [
                of_torch("2.9", "13.2", version="2.0"),
                entry("1.0+cu130.torch2.9", cell("2.9", "13.2"), provenance=provenance(cell("2.9", "13.2"))),
            ],
            GridStatus.OLDER,
        ),
    ],
)
def test_the_matrix_says_what_the_picker_says(entries, status):
    catalogue = catalogue_of(project(*entries))
    ((place, shown),) = catalogue_cells(catalogue).items()
    target = Target(release=place.release, compute=place.compute, arch=place.arch, python="3.12")
    chosen = Chooser(catalogue).choose(target)
    if status is not GridStatus.FOLDED:
        assert shown.status is status
    usable = shown.status in {GridStatus.BUILT, GridStatus.FOLDED, GridStatus.OLDER}
    assert isinstance(chosen, Choice) is usable
    if isinstance(chosen, Choice):
        assert shown.link == f"#wheel-{catalogue.wheels.index(chosen.wheel)}"
    page = human_pages(project(*entries))["projects/k/index.html"].decode()
    assert f'<td class="is-{shown.status}" ' in page
