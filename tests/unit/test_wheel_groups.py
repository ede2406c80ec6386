"""A project's page lists its wheels by version, compute platform and torch, each linked to the picker's answer."""

import pytest
from states import cell, entry, of_torch, project, provenance

from wheelsmith.index.entries.catalogue import catalogue_of
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.site.picker import format_releases, make_picker, versions_of


def versions(*entries):
    chooser = Chooser(catalogue_of(project(*entries)))
    return versions_of(chooser, make_picker(chooser))


def headings(version):
    return [(group.heading, [shown.title for shown in group.wheels]) for group in version.groups]


def test_the_newest_version_cuda_and_torch_come_first():
    old = of_torch("2.9", "12.8", version="1.9")
    new = [of_torch(torch, cuda, version="1.10") for torch in ("2.9", "2.11") for cuda in (None, "12.8", "13.0")]
    first, second = versions(old, *new)
    assert (first.public, len(first.wheels), first.published) == ("1.10", 6, "2026-01-02")
    assert headings(first) == [(name, ["torch 2.11", "torch 2.9"]) for name in ("CUDA 13.0", "CUDA 12.8", "CPU")]
    assert (second.public, headings(second)) == ("1.9", [("CUDA 12.8", ["torch 2.9"])])


def test_a_wheel_stands_with_the_cuda_that_it_is_made_with():
    made = cell("2.11", "13.0")
    folded = entry("1.0+cu130", made, cell("2.13", "13.2"), provenance=provenance(made))
    nobodys = entry("1.0+cu128", cell("2.11", "12.9"), cell("2.11", "12.8"))
    (version,) = versions(folded, nobodys)
    assert headings(version) == [
        ("CUDA 13.0", ["torch 2.11, 2.13"]),
        ("CUDA 12.8", ["torch 2.11"]),
    ]


def test_wheels_for_all_and_for_nobody_knows_what_have_groups_too():
    pure = entry("1.0", cell("2.11", None), cell("2.11", "13.0"), tag="py3-none-any")
    (version,) = versions(pure, entry("1.0", tag="cp312-cp312-linux_x86_64"))
    assert headings(version) == [
        ("CPU and every CUDA", ["torch 2.11"]),
        ("Compute platform not named", ["torch not named"]),
    ]
    assert [shown.target is None for group in version.groups for shown in group.wheels] == [False, True]


@pytest.mark.parametrize("fields", [{"version": "0.9"}, {"yanked": "wrong"}])
def test_what_the_picker_does_not_answer_with_is_not_linked_to_it(fields):
    shown = [
        shown
        for version in versions(of_torch("2.11", "13.0"), of_torch("2.11", "13.0", **{"version": "1.1", **fields}))
        for group in version.groups
        for shown in group.wheels
    ]
    assert {str(item.wheel.version): item.target for item in shown} == {
        "1.0+cu130.torch2.11": "torch=2.11&compute=cu130&arch=x86_64",
        f"{fields.get('version', '1.1')}+cu130.torch2.11": None,
    }


def test_a_wheel_for_one_python_is_linked_with_it():
    made = cell("2.11", "13.0", python="3.13")
    (version,) = versions(entry("1.0+cu130.torch2.11", made, tag="cp313-cp313-manylinux_2_34_x86_64"))
    (shown,) = version.groups[0].wheels
    assert (shown.machine, shown.target) == (
        "x86_64, Python 3.13",
        "torch=2.11&compute=cu130&arch=x86_64&python=3.13",
    )


def test_a_span_names_its_ends():
    assert [format_releases(names) for names in ((), ("2.9",), ("2.9", "2.10", "2.11"))] == ["", "2.9", "2.9 – 2.11"]  # noqa: RUF001  # a range
    assert [format_releases(names) for names in (("2.11", "2.13"), ("2.8", "2.10", "2.11"), ("2.9", "3.0"))] == [
        "2.11, 2.13",
        "2.8, 2.10 – 2.11",  # noqa: RUF001  # a range
        "2.9, 3.0",
    ]
