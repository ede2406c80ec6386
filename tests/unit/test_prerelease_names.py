"""The names of torch's pre-releases: on axes, in versions and requirements, in order, and on torch's indexes."""

import pytest
from packaging.requirements import Requirement
from wheels import make_wheel, offer

from wheelsmith.base.errors import MatrixMistakesError
from wheelsmith.base.units import release_order
from wheelsmith.frameworks import framework, local_version_of, prerelease_index, read_local_version, torch_index
from wheelsmith.index.publish.promote import why_not_stable
from wheelsmith.index.resolve.choose import Axes
from wheelsmith.index.resolve.target import accepts
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.matrix.types import Selector
from wheelsmith.model import Cell, release_title

CANDIDATE, NIGHTLY = "2.16.0rc2", "2.17.0.dev20261120"
TEXT = "kernel: {{path: .}}\naxes:\n  {axis}: [{value}]\n  cuda: [cpu]\n"


def cell(release):
    return Cell(release=release, toolkit="13.0", arch="x86_64")


@pytest.mark.parametrize(("written", "read"), [("2.16-rc2", CANDIDATE), ("2.16.0.RC2", CANDIDATE), (NIGHTLY, NIGHTLY)])
def test_an_axis_has_pre_releases_in_normal_form_and_their_places(written, read):
    matrix = parse_matrix(TEXT.format(axis="torch", value=written))
    assert (matrix.releases, matrix.places) == ((read,), {read: "matrix.yaml:3:11"})


@pytest.mark.parametrize(
    ("axis", "value", "said"),
    [
        ("torch", "2.16.0rc2+cpu", "write 2.16.0rc2"),
        ("torch", "2.16.1", "write 2.16"),
        ("tvm-ffi", "0.2.0rc1", "write 0.2"),
        ("tvm-ffi", "nightly", "is not a release"),
    ],
)
def test_other_texts_stay_mistakes(axis, value, said):
    with pytest.raises(MatrixMistakesError) as caught:
        parse_matrix(TEXT.format(axis=axis, value=value))
    assert said in caught.value.mistakes[0].message


@pytest.mark.parametrize("release", [CANDIDATE, NIGHTLY])
def test_a_local_version_names_a_pre_release_and_is_read_again(release):
    local = local_version_of(cell(release), stable_abi=False)
    assert local == f"cu130.torch{release}"
    read = read_local_version(local)
    assert (read.release, read.compute, read.own) == (release, "cu130", True)


def test_a_wheel_for_a_pre_release_requires_exactly_it():
    required = Requirement(framework("torch").requirement(CANDIDATE)).specifier
    versions = (CANDIDATE, f"{CANDIDATE}+cu130", "2.16.0rc1", "2.16.0", "2.16.1")
    assert [version for version in versions if version in required] == [CANDIDATE, f"{CANDIDATE}+cu130"]
    assert accepts(str(required), CANDIDATE)
    assert not accepts(str(required), "2.16")


def test_a_pre_release_sorts_before_its_release_and_after_the_one_before():
    assert sorted(["2.16", NIGHTLY, CANDIDATE, "2.9", ""], key=release_order) == ["", "2.9", CANDIDATE, "2.16", NIGHTLY]


def test_a_cell_says_that_its_release_is_a_pre_release():
    assert cell(CANDIDATE).to_json()["prerelease"] is True
    assert Cell.from_json(cell(CANDIDATE).to_json()) == cell(CANDIDATE)
    assert "prerelease" not in cell("2.13").to_json()
    assert release_title("torch", CANDIDATE) == "torch 2.16.0rc2 (pre-release)"


def test_rules_select_pre_releases_by_value_glob_and_specifier():
    patterns = (NIGHTLY, "*.dev*", ">2.16", "<2.17")
    matched = [each for each in patterns if Selector(releases=(each,)).matches(cell(NIGHTLY))]
    assert matched == [NIGHTLY, "*.dev*", ">2.16"]


def test_each_kind_of_pre_release_has_its_index(monkeypatch):
    monkeypatch.setenv("WHEELSMITH_TORCH_INDEX", "http://mirror/torch")
    builds = [f"{CANDIDATE}+cu130", f"{NIGHTLY}+cpu", "2.13.0+cpu", CANDIDATE, "x"]
    found = [prerelease_index(build, torch_index()) for build in builds]
    assert found == ["http://mirror/torch/test/cu130", "http://mirror/torch/nightly/cpu", None, None, None]


@pytest.mark.parametrize(
    ("releases", "tried"), [(("2.13", CANDIDATE, NIGHTLY), ("2.13",)), ((CANDIDATE, NIGHTLY), (NIGHTLY, CANDIDATE))]
)
def test_a_pre_release_is_picked_by_default_only_if_there_is_nothing_else(releases, tried):
    assert Axes(releases=releases, computes=("cpu",), archs=("x86_64",), pythons=()).by_default == tried


@pytest.mark.parametrize(("channel", "taken"), [("stable", False), ("prod", False), ("nightly", True), ("test", True)])
def test_only_channels_for_pre_releases_take_their_wheels(channel, taken, tmp_path):
    wheels = [
        make_wheel(tmp_path, "k", f"1+cpu.{torch}") for torch in (f"torch{CANDIDATE}", "torch2.13", "torchstable")
    ]
    why = why_not_stable([offer(path, cell("2.13")).entry for path in wheels], channel)
    assert why is None if taken else why == f"for a pre-release of torch: {wheels[0].name}"


def test_an_unknown_release_and_an_unknown_pre_release_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path))
    assert "torch 2.99 is not known" in framework("torch").why_impossible(cell("2.99"), any_minor=False)
    why = framework("torch").why_impossible(cell(CANDIDATE), any_minor=False)
    assert why.startswith("this machine does not know torch 2.16.0rc2 for cu130 on x86_64")
