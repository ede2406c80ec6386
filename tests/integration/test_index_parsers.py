"""Other people's parsers read every page, and HTML says what JSON says."""

import json
import urllib.request
import warnings
from datetime import datetime
from functools import partial
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from loopback import serving
from mousebender import simple
from pypi_simple import PyPISimple
from torches import NOW, publish_kernels
from wheels import make_wheel, offer

from wheelsmith.index.entries.entry import ProjectStatus
from wheelsmith.index.entries.state import set_status, yank
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = pytest.mark.xdist_group("parsers")

HTML, JSON = "text/html", "application/vnd.pypi.simple.v1+json"
REASON = 'slow & wrong for n > "2**31" <b>&lt;'


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Kernels for every torch; and a project of each status, with wheels that were yanked with a reason and without."""
    folder = tmp_path_factory.mktemp("parsers")
    publish_kernels(folder / "index", folder / "wheels")
    index = Index(Folder(folder / "index"))
    for status in ProjectStatus:
        name = f"said-{status}"
        wheels = [make_wheel(folder, name.replace("-", "_"), f"{version}+cu130.torch2.9") for version in (1, 2, 3)]
        index.add([offer(path, Cell(release="2.9", toolkit="13.0", arch="x86_64")) for path in wheels], upload_time=NOW)
        index.change(name, lambda state: yank(yank(state, "1", REASON), "2", ""))
        reason = None if status is ProjectStatus.ACTIVE else REASON
        index.change(name, partial(set_status, status=status, reason=reason))
    with serving(folder / "index") as url:
        yield folder / "index", url


@pytest.fixture(scope="module")
def pages(index):
    """Every page of every root, as ``cu130/kernel``."""
    root, _ = index
    found = sorted(page.parent.relative_to(root).as_posix() for page in root.glob("*/*/index.json"))
    assert {page.split("/")[0] for page in found} == {"simple", "cpu", "cu128", "cu130", "cu132"}
    return found


def get(url, accept):
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept})) as response:
        return response.read().decode(), response.headers["Content-Type"]


class Anchors(HTMLParser):
    """What neither parser reads from HTML: two facts that have no standard name there, and an old name (PEP 714)."""

    def __init__(self) -> None:
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        said = dict(attrs)
        if tag == "a":
            metadata = said["data-dist-info-metadata"]
            self.found.append((said["data-size"], said["data-upload-time"], metadata.removeprefix("sha256=")))


def test_pypi_simple_reads_the_same_from_html_and_json(index, pages):
    _, url = index
    statuses = set()
    for page in pages:
        root, project = page.split("/")
        said = {}
        for kind in (HTML, JSON):
            with PyPISimple(endpoint=f"{url}/{root}/", accept=kind) as client:
                read = client.get_project_page(project)
            files = [
                (
                    *(file.filename, file.project, file.version, file.package_type, file.url, file.digests),
                    *(file.requires_python, file.has_metadata, file.metadata_digests, file.metadata_url),
                    # In JSON a reason must not be empty, so there it is none (PEP 691).
                    *(file.is_yanked, file.yanked_reason or None),
                )
                for file in read.packages
            ]
            said[kind] = (read.repository_version, read.status, read.status_reason, files)
        assert said[HTML] == said[JSON]
        assert said[JSON][0] == "1.4"
        statuses.add(said[JSON][1:3])
        # A quarantined project offers nothing (PEP 792).
        assert bool(said[JSON][3]) is (project != "said-quarantined")
        assert {file[-1] for file in said[JSON][3] if project == "said-archived"} <= {None, REASON}
    assert {(status.value, reason) for status, reason in statuses} == {
        ("active", None),
        *((status, REASON) for status in ("archived", "quarantined", "deprecated")),
    }


def test_mousebender_reads_the_same_from_html_and_json(index, pages):
    _, url = index
    for page in pages:
        project = page.split("/")[1]
        details = simple.parse_project_details(*get(f"{url}/{page}/", JSON), project)
        with warnings.catch_warnings():
            # It knows 1.4, but says of HTML that it knows 1.1.
            warnings.simplefilter("ignore", simple.APIVersionWarning)
            read = simple.parse_project_details(*get(f"{url}/{page}/", HTML), project)
        assert details["meta"] == {"api-version": "1.4"}
        assert details["name"] == read["name"] == project
        keys = ("filename", "url", "hashes", "requires-python", "core-metadata")
        said, read = (
            [[*(file.get(key) for key in keys), file.get("yanked", False)] for file in source["files"]]
            for source in (details, read)
        )
        assert said == read
        versions = {file["filename"].split("-")[1] for file in details["files"]}
        assert sorted(details["versions"]) == sorted(versions)


def test_html_tells_what_only_some_installers_read(index, pages):
    _, url = index
    for page in pages:
        files = json.loads(get(f"{url}/{page}/", JSON)[0])["files"]
        anchors = Anchors()
        anchors.feed(get(f"{url}/{page}/", HTML)[0])
        assert anchors.found == [
            (str(file["size"]), file["upload-time"], file["core-metadata"]["sha256"]) for file in files
        ]
        assert all(datetime.fromisoformat(file["upload-time"]) for file in files)


def test_the_lists_name_every_project_that_has_a_page(index, pages):
    _, url = index
    for root in {page.split("/")[0] for page in pages}:
        projects = sorted(page.split("/")[1] for page in pages if page.startswith(f"{root}/"))
        for kind in (HTML, JSON):
            with PyPISimple(endpoint=f"{url}/{root}/", accept=kind) as client:
                page = client.get_index_page()
            assert (page.projects, page.repository_version) == (projects, "1.4")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", simple.APIVersionWarning)
                read = simple.parse_project_index(*get(f"{url}/{root}/", kind))
            assert [project["name"] for project in read["projects"]] == projects


def test_every_file_and_side_car_is_where_its_page_says(index, pages):
    _, url = index
    listed = set()
    for page in pages:
        for file in json.loads(get(f"{url}/{page}/", JSON)[0])["files"]:
            listed.add((urljoin(f"{url}/{page}/", file["url"]), file["size"]))
    for address, size in listed:
        assert len(urllib.request.urlopen(address).read()) == size
        assert urllib.request.urlopen(f"{address}.metadata").read().startswith(b"Metadata-Version")
    assert len(listed) > 50
