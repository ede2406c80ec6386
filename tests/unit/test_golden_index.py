"""An index written by an earlier wheelsmith is read, written again byte for byte, and extended."""

import json
import shutil
from pathlib import Path

import pytest
from states import cell
from wheels import make_wheel, offer

from wheelsmith.index.entries.catalogue import dump_catalogue, load_catalogue
from wheelsmith.index.entries.stored_states import LISTING, dump_state, load_state
from wheelsmith.index.publish.input_folders import read_releases
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.site.listing import listing_of, load_listing
from wheelsmith.index.storage.folder import Folder

# Without the pages for people and the lists that they are rendered from. Both may change from one version to the next.
GOLDEN = Path(__file__).parent / "data" / "golden-index"
PROJECTS = ("k", "pure")
FOR_PEOPLE = {LISTING, "index.html", *(f"projects/{name}/index.html" for name in PROJECTS)}
NOW = "2026-03-04T05:06:07Z"


@pytest.fixture
def index(tmp_path):
    return shutil.copytree(GOLDEN, tmp_path / "index")


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def golden():
    return {key: data for key, data in content(GOLDEN).items() if key not in FOR_PEOPLE}


def test_unchanged_states_give_the_same_pages(index):
    assert {*Index(Folder(index)).repair(), LISTING} == FOR_PEOPLE
    assert verify(Folder(index)) == ()
    assert {key: data for key, data in content(index).items() if key not in FOR_PEOPLE} == golden()


def test_the_same_wheels_change_nothing(index):
    Index(Folder(index)).add(read_releases([GOLDEN]).uploads, upload_time=NOW)
    assert {key: data for key, data in content(index).items() if key not in FOR_PEOPLE} == golden()


@pytest.mark.parametrize(("project", "schema"), [("k", 4), ("pure", 3)])
def test_a_state_and_a_catalogue_are_written_as_they_were_read(project, schema):
    state = (GOLDEN / "_state" / f"{project}.json").read_bytes()
    assert json.loads(state)["schema_version"] == schema
    assert dump_state(load_state(state, "here", project)) == state
    catalogue = (GOLDEN / "projects" / project / "catalogue.json").read_bytes()
    assert dump_catalogue(load_catalogue(catalogue, "here")) == catalogue


def test_the_lists_of_an_earlier_wheelsmith_are_rendered_anew_by_the_next_publisher(index, tmp_path):
    Index(Folder(index)).add([offer(make_wheel(tmp_path, "new", "1"))], upload_time=NOW)
    listing = load_listing(Folder(index).read(LISTING))
    states = Index(Folder(index)).states()
    assert listing == {name: listing_of(state) for name, state in states.items()}
    assert set(listing) == {*PROJECTS, "new"}


@pytest.mark.parametrize("project", PROJECTS)
def test_a_new_wheel_leaves_the_others_as_they_were(project, index, tmp_path):
    before = json.loads((index / "_state" / f"{project}.json").read_bytes())
    wheel = make_wheel(tmp_path, project, "3+cpu.torch2.13", requires=("torch==2.13.*",))
    Index(Folder(index)).add([offer(wheel, cell("2.13", None))], upload_time=NOW)
    after = json.loads((index / "_state" / f"{project}.json").read_bytes())
    assert [entry for entry in after["entries"] if entry["filename"] != wheel.name] == before["entries"]
    assert {name: after[name] for name in after.keys() - {"entries", "answers"}} == {
        name: before[name] for name in before.keys() - {"entries", "answers"}
    }
    page = json.loads((index / "simple" / project / "index.json").read_bytes())
    known = json.loads((GOLDEN / "simple" / project / "index.json").read_bytes())
    assert [file for file in page["files"] if file["filename"] != wheel.name] == known["files"]
    assert {trouble.key for trouble in verify(Folder(index))} <= FOR_PEOPLE
