"""The grid of the front page says of each combination what is there, and never the union of several."""

from dataclasses import replace

import pytest
from states import cell, entry, named, of_torch, stable, unserved

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.entries.entry import NoWheel
from wheelsmith.index.site.coverage import common_combinations, coverage
from wheelsmith.index.site.front import make_front
from wheelsmith.index.site.human import human_root
from wheelsmith.index.site.listing import dump_listing, listing_of, load_listing
from wheelsmith.index.storage.protocol import Stored
from wheelsmith.model import Cell


def front_of(*states):
    return make_front({state.project: listing_of(state) for state in states})


def shown(front, name):
    """Return column → machine → compute platform → status and requirement."""
    row = next(row for row in front.rows if row.project == name)
    return {
        release: {m.machine: {each.compute: (each.status.value, each.requirement) for each in m.covered} for m in marks}
        for (_, release), marks in zip(front.columns, row.cells, strict=True)
    }


def test_a_cell_has_only_what_is_there():
    front = front_of(named("a", of_torch("2.11", "13.0"), of_torch("2.13", None)))
    assert shown(front, "a") == {
        "2.13": {"x86_64": {"cpu": ("built", "a==1.0+cpu.torch2.13")}},
        "2.11": {"x86_64": {"cu130": ("built", "a==1.0+cu130.torch2.11")}},
    }


def test_an_older_wheel_is_shown_where_the_newest_version_failed_or_is_excluded():
    answers = (
        unserved(cell("2.11", "13.0"), NoWheel.FAILED, "nvcc died", version="2.0"),
        unserved(cell("2.11", None), NoWheel.EXCLUDED, "no CPU code", version="2.0"),
    )
    state = named("a", of_torch("2.11", "13.0"), of_torch("2.13", "13.0", version="2.0"), answers=answers)
    front = front_of(state)
    assert shown(front, "a")["2.11"] == {
        "x86_64": {"cpu": ("excluded", None), "cu130": ("older", "a==1.0+cu130.torch2.11")}
    }
    page = human_root({"a": listing_of(state)})["index.html"].decode()
    assert 'title="torch 2.11, CPU: no CPU code"' in page
    assert 'title="torch 2.11, CUDA 13.0: a==1.0+cu130.torch2.11; nvcc died"' in page


def test_equal_architectures_and_pythons_are_one_line():
    states = [of_torch("2.11", "13.0", arch, version="1.0") for arch in ("x86_64", "aarch64")]
    front = front_of(named("a", *states, of_torch("2.13", "13.0", "aarch64")))
    assert [list(each) for each in shown(front, "a").values()] == [["aarch64"], ["x86_64, aarch64"]]
    assert front.rows[0].machine is None
    pythons = [
        entry("1.0+cpu.torch2.11", cell("2.11", None, python=python), tag=f"cp{tag}-cp{tag}-manylinux_2_28_x86_64")
        for python, tag in (("3.11", "311"), ("3.12", "312"))
    ]
    front = front_of(named("b", *pythons))
    assert front.rows[0].machine == "x86_64, Python 3.11 – 3.12"  # noqa: RUF001  # a range


def test_a_stable_wheel_serves_every_torch_that_it_accepts():
    others = named("a", *(of_torch(torch, "13.0") for torch in ("2.9", "2.10", "2.13")))
    front = front_of(others, stable())
    statuses = {
        release: [each["cu130"] for each in cells.values()] for release, cells in shown(front, "stable").items()
    }
    pin = "stable==0.3+cu130.torchstable"
    assert statuses == {
        "2.13": [("stable", pin)],
        "2.12": [("built", pin)],
        "2.11": [("built", pin)],
        "2.10": [("stable", pin)],
        "2.9": [],
    }
    assert [row.stable for row in front.rows] == [None, "torch ≥2.10"]
    assert common_combinations(coverage([others, stable()])) == ("torch 2.10, CUDA 13.0", "torch 2.13, CUDA 13.0")


def test_a_stable_wheel_of_another_framework_names_it():
    cells = [replace(cell(release, None), framework="jax") for release in ("0.5", "0.10")]
    wheel = entry("1+cpu.jaxstable", *cells, tag="py3-none-manylinux_2_28_x86_64", requires=("jax>=0.5", "jaxlib>=0.5"))
    front = front_of(named("a", replace(wheel, requires_torch=None)))
    assert [row.stable for row in front.rows] == ["jax ≥0.5"]


def test_what_projects_have_in_common_is_for_one_machine_and_python():
    """Two projects with wheels for different architectures, or Pythons, have nothing in common."""
    x86, arm = of_torch("2.13", None), of_torch("2.13", None, "aarch64")
    assert common_combinations(coverage([named("a", x86), named("b", arm)])) == ()
    assert common_combinations(coverage([named("a", x86, arm), named("b", arm)])) == ("torch 2.13, CPU, aarch64",)
    both = ("torch 2.13, CPU", "torch 2.13, CPU, aarch64")
    assert common_combinations(coverage([named("a", x86, arm), named("b", x86, arm)])) == both
    pythons = [
        entry(
            "1.0+cu130.torch2.13",
            cell("2.13", "13.0", python=f"3.{minor}"),
            tag=f"cp3{minor}-cp3{minor}-manylinux_2_28_x86_64",
        )
        for minor in (12, 13)
    ]
    assert common_combinations(coverage([named("a", *pythons), named("b", pythons[0])])) == (
        "torch 2.13, CUDA 13.0, Python 3.12",
    )
    assert common_combinations(coverage([named("a", *pythons), named("b", *pythons)])) == ("torch 2.13, CUDA 13.0",)


def test_a_stable_wheel_does_not_serve_a_torch_without_a_build_for_its_cuda():
    later = named("a", of_torch("2.15", "13.0"))
    assert shown(front_of(later, stable(cuda="12.6")), "stable")["2.15"] == {}
    assert shown(front_of(later, stable(cuda="13.0")), "stable")["2.15"] != {}


def test_a_wheel_with_a_torch_in_its_version_serves_no_other_whatever_it_requires():
    loose = named("loose", of_torch("2.11", "13.0", requires_torch=""))
    front = front_of(named("a", of_torch("2.13", "13.0")), loose)
    assert shown(front, "loose")["2.13"] == {}
    assert front.rows[1].stable is None


def test_a_project_without_a_framework_goes_with_every_torch():
    bare = Cell(framework="none", release="", toolkit="13.0", arch="x86_64", cxx11_abi=None)
    state = named("bare", entry("1.0+cu130", bare, tag="py3-none-manylinux_2_28_x86_64"))
    assert front_of(state).columns == (("none", ""),)
    front = front_of(state, named("a", of_torch("2.11", "13.0"), of_torch("2.13", None)))
    built = {"x86_64": {"cu130": ("built", "bare==1.0+cu130")}}
    assert shown(front, "bare") == {"2.13": built, "2.11": built}


def test_a_list_keeps_all_of_it_and_one_of_an_older_wheelsmith_is_refused():
    listing = {state.project: listing_of(state) for state in (stable(), named("a", of_torch("2.13", None)))}
    data = dump_listing(listing)
    assert load_listing(Stored(data=data, tag="")) == listing
    for before, now in (
        (b'"coverage"', b'"torches"'),
        (b'"stable==0.3+', b'"--index-url=x'),
        (b'"root": "cu130"', b'"root": "../x"'),
    ):
        assert before in data
        with pytest.raises(PackageIndexError, match="lists are broken"):
            load_listing(Stored(data=data.replace(before, now), tag=""))
