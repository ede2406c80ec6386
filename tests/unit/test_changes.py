"""What a version brings: by its cells, against the version before."""

from dataclasses import replace

from states import cell, of_torch, project, unserved

from wheelsmith.index.entries.catalogue import catalogue_of, version_changes
from wheelsmith.index.entries.entry import NoWheel
from wheelsmith.report.markdown import changes_text

BEFORE = project(of_torch("2.10", None), of_torch("2.11", None), of_torch("2.11", "13.0", gpu_archs=("8.0", "9.0+PTX")))
NOW = project(
    of_torch("2.11", None, version="1.1"),
    replace(of_torch("2.11", "13.0", version="1.1", gpu_archs=("9.0", "9.0+PTX")), size=246912),
    of_torch("2.13", "13.0", version="1.1"),
    answers=(
        unserved(cell("2.10", None), NoWheel.EXCLUDED, "torch 2.10 has *no* `<b>`", version="1.1"),
        unserved(cell("2.13", None), NoWheel.FAILED, "compile: failed\n# Not a title", version="1.1"),
    ),
)


def text(earlier, now, version="1.1"):
    return changes_text(version_changes(catalogue_of(earlier), catalogue_of(now), version))


def test_a_first_version_lists_its_wheels():
    said = text(project(), BEFORE, "1.0")
    assert "# k 1.0" in said
    assert "3 wheels for 3 combinations, 370.4 kB; there is no older version." in said
    assert "## Wheels" in said
    assert said.count("\n- `torch") == 3


def test_cells_come_and_go_with_reasons_and_change():
    said = text(BEFORE, NOW)
    assert "3 wheels for 3 combinations, 493.8 kB; 1.0 had 3 wheels for 3 combinations, 370.4 kB." in said
    new, changed, gone, without = said.split("\n## ")[1:]
    assert new.startswith("New\n\n- `torch213-cxx11-cu130-x86_64-linux`: `k-1.1+cu130.torch2.13-")
    assert "123.5 kB → 246.9 kB (+100%), new GPU code for 9.0, no GPU code for 8.0" in changed
    assert changed.count("\n- ") == 1
    assert "- `torch210-cxx11-cpu-x86_64-linux`: excluded: torch 2.10 has \\*no\\* \\`\\<b\\>\\`" in gone
    # In one line, which is no title.
    assert "failed: compile: failed \\# Not a title" in without


def test_it_is_compared_with_the_newest_that_is_older_whatever_is_published():
    published = project(*BEFORE.entries, *NOW.entries, of_torch("2.11", None, version="2.0"))
    changes = version_changes(catalogue_of(published), catalogue_of(NOW), "1.1")
    assert (changes.before, changes.version) == ("1.0", "1.1")
    # So it says the same when it is told again.
    assert text(published, NOW) == text(BEFORE, NOW)


def test_a_cell_that_the_matrix_has_no_more_is_gone():
    assert "no longer offered" in text(BEFORE, replace(NOW, answers=()))


def test_yanked_wheels_are_no_wheels():
    yanked = project(*(replace(entry, yanked="") for entry in BEFORE.entries))
    assert version_changes(catalogue_of(yanked), catalogue_of(NOW), "1.1").before is None
