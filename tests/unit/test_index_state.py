"""What may become of a project's state."""

import json
from dataclasses import replace
from functools import partial

import pytest
import states
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.entries.entry import CellWithoutWheel, NoWheel, ProjectState, ProjectStatus
from wheelsmith.index.entries.render import simple_pages
from wheelsmith.index.entries.state import add_entries, project_of, set_status, unyank, yank
from wheelsmith.index.entries.stored_states import dump_state, load_state
from wheelsmith.index.site.listing import listing_of
from wheelsmith.model import Cell

EMPTY = ProjectState(project="k")
CELLS = [Cell(release=t, toolkit=c, arch="x86_64") for t in ("2.9", "2.10") for c in (None, "13.0")]


entry = partial(states.entry, tag="py3-none-any", sha256="ab" * 32, size=7, requires_python=None, requires_torch=None)


def answer(cell, version="1", status=NoWheel.EXCLUDED):
    return CellWithoutWheel(cell=cell, version=version, status=status, reason="because")


additions = st.lists(
    st.builds(
        lambda version, cells: entry(version, *cells),
        st.sampled_from(["1", "1+cpu.torch2.9", "1+cpu.torch2.10", "2"]),
        st.lists(st.sampled_from(CELLS), max_size=3, unique_by=lambda cell: cell.id),
    ),
    max_size=6,
)


@given(additions, st.randoms(use_true_random=False))
def test_the_order_in_which_wheels_come_does_not_matter(entries, random):
    shuffled = random.sample(entries, len(entries))
    state = add_entries(EMPTY, entries)
    assert add_entries(EMPTY, shuffled) == state
    one_by_one = EMPTY
    for one in shuffled:
        one_by_one = add_entries(one_by_one, [one])
    assert one_by_one == state
    assert add_entries(state, entries) == state
    assert load_state(dump_state(state), "x", "k") == state


def test_a_wheel_with_metadata_alone_beside_it_is_written_as_ever():
    assert b"side_files" not in dump_state(add_entries(EMPTY, [entry("1")]))


def test_other_bytes_under_a_published_name_are_refused():
    state = add_entries(EMPTY, [entry("1")])
    with pytest.raises(PackageIndexError, match="a published file never changes"):
        add_entries(state, [entry("1", sha256="ef" * 32)])


def test_a_wheel_that_comes_again_keeps_its_date_and_its_yank():
    state = yank(add_entries(EMPTY, [entry("1", CELLS[0])]), "1", "wrong")
    again = replace(entry("1", CELLS[1]), upload_time="2027-01-01T00:00:00Z")
    (kept,) = add_entries(state, [again]).entries
    assert (kept.upload_time, kept.yanked) == ("2026-01-02T03:04:05Z", "wrong")
    assert set(kept.cells) == set(CELLS[:2])


@pytest.mark.parametrize(
    ("chosen", "count"),
    [("1", 2), ("1+cpu.torch2.9", 1), ("k-1+cpu.torch2.10-py3-none-any.whl", 1), ("2", 1), ("1.0", 2)],
)
def test_yanking_names_a_version_or_a_file(chosen, count):
    state = add_entries(EMPTY, [entry("1+cpu.torch2.9"), entry("1+cpu.torch2.10"), entry("2")])
    yanked = yank(state, chosen, "")
    assert sum(one.yanked == "" for one in yanked.entries) == count
    assert unyank(yanked, chosen) == state


@pytest.mark.parametrize("chosen", ["3", "k", "", "1+cu130", "../x"])
def test_yanking_what_is_not_there_is_refused(chosen):
    with pytest.raises(PackageIndexError, match="has no wheel"):
        yank(add_entries(EMPTY, [entry("1+cpu.torch2.9")]), chosen, "")


def test_a_yank_shows_on_every_page_with_its_reason():
    state = add_entries(EMPTY, [entry("1+cpu", CELLS[0]), entry("2+cpu", CELLS[0])])
    pages = simple_pages(yank(yank(state, "1", 'wrong "bytes" <b>'), "2", ""))
    files = json.loads(pages["cpu/k/index.json"])["files"]
    assert [file["yanked"] for file in files] == ['wrong "bytes" <b>', True]
    assert b'data-yanked="wrong &#34;bytes&#34; &lt;b&gt;"' in pages["simple/k/index.html"]


