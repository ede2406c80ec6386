"""Wheels for free-threaded Pythons, which have the tag cp314-cp314t: in matrices, indexes, on pages and by pick."""

import pytest
from packaging.tags import Tag
from states import cell, entry, project, provenance
from test_pick_beside_torch import machine

from wheelsmith.base.errors import MatrixMistakesError
from wheelsmith.index.entries.catalogue import catalogue_of, dump_catalogue, load_catalogue
from wheelsmith.index.pick.decide import Overrides, decide
from wheelsmith.index.publish.input_folders import _cells_of
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.target import Choice, Target
from wheelsmith.index.site.human import human_pages
from wheelsmith.matrix.expand import expand
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.toolchain.resolve import _tags
from wheelsmith.toolchain.uv import Uv

MATRIX = "kernel: {{path: .}}\naxes: {{torch: [2.13], cuda: [cpu], python: [{}]}}\n{}"


def wheel(python):
    made = cell("2.13", "13.0", python=python)
    abi = f"cp{python.replace('.', '')}"
    tag = f"{abi.removesuffix('t')}-{abi}-manylinux_2_28_x86_64"
    return entry("1.0+cu130.torch2.13", made, tag=tag, provenance=provenance(made))


STATE = project(*map(wheel, ("3.13", "3.14", "3.14t")))


def test_the_axis_of_a_matrix():
    made = expand(parse_matrix(MATRIX.format("3.13t, 3.14, 3.14t", "")))
    assert [each.id.rpartition("-")[2] for each in made] == ["cp313t", "cp314", "cp314t"]
    rule = "rules: [{exclude: {python: '>=3.14'}, reason: x}, {exclude: {python: 3.13t}, reason: y}]"
    chosen = expand(parse_matrix(MATRIX.format("3.13, 3.13t, 3.14t", rule)))
    assert [type(each).__name__ for each in chosen] == ["Cell", "Excluded", "Excluded"]


@pytest.mark.parametrize("python", ["3.12t", "3.9t", "3.14tt", "3.14d"])
def test_no_such_python(python):
    with pytest.raises(MatrixMistakesError):
        parse_matrix(MATRIX.format(python, ""))


@pytest.mark.parametrize("python", ["3.13", "3.14", "3.14t"])
def test_pick_gives_each_python_its_own(python):
    found = decide(Chooser(catalogue_of(STATE)), machine(), Overrides(python=python, torch="2.13", compute="13.0"))
    assert isinstance(found.answer, Choice)
    assert found.answer.wheel.filename == wheel(python).filename
    assert found.target.python_minor == python


def test_what_is_near():
    wanted = Target(release="2.13", compute="cu130", arch="x86_64", python="3.15.2", free_threaded=True)
    (near,) = Chooser(catalogue_of(STATE)).choose(wanted).nearest
    assert (near.change, near.target.python, near.target.free_threaded) == ("Python 3.14", "3.14", False)
    (near,) = Chooser(catalogue_of(project(wheel("3.14t")))).choose(wanted).nearest
    assert (near.change, near.target.python, near.target.free_threaded) == ("Python 3.14t", "3.14", True)


def test_the_page_offers_it():
    (page,) = (data.decode() for key, data in human_pages(STATE).items() if key.endswith("index.html"))
    assert '<input type="radio" name="python" value="3.14t">' in page
    assert "torch=2.13&compute=cu130&arch=x86_64&python=3.14t" in page.replace("&amp;", "&").replace("\\u0026", "&")
    others = project(wheel("3.13"), wheel("3.14"))
    (page,) = (data.decode() for key, data in human_pages(others).items() if key.endswith("index.html"))
    assert "3.14t" not in page


def test_programs_read_it_again():
    read = load_catalogue(dump_catalogue(catalogue_of(STATE)), "k")
    assert sorted(each.python for wheel in read.wheels for each in wheel.cells) == ["3.13", "3.14", "3.14t"]


def test_a_wheel_of_any_origin():
    found = _cells_of("k-1.0+cu130.torch2.13-cp314-cp314t-manylinux_2_28_x86_64.whl", {"torch": "==2.13.*"})
    assert {each.python for each in found} == {"3.14t"}


def test_the_tags_of_its_build_environment():
    tags = [*_tags(Uv(settings=None, python="3.14t", arch="x86_64", cache=None, cancel=None))]
    assert tags[0] == Tag("cp314", "cp314t", "manylinux_2_28_x86_64")
    assert Tag("py3", "none", "any") in tags
    assert not {"abi3", "cp314"} & {tag.abi for tag in tags}
