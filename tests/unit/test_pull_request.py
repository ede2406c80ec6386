"""The text of a pull request that takes newer releases: its title, its marks, and its length."""

from wheelsmith.index.site.coverage import CoverageRow, Covered
from wheelsmith.index.site.grid import GridStatus
from wheelsmith.report.markdown import coverage_table
from wheelsmith.report.pull_request import _shortened, pull_request_title


def test_a_title_names_the_first_changes():
    assert pull_request_title(["torch 2.15"]) == "Take torch 2.15"
    assert pull_request_title(["a", "b", "c"]) == "Take a, b and c"
    assert pull_request_title(["a", "b", "c", "d", "e"]) == "Take a, b, c and 2 more"
    assert "\n" not in pull_request_title(["a\nb"])
    assert len(pull_request_title(["a" * 500])) == 200


def row(project, **statuses):
    combinations = tuple(
        Covered(framework="torch", release=f"2.{minor}", compute="cpu", status=GridStatus(status))
        for minor, status in zip((11, 13), statuses.values(), strict=False)
    )
    return CoverageRow(project=project, arch="x86_64", python=None, combinations=combinations)


def test_each_change_of_the_coverage_is_marked():
    before = [row("same", old="built"), row("lost", old="built"), row("gone", old="built")]
    after = [row("same", old="folded"), row("lost", old="excluded", new="excluded"), row("added", old="built")]
    assert coverage_table(after, before)[2:] == [
        "| same | ✓ |  |",
        "| lost | ✓ → · | **· new** |",
        "| added | **✓ new** |  |",
        "| gone | ✓ → none |  |",
    ]


def test_a_long_table_ends_with_the_number_of_its_other_rows():
    lines = [f"| {number:097} |" for number in range(500)]
    shown = [*_shortened(lines)]
    assert shown[:-1] == lines[: len(shown) - 1]
    assert shown[-1] == f"| and {500 - len(shown) + 1} more"
    assert 11_000 < len("".join(shown)) < 12_100
    assert [*_shortened(lines[:3])] == lines[:3]
