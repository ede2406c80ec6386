"""What is planned for a version, what its tests came to, and which versions may go."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import cell, entry, of_torch, project, unserved

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.entries.catalogue import catalogue_of, dump_catalogue, load_catalogue
from wheelsmith.index.entries.entry import NoWheel, PlannedVersion, WheelOutcome, WheelTest
from wheelsmith.index.entries.state import (
    add_entries,
    completeness,
    outdated_versions,
    record_test,
    remove,
    remove_outdated,
    yank,
)
from wheelsmith.index.entries.stored_states import dump_state, load_state
from wheelsmith.index.publish.writer import project_pages
from wheelsmith.wheel.variant_format import variant_for

CPU, CUDA, ARM = cell("2.11", None), cell("2.11", "13.0"), cell("2.11", "13.0", "aarch64")
PLANNED = PlannedVersion(version="1.0", cells=tuple(sorted((CPU.id, CUDA.id, ARM.id))))
H200 = WheelTest(outcome=WheelOutcome.PASSED, where="H200, driver 580")


def said(*, excluded=(), tried=(), cells=(CPU, CUDA, ARM), version="1.0"):
    """What a run says: which cells there are, which of them it left out, and which it tried to build."""
    given = (tuple(sorted(cell.id for cell in group)) for group in (cells, excluded, tried))
    return PlannedVersion(version=version, **dict(zip(("cells", "excluded", "tried"), given, strict=True)))


def planned(*wheels, runs=(PLANNED,)):
    return add_entries(project(), wheels, (), runs)


def missing(state, version="1.0"):
    return completeness(state, version).missing


def page(state):
    return project_pages(state)["projects/k/index.html"].decode()


def test_a_version_lacks_what_is_planned_and_has_no_wheel():
    state = planned(of_torch("2.11", None))
    assert missing(state) == tuple(sorted((CUDA.id, ARM.id)))
    assert "Not complete" in page(state)
    assert "1 of 3 combinations have a wheel" in page(state)
    assert ARM.id in page(state)


def test_a_version_that_is_yanked_as_a_whole_is_yanked_and_not_incomplete():
    wheels = [of_torch("2.11", cuda, version=version) for version in ("1.0", "2.0") for cuda in (None, "13.0")]
    runs = [PLANNED, said(version="2.0")]
    part = page(yank(planned(*wheels, runs=runs), "2.0+cpu.torch2.11", "wrong results"))
    assert "version 2.0: 1 of 3 combinations have a wheel" in part
    assert "version 2.0 was yanked" not in part
    whole = page(yank(planned(*wheels, runs=runs), "2.0", "wrong <results>"))
    assert "version 2.0 was yanked: wrong &lt;results&gt;</p>" in whole
    assert "version 2.0:" not in whole
    assert "version 1.0: 2 of 3 combinations have a wheel" in whole


def test_the_wheels_of_the_version_in_the_title_are_first():
    wheels = [of_torch("2.11", None, version=version) for version in ("1.0", "2.0", "3.0")]
    text = page(yank(yank(project(*wheels), "3.0", "wrong results"), "1.0", "older"))
    assert '<span class="version">2.0</span>' in text
    assert "of version 2.0</span>" in text
    listed = ("k-2.0+cpu.torch2.11", "Release history", "k-3.0+cpu.torch2.11", "k-1.0+cpu.torch2.11")
    wheels_on = text[text.index('id="wheels"') :]
    assert sorted(listed, key=wheels_on.index) == list(listed)
    # An older version than that in the title needs no banner.
    assert "version 1.0 was yanked" not in text
    all_yanked = page(yank(project(*wheels[:1]), "1.0", ""))
    assert "version 1.0 was yanked: no reason is given" in all_yanked


@pytest.mark.parametrize("turned", [False, True])
def test_what_every_run_leaves_out_is_not_missing_and_what_one_tried_is(turned):
    left_out, tried = said(excluded=[ARM], tried=[CPU, CUDA]), said(tried=[ARM])
    assert missing(planned(of_torch("2.11", None), runs=[left_out])) == (CUDA.id,)
    runs = [tried, left_out] if turned else [left_out, tried]
    state = planned(of_torch("2.11", None), runs=runs)
    assert missing(state) == tuple(sorted((CUDA.id, ARM.id)))
    # A newer version, whose answers take the place of the older one's, changes nothing of it.
    newer = add_entries(state, [of_torch("2.11", None, version="2.0")], [], [said(version="2.0")])
    assert missing(newer) == missing(state)


def test_what_one_run_left_out_and_another_built_is_missing_once_its_wheel_is_gone():
    wheel = of_torch("2.11", "13.0", "aarch64")
    state = planned(of_torch("2.11", None), wheel, runs=[said(excluded=[ARM]), said(tried=[ARM])])
    assert missing(state) == (CUDA.id,)
    assert ARM.id in missing(remove(state, wheel.filename))


def test_a_wheel_that_is_on_no_page_or_that_pip_does_not_read_serves_nobody():
    hidden = cell("2.11", "13.0", hidden=True)
    state = planned(of_torch("2.11", None), entry("1.0+cu130.torch2.11", hidden))
    assert CUDA.id in missing(state)
    needs = variant_for("cu130", ("9.0",))
    variant = entry("1.0+torch2.11", CUDA, tag=f"cp39-abi3-manylinux_2_34_x86_64-{needs.label}", variant=needs)
    assert CUDA.id in completeness(project(variant, planned=(PLANNED,)), "1.0").missing


def test_a_version_without_a_wheel_is_told_of_only_while_it_is_the_newest():
    runs = [said(version="1.0"), said(version="2.0"), said(version="3.0")]
    state = planned(of_torch("2.11", None), runs=runs)
    assert [found.version for found in catalogue_of(state).versions] == ["3.0", "1.0"]


def test_what_was_planned_for_a_version_goes_with_its_last_wheel():
    state = planned(of_torch("2.11", None), of_torch("2.11", "13.0"))
    assert remove(state, "1.0+cpu.torch2.11").planned == (PLANNED,)
    assert remove(state, "1.0").planned == ()


CELLS = st.sets(st.sampled_from([CPU.id, CUDA.id, ARM.id]))


@given(st.lists(st.tuples(CELLS, CELLS), max_size=4), st.permutations(range(4)))
def test_jobs_may_say_in_any_order_what_they_plan(said, order):
    parts = [
        PlannedVersion(version="1.0", cells=tuple(sorted(cells)), excluded=tuple(sorted(out))) for cells, out in said
    ]
    one, other = project(), project()
    for part in parts:
        one = add_entries(one, [], [], [part])
    for number in order:
        other = add_entries(other, [], [], parts[number : number + 1])
    assert one == other
    assert add_entries(one, [], [], parts) == one


def test_it_is_written_and_read_and_a_state_without_it_is_written_as_before():
    state = record_test(planned(of_torch("2.11", None)), "1.0", H200)
    assert load_state(dump_state(state), "here", "k") == state
    assert b'"schema_version": 4' in dump_state(state)
    assert b'"schema_version": 3' in dump_state(project(of_torch("2.11", None)))
    assert b'"schema_version": 4' in dump_state(record_test(project(of_torch("2.11", None)), "1.0", H200))


def test_the_last_test_of_a_machine_and_cell_counts_and_the_worst_of_all_is_the_wheels():
    state = project(of_torch("2.11", None))
    assert state.entries[0].outcome is WheelOutcome.UNTESTED
    flaky = replace(H200, outcome=WheelOutcome.FLAKY)
    failed = replace(H200, outcome=WheelOutcome.FAILED, where="CPU only", cell=CPU.id)
    state = record_test(record_test(record_test(state, "1.0", H200), "1.0", flaky), "1.0", failed)
    assert state.entries[0].tests == (failed, flaky)
    assert state.entries[0].outcome is WheelOutcome.FAILED
    state = record_test(state, "1.0", replace(failed, outcome=WheelOutcome.PASSED))
    assert state.entries[0].outcome is WheelOutcome.FLAKY


def test_a_test_is_of_the_wheels_that_serve_its_cell():
    state = project(of_torch("2.11", None), of_torch("2.11", "13.0"))
    tested = record_test(state, "1.0", replace(H200, cell=CUDA.id))
    assert [entry.outcome for entry in tested.entries] == [WheelOutcome.UNTESTED, WheelOutcome.PASSED]
    with pytest.raises(PackageIndexError, match="no wheel for the cell"):
        record_test(state, "1.0", replace(H200, cell=ARM.id))


def test_a_page_and_a_catalogue_tell_of_tests():
    state = record_test(planned(of_torch("2.11", None)), "1.0", replace(H200, details="https://ci.example.org/1"))
    catalogue = catalogue_of(state)
    assert load_catalogue(dump_catalogue(catalogue), "here") == catalogue
    assert catalogue.versions[0].missing == tuple(sorted((CUDA.id, ARM.id)))
    assert "tests passed" in page(state)
    assert "passed on <bdi>H200, driver 580</bdi>" in page(state)
    assert 'href="https://ci.example.org/1"' in page(state)
    assert "no result is recorded" in page(project(of_torch("2.11", None)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"where": ""},
        {"where": "a\u202eb"},
        {"cell": "<b>"},
        {"details": "javascript:alert(1)"},
    ],
)
def test_words_of_a_test_that_no_page_can_show_are_refused(wrong):
    with pytest.raises(ValueError, match="is no"):
        replace(H200, **wrong)


def nightlies(*days):
    return project(*(of_torch("2.11", None, version=f"1.0.dev{day}") for day in days))


def test_the_newest_stay_and_whole_versions_go():
    state = nightlies(1, 2, 9, 10)
    assert outdated_versions(state, keep=2) == ("1.0.dev2", "1.0.dev1")
    kept = remove_outdated(state, keep=2)
    assert [item.filename for item in kept.entries] == [item.filename for item in nightlies(9, 10).entries]
    # Their names never get other bytes.
    assert [item.filename for item in kept.removed] == [item.filename for item in nightlies(1, 2).entries]
    assert remove_outdated(kept, keep=2) == kept


def test_what_is_young_stays():
    state = nightlies(1, 2, 3)
    assert outdated_versions(state, keep=1, before="2026-01-02T03:04:05Z") == ()
    assert outdated_versions(state, keep=1, before="2026-01-02T03:04:06Z") == ("1.0.dev2", "1.0.dev1")


def test_a_yanked_version_is_none_of_those_that_stay():
    state = yank(nightlies(1, 2, 3), "1.0.dev3", "bad")
    assert outdated_versions(state, keep=1) == ("1.0.dev1",)
    assert outdated_versions(state, keep=3) == ()


def test_a_version_that_failed_altogether_goes_with_those_of_its_age():
    state = add_entries(nightlies(1, 3), [], [], [said(version="1.0.dev2"), said(version="1.0.dev4")])
    assert outdated_versions(state, keep=1) == ("1.0.dev2", "1.0.dev1")
    assert [item.version for item in remove_outdated(state, keep=1).planned] == ["1.0.dev4"]


def test_what_was_planned_and_answered_for_a_version_goes_with_it():
    answer = unserved(ARM, NoWheel.EXCLUDED, "no")
    state = add_entries(nightlies(2), [of_torch("2.11", None)], [answer], [PLANNED])
    gone = remove_outdated(add_entries(state, [of_torch("2.11", None, version="2.0")]), keep=1)
    assert ([entry.filename for entry in gone.entries], gone.answers, gone.planned) == (
        ["k-2.0+cpu.torch2.11-cp39-abi3-manylinux_2_34_x86_64.whl"],
        (),
        (),
    )