@pytest.mark.parametrize("status", list(ProjectStatus))
def test_a_status_decides_what_is_taken_and_offered(status):
    state = set_status(add_entries(EMPTY, [entry("1", CELLS[0])]), status, "so <it> is")
    if status in {ProjectStatus.ARCHIVED, ProjectStatus.QUARANTINED}:
        with pytest.raises(PackageIndexError, match="accepts no new wheels"):
            add_entries(state, [entry("2")])
        assert add_entries(state, [entry("1", CELLS[0])]) == state
    else:
        assert len(add_entries(state, [entry("2")]).entries) == 2
    detail = json.loads(simple_pages(state)["simple/k/index.json"])
    assert detail["project-status"] == {"status": status, "reason": "so <it> is"}
    assert bool(detail["files"]) == (status is not ProjectStatus.QUARANTINED)
    assert b"so &lt;it&gt; is" in simple_pages(state)["simple/k/index.html"]


def test_the_last_answer_of_a_cell_stays_until_a_wheel_of_that_version_serves_it():
    first, second, third, _ = CELLS
    state = add_entries(EMPTY, [entry("1", first)], [answer(second), answer(third, status=NoWheel.FAILED)])
    assert [one.cell for one in state.answers] == sorted([second, third], key=lambda cell: cell.id)
    state = add_entries(state, [entry("1+cpu", third)])
    assert [one.cell for one in state.answers] == [second]
    # A newer version answers anew.
    assert add_entries(state, [entry("2", first)]).answers == ()
    assert add_entries(state, [entry("2", first)], [answer(second)]).answers == ()
    assert len(add_entries(state, [entry("2", first)], [answer(second, "2")]).answers) == 1


def test_an_older_version_published_later_takes_no_answer_of_the_newest():
    first, second, *_ = CELLS
    newest = add_entries(EMPTY, [entry("2", first)], [answer(second, "2", NoWheel.FAILED)])
    assert add_entries(newest, [entry("1", first)], [answer(second, "1")]).answers == newest.answers
    before = add_entries(EMPTY, [entry("1", first)], [answer(second, "1")])
    assert add_entries(before, [entry("2", first)], [answer(second, "2", NoWheel.FAILED)]).answers == newest.answers


def test_states_of_the_first_schema_are_read():
    old = {
        "schema_version": 1,
        "project": "k",
        "entries": [
            {
                "filename": "k-1-py3-none-any.whl",
                "sha256": "ab" * 32,
                "size": 7,
                "requires_python": None,
                "metadata_sha256": "cd" * 32,
                "upload_time": "2026-01-02T03:04:05Z",
                "cells": [],
            }
        ],
    }
    assert load_state(json.dumps(old).encode(), "x", "k") == add_entries(EMPTY, [entry("1")])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "broken"),
        (b'{"schema_version": 9}', "newer wheelsmith"),
        (b'{"schema_version": 2, "project": "k", "entries": [{}]}', "broken"),
    ],
)
def test_a_broken_state_is_one_clear_error(data, message):
    with pytest.raises(PackageIndexError, match=message):
        load_state(data, "_state/k.json", "k")


@pytest.mark.parametrize("filename", ["x.whl", "../k-1-py3-none-any.whl", "_-1-py3-none-any.whl", "k-1.tar.gz"])
def test_only_wheels_of_projects_with_a_good_name_are_held(filename):
    with pytest.raises(PackageIndexError, match="name"):
        project_of(filename)


def test_the_lists_say_what_a_project_serves():
    state = add_entries(EMPTY, [entry("1", *CELLS), entry("2+cpu", CELLS[0])])
    listing = listing_of(yank(state, "2", ""))
    torches = {each.release for row in listing.coverage for each in row.combinations}
    assert (listing.version, torches, listing.roots) == ("1", {"2.9", "2.10"}, ("cpu", "cu130", "simple"))
